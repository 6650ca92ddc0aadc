"""The append-only journal of outcomes: small immutable Parquet files, at least once, deduplicated by key when read.

Layout below a run's ``_journal`` folder::

    run.json                what the run is (settings, fingerprints)
    .lock                   on a local file system, held by the run in progress
    outcomes/*.parquet      outcomes; file names are unique per task attempt, each file is written in one atomic step
    started/*.json          keys handed to an engine and not done yet (see :mod:`pipeline.markers`)
    progress/*.json         one small file per task attempt, replaced every second (see :mod:`pipeline.progress`)
    plan/                   chunks of the run in progress; removed when it is finished

A worker appends whenever ``flush_outcomes`` outcomes wait, or the oldest waits for ``flush_interval_s``. A worker that
is faster than that writes at most two files a second, so that the number of files is bounded by time, not by
documents. What a crash loses is what waited, or was being written.

On paper, one billion documents on 1,000 GPUs: at 100 documents/s per GPU a run takes about three hours; with the
defaults each worker writes a file every 2.5 s, 4 million files in all, which is more than an object store lists
quickly. Set ``flush_outcomes`` to 10,000 and ``flush_interval_s`` to 120: 100,000 files, two minutes of one GPU lost
in a crash. Compaction (:mod:`pipeline.compaction`) folds them into files of a million outcomes when a run starts. The
anti-join of a resumed run shuffles 64 bytes per key, 64 GB for a billion: minutes on the cluster's CPUs.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import JournalConfig
from pipeline.data import Outcome, Record
from pipeline.storage import Storage

logger = logging.getLogger(__name__)

FOLDER = "_journal"
OUTCOMES = "outcomes"
MIN_FLUSH_SPACING_S = 0.5
MAX_WAITING_FACTOR = 16
"""A flush is put off for :data:`MIN_FLUSH_SPACING_S` until this many times ``flush_outcomes`` wait."""

CONFIDENCE_TYPE = pa.struct([("path", pa.string()), ("confidence", pa.float64())])
ATTEMPT_TYPE = pa.struct(
    [
        ("number", pa.int32()),
        ("finish_reason", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("output_tokens", pa.int32()),
        ("num_cached_tokens", pa.int32()),
        ("latency_ms", pa.float64()),
        ("raw_output", pa.string()),
        ("errors", pa.string()),
    ]
)
OUTCOME_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("json", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("errors", pa.string()),
        ("attempts", pa.list_(ATTEMPT_TYPE)),
        ("finished_at", pa.timestamp("us", tz="UTC")),
        ("confidence", pa.list_(CONFIDENCE_TYPE)),
    ]
)
"""``json`` is null for rejects, ``reason`` for records; ``errors`` are JSON lists of field errors. ``confidence`` is
null where nobody asked for it."""


def outcome_row(outcome: Outcome, *, now_us: int) -> dict[str, Any]:
    """An outcome as a row of :data:`OUTCOME_SCHEMA`. Raw outputs are kept where somebody will want to read them."""
    is_record = isinstance(outcome, Record)
    last = len(outcome.attempts)
    return {
        "key": outcome.chunk.key,
        "json": outcome.json if isinstance(outcome, Record) else None,
        "reason": None if isinstance(outcome, Record) else str(outcome.reason),
        "detail": None if isinstance(outcome, Record) else outcome.detail,
        "errors": None if isinstance(outcome, Record) else errors_json(outcome.errors),
        "attempts": [
            {
                "number": attempt.number,
                "finish_reason": attempt.finish_reason,
                "prompt_tokens": attempt.prompt_tokens,
                "output_tokens": attempt.output_tokens,
                "num_cached_tokens": attempt.num_cached_tokens,
                "latency_ms": attempt.latency_ms,
                "raw_output": None if is_record and attempt.number == last else storable(attempt.raw_output),
                "errors": errors_json(attempt.errors),
            }
            for attempt in outcome.attempts
        ],
        "finished_at": now_us,
        "confidence": confidence_rows(outcome.confidence) if isinstance(outcome, Record) else None,
    }


def confidence_rows(confidence: Mapping[str, float] | None) -> list[dict[str, Any]] | None:
    """Confidences by JSON pointer as rows of :data:`CONFIDENCE_TYPE`."""
    if confidence is None:
        return None
    return [{"path": storable(path), "confidence": round(value, 6)} for path, value in confidence.items()]


def errors_json(errors: Sequence[Any]) -> str | None:
    """Field errors as JSON text, None for none."""
    return storable(json.dumps([asdict(error) for error in errors], ensure_ascii=False)) if errors else None


def storable(text: str) -> str:
    """Text without lone surrogates, which Parquet cannot hold; they become their escapes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


