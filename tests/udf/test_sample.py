"""What a task keeps of its documents for the report: few, chosen by key, bounded whatever comes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from pipeline.udf.merge import DocumentRecord, DocumentReject
from pipeline.udf.sample import NUM_LATENCIES, NUM_RECORDS, TaskSample

META = {"attempts": 1, "spans": None, "confidence": None}


def document(number: int, *, rejected: bool = False, key: bool = True) -> DocumentRecord | DocumentReject:
    name = f"d{number}"
    found = hashlib.sha256(name.encode()).hexdigest() if key else None
    meta = META | {"key": found, "latency_ms": 1.0 + number}
    if rejected:
        row = {"reason": "TOO_LONG", "detail": "x" * 50_000, "raw_output": None, "errors": None, "meta": meta}
        return DocumentReject(name, row)
    return DocumentRecord(name, {"n": number}, json.dumps({"n": number}), meta)


def chunks(text: str = "some text") -> list[dict[str, Any]]:
    return [{"text": text, "char_start": 0, "char_end": len(text)}]


def sampled(sample: TaskSample) -> dict[str, Any]:
    return dict(json.loads(sample.to_json()))


def test_the_documents_with_the_smallest_keys_are_kept_whatever_their_order() -> None:
    forwards, backwards = (TaskSample(partition=0, num_tasks=1) for _ in range(2))
    documents = [document(number) for number in range(500)]
    for one in documents:
        forwards.see(one, chunks())
    for one in reversed(documents):
        backwards.see(one, chunks())
    names = [entry["doc_id"] for entry in sampled(forwards)["records"]]
    assert names == sorted((d.doc_id for d in documents), key=lambda n: hashlib.sha256(n.encode()).hexdigest())[:30]
    assert sampled(forwards)["records"] == sampled(backwards)["records"]


@pytest.mark.parametrize("num_tasks", [1, 3, 64, 20_000])
def test_what_all_tasks_send_is_bounded(num_tasks: int) -> None:
    size = num_records = num_latencies = 0
    for partition, share in ((0, min(num_tasks, 64)), (64, num_tasks - 64)):
        if share > 0:
            sample = TaskSample(partition=partition, num_tasks=num_tasks)
            for number in range(300):
                sample.see(document(number), chunks("long " * 100_000))
                sample.see(document(number, rejected=True), chunks("long " * 100_000))
            found = sampled(sample)
            num_records += share * len(found["records"])
            num_latencies += share * len(found["latencies_ms"])
            size += share * len(sample.to_json())
            assert all(entry["num_chars"] == 500_000 for entry in found["records"] + found["rejects"])
    assert NUM_RECORDS <= num_records <= 4 * 64
    assert num_latencies <= 4 * NUM_LATENCIES
    assert size < 20e6 + num_tasks * 5000


def test_latencies_are_thinned_evenly_not_cut() -> None:
    sample = TaskSample(partition=0, num_tasks=1)
    for number in range(100_000):
        sample.see(document(number, key=number % 2 == 0), [])
    latencies = sampled(sample)["latencies_ms"]
    assert NUM_LATENCIES <= len(latencies) <= 2 * NUM_LATENCIES
    assert latencies[0] < 1000
    assert latencies[-1] > 99_000
