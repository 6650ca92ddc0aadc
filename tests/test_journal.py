"""The journal: outcomes as rows, atomic files, flush by number and by time, errors that are not lost."""

from __future__ import annotations

import io
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.config import JournalConfig
from pipeline.data import Attempt, Chunk, FieldError, Record, Reject, RejectReason
from pipeline.errors import OutputError
from pipeline.journal import OUTCOME_SCHEMA, JournalWriter, count_outcomes, keys_of, outcome_row
from pipeline.markers import Marker
from pipeline.metrics import Counts
from pipeline.storage import Storage


def _chunk(number: int) -> Chunk:
    return Chunk(f"d{number}", 0, 1, "text", 0, 4, key=f"key{number}")


def _record(number: int) -> Record:
    attempts = (
        Attempt(1, '{"a": "x"}', "stop", 10, 5, 3.0, errors=(FieldError("/a", "expected a number"),)),
        Attempt(2, '{"a": 1}', "stop", 20, 5, 4.0),
    )
    return Record(_chunk(number), {"a": 1}, '{"a":1}', attempts)


def _writer(
    storage: Storage, *, outcomes: int = 2, interval_s: float = 60.0, prefix: str = "r1-p0-t0"
) -> JournalWriter:
    config = JournalConfig(flush_outcomes=outcomes, flush_interval_s=interval_s)
    return JournalWriter(storage, prefix=prefix, config=config)


def test_a_record_keeps_failed_outputs_and_not_the_last_one() -> None:
    row = outcome_row(_record(1), now_us=5)
    assert row["json"] == '{"a":1}'
    assert row["reason"] is None
    assert [attempt["raw_output"] for attempt in row["attempts"]] == ['{"a": "x"}', None]
    assert "expected a number" in row["attempts"][0]["errors"]


def test_a_reject_keeps_everything_even_a_lone_surrogate() -> None:
    attempt = Attempt(1, '{"a": "\ud800', "length", 10, 5, 3.0)
    row = outcome_row(Reject(_chunk(1), RejectReason.TRUNCATED, "too long", (attempt,)), now_us=5)
    assert row["reason"] == "TRUNCATED"
    assert row["attempts"][0]["raw_output"] == '{"a": "\\ud800'


def test_outcomes_are_written_in_files_of_the_declared_schema(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    writer = _writer(storage)
    for number in range(5):
        writer.add(_record(number))
    writer.close()
    tables = [pq.read_table(io.BytesIO(storage.read(f.path) or b"")) for f in storage.files("outcomes")]
    assert sum(table.num_rows for table in tables) == 5
    assert all(table.schema.equals(OUTCOME_SCHEMA) for table in tables)
    assert count_outcomes(storage) == 5
    assert keys_of(storage, prefix="r1-p0-") == {f"key{n}" for n in range(5)}
    assert keys_of(storage, prefix="r1-p1-") == set()


def test_a_fast_worker_writes_few_files(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    writer = _writer(storage, outcomes=10)
    for number in range(1000):
        writer.add(_record(number))
    writer.close()
    assert writer.num_outcomes == 1000
    assert writer.num_files <= 1000 // 160 + 3


def test_waiting_outcomes_are_written_when_the_time_is_over(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    writer = _writer(storage, outcomes=1000, interval_s=0.1)
    writer.add(_record(1))
    deadline = time.monotonic() + 10
    while not storage.files("outcomes") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(storage.files("outcomes")) == 1
    writer.close()


def test_two_attempts_of_one_task_never_share_a_file_name(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    for _ in range(2):
        writer = _writer(storage)
        writer.add(_record(1))
        writer.close()
    assert len(storage.files("outcomes")) == 2


def test_a_journal_that_cannot_be_written_stops_the_worker_with_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "outcomes").write_text("a file where a folder should be")
    writer = _writer(Storage(str(tmp_path)))
    writer.add(_record(1))
    with pytest.raises(OutputError, match=r"cannot write .*outcomes.*resumes"):
        writer.close()


def test_an_error_of_the_timer_is_raised_by_the_next_outcome(tmp_path: Path) -> None:
    (tmp_path / "outcomes").write_text("a file where a folder should be")
    writer = _writer(Storage(str(tmp_path)), outcomes=100, interval_s=0.05)
    writer.add(_record(1))
    deadline = time.monotonic() + 10
    while writer._error is None and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(OutputError):
        writer.add(_record(2))


def test_a_write_that_the_system_cuts_short_leaves_no_half_file(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # what a full disk or a quota does to a writer
    try:
        with pytest.raises(OutputError, match=r"cannot write .*x\.parquet: File too large"):
            storage.write("outcomes/x.parquet", b"d" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "outcomes").iterdir()) == []


def test_the_journal_takes_less_than_two_percent_of_the_time_of_a_gpu(tmp_path: Path) -> None:
    """At 100 documents a second, with markers, reports, and outcomes of about 2 KB; every file is synced.

    Ten times as fast here, so that as many files are written while the loop goes on as in ten times the time.
    """
    text = json.dumps({"a": [f"line {number} of a record" for number in range(80)]})
    outcomes = [Record(_chunk(number), {}, text, (Attempt(1, text, "stop", 900, 400, 3.0),)) for number in range(2048)]
    measured = [_held_and_cpu(Storage(str(tmp_path / name)), outcomes) for name in "ab"]
    held, cpu = (min(values) / (len(outcomes) / 100) for values in zip(*measured, strict=True))
    print(f"journal: the engine waits {held:.2%} of the time at 100 documents/s; {cpu:.2%} of a core for all of it")
    assert held < 0.02
    assert cpu < 0.02


def _held_and_cpu(storage: Storage, outcomes: Sequence[Record]) -> tuple[float, float]:
    """Seconds that the loop spent in calls, and CPU seconds of all threads."""
    writer, marker = (
        JournalWriter(storage, prefix="r1-p0-t0", config=JournalConfig()),
        Marker(storage, prefix="r1-p0-t0"),
    )
    held_s, cpu_s = 0.0, time.process_time()
    for number, outcome in enumerate(outcomes):
        started = time.perf_counter()
        if number % 32 == 0:
            marker.start([other.chunk.key for other in outcomes[number : number + 32]])
        writer.add(outcome)
        marker.finish(outcome.chunk.key)
        if number % 100 == 0:
            storage.write("progress/r1-p0-t0.json", Counts().to_json(), durable=False)
        held_s += time.perf_counter() - started
        time.sleep(0.001)
    writer.close()
    assert writer.num_outcomes == len(outcomes)
    return held_s, time.process_time() - cpu_s


def test_a_store_that_is_slow_holds_nobody_until_it_has_fallen_far_behind(tmp_path: Path) -> None:
    class SlowStorage(Storage):
        def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
            time.sleep(0.3)
            super().write(path, data, durable=durable)

    writer = JournalWriter(SlowStorage(str(tmp_path)), prefix="t", config=JournalConfig(flush_outcomes=2))
    started = time.perf_counter()
    for number in range(60):
        writer.add(_record(number))
    assert time.perf_counter() - started < 0.25
    for number in range(60, 200):
        writer.add(_record(number))
    assert time.perf_counter() - started > 0.3, "outcomes must not pile up in memory"
    writer.close()
    assert count_outcomes(Storage(str(tmp_path))) == 200