class JournalWriter:
    """Appends the outcomes of one task attempt; a thread of its own writes them, so that the engine never waits for a
    disk or a store that is not slower than itself.

    ``prefix`` must be unique per task attempt. ``on_flush`` is called with the number of outcomes after each file.
    An error of the thread is raised by the next :meth:`add` or by :meth:`close`.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        prefix: str,
        config: JournalConfig,
        on_flush: Callable[[int], None] | None = None,
    ) -> None:
        self._storage = storage
        self._prefix = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self._config = config
        self._on_flush = on_flush
        self._rows: list[dict[str, Any]] = []
        self._changed = threading.Condition()  # guards the rows; told when a flush is due, and when one is over
        self._one_file = threading.Lock()
        self._oldest_s = self._last_flush_s = 0.0
        self._error: BaseException | None = None
        self._closed = False
        self.num_files = self.num_outcomes = 0
        self.write_s = 0.0
        self._thread = threading.Thread(target=self._watch, name="journal", daemon=True)
        self._thread.start()

    def add(self, outcome: Outcome) -> None:
        """Take an outcome. Waits only where the store has fallen behind by several files.

        Raises:
            OutputError: the journal cannot be written.
        """
        row = outcome_row(outcome, now_us=time.time_ns() // 1000)
        with self._changed:
            if not self._rows:
                self._oldest_s = time.monotonic()
            self._rows.append(row)
            if self._is_due():
                self._changed.notify_all()
            most = 2 * MAX_WAITING_FACTOR * self._config.flush_outcomes
            self._changed.wait_for(lambda: self._error is not None or len(self._rows) < most)
            if self._error is not None:
                raise self._error

    def flush(self) -> None:
        """Write what waits."""
        with self._one_file:
            with self._changed:
                rows, self._rows = self._rows, []
            if not rows:
                return
            started = time.monotonic()
            sink = pa.BufferOutputStream()
            table = pa.Table.from_pylist(rows, schema=OUTCOME_SCHEMA)
            pq.write_table(table, sink, compression="zstd", write_statistics=False)
            name = f"{self._prefix}-{self.num_files:06d}.parquet"
            self._storage.write(f"{OUTCOMES}/{name}", sink.getvalue().to_pybytes())
            self.num_files += 1
            self.num_outcomes += len(rows)
            with self._changed:
                self._last_flush_s = time.monotonic()
                self._changed.notify_all()
            self.write_s += self._last_flush_s - started
        if self._on_flush is not None:
            self._on_flush(len(rows))

    def close(self) -> None:
        """Write what waits and stop the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        if self._error is not None:
            raise self._error
        self.flush()

    def _is_due(self) -> bool:
        now, waiting, limit = time.monotonic(), len(self._rows), self._config.flush_outcomes
        if not waiting:
            return False
        if waiting >= limit * MAX_WAITING_FACTOR or now - self._oldest_s >= self._config.flush_interval_s:
            return True
        return waiting >= limit and now - self._last_flush_s >= MIN_FLUSH_SPACING_S

    def _watch(self) -> None:
        pause_s = min(MIN_FLUSH_SPACING_S, self._config.flush_interval_s)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._is_due(), timeout=pause_s)
                if self._closed:
                    return
                is_due = self._is_due()
            try:
                if is_due:
                    self.flush()
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return


def keys_of(storage: Storage, *, prefix: str) -> set[str]:
    """Keys in the journal files whose names begin with ``prefix``: what earlier attempts of a task already did."""
    keys: set[str] = set()
    for file in storage.files(OUTCOMES):
        if file.name.startswith(prefix):
            data = storage.read(file.path)
            if data is not None:
                keys.update(pq.read_table(pa.BufferReader(data), columns=["key"]).column("key").to_pylist())
    return keys


def count_outcomes(storage: Storage) -> int:
    """Number of outcomes in the journal by the files' footers, work done twice counted twice."""
    total = 0
    for file in storage.files(OUTCOMES):
        with storage.open_input_file(file.path) as source:
            total += pq.ParquetFile(source).metadata.num_rows
    return total
