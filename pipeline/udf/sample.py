"""What an output task keeps of its documents for the report: a few whole ones, and latencies.

The output stage has every document with its text, record and spans in hand, so a report costs no pass of its own. Which
documents are kept depends on their keys alone: the smallest ones. What comes to the driver is bounded however many
tasks there are; documents are spread over tasks by a hash of their id, so those of the first tasks are as good as any.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.report_sample import MAX_TEXT_CHARS
from pipeline.udf.ground import text_of
from pipeline.udf.merge import DocumentRecord, DocumentReject

NUM_RECORDS, NUM_REJECTS, NUM_LATENCIES = 30, 30, 5000
_MAX_TASKS = 64
"""Tasks beyond keep no records, and of rejects one, shortened: rejects may be few, and far apart."""
_SHORT_CHARS = 2000

Document = DocumentRecord | DocumentReject
Chunks = Sequence[Mapping[str, Any]]


class TaskSample:
    """Sees every document of one task; ``partition`` counts from 0, ``num_tasks`` is how many share the work."""

    def __init__(self, *, partition: int, num_tasks: int) -> None:
        self._is_full = partition < _MAX_TASKS
        share = min(num_tasks, _MAX_TASKS)
        self._records = _Smallest(_share(NUM_RECORDS, share) if self._is_full else 0)
        self._rejects = _Smallest(_share(NUM_REJECTS, share) if self._is_full else 1)
        self._latencies: list[float] = []
        self._max_latencies = math.ceil(NUM_LATENCIES / share) if self._is_full else 0
        self._stride = 1
        self._num_seen = 0

    def see(self, document: Document, chunks: Chunks) -> None:
        """Take note of a document; ``chunks`` are its own, with their texts where the stage has them."""
        is_record = isinstance(document, DocumentRecord)
        meta = document.meta if isinstance(document, DocumentRecord) else document.row["meta"]
        (self._records if is_record else self._rejects).offer(meta["key"] or _hash(document.doc_id), document, chunks)
        self._num_seen += 1
        if self._max_latencies and meta["latency_ms"] > 0 and self._num_seen % self._stride == 0:
            self._latencies.append(round(meta["latency_ms"], 1))
            if len(self._latencies) > 2 * self._max_latencies:
                self._latencies, self._stride = self._latencies[::2], self._stride * 2

    def to_json(self) -> str:
        """For :func:`pipeline.report_data.collect_report_data`."""
        limit = MAX_TEXT_CHARS if self._is_full else _SHORT_CHARS
        return json.dumps(
            {
                "records": [_record(*kept, limit) for kept in self._records.kept],
                "rejects": [_reject(*kept, limit) for kept in self._rejects.kept],
                "latencies_ms": self._latencies[: self._max_latencies * 2],
            }
        )


class _Smallest:
    """The documents with the smallest keys."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.kept: list[tuple[str, Document, Chunks]] = []

    def offer(self, key: str, document: Document, chunks: Chunks) -> None:
        if self._limit == 0 or (len(self.kept) == self._limit and key >= self.kept[-1][0]):
            return
        insort(self.kept, (key, document, chunks), key=lambda kept: (kept[0], kept[1].doc_id))
        del self.kept[self._limit :]


def _share(number: int, num_tasks: int) -> int:
    """More than an equal share: by chance a task has more of the smallest keys, or most of the rejects."""
    return min(number, math.ceil(2 * number / num_tasks) + 1)


def _hash(doc_id: str) -> str:
    return hashlib.sha256(doc_id.encode("utf-8", "surrogatepass")).hexdigest()


def _record(key: str, record: Document, chunks: Chunks, limit: int) -> dict[str, Any]:
    assert isinstance(record, DocumentRecord)
    meta = record.meta
    shown = {name: meta[name] for name in ("attempts", "spans", "confidence")}
    return {"key": key, "doc_id": record.doc_id, "json": record.json, **shown, **_text(chunks, limit)}


def _reject(key: str, reject: Document, chunks: Chunks, limit: int) -> dict[str, Any]:
    assert isinstance(reject, DocumentReject)
    shown = {name: reject.row[name] for name in ("reason", "detail", "raw_output", "errors")}
    shown = {name: value if value is None or name == "errors" else value[:limit] for name, value in shown.items()}
    return {"key": key, "doc_id": reject.doc_id, **shown, **_text(chunks, limit)}


def _text(chunks: Chunks, limit: int) -> dict[str, Any]:
    text = text_of(chunks)
    return {"text": text[:limit], "num_chars": len(text)}
