"""What a job shows a person: a progress line that replaces itself, and the table at the end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from pipeline.progress import format_duration
from pipeline.run import RunResult
from pipeline.storage import Storage
from pipeline.writers import RECORD_LINES, RECORDS, REJECTS, REPORT

_NUM_SHOWN = 3
_MAX_CHARS = 160


class Terminal:
    """Lines on standard error; the progress line only where a person can see it replace itself."""

    def __init__(self, *, quiet: bool, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._width = 0
        self._screen = None if quiet else _screen(self._stream)

    @property
    def is_live(self) -> bool:
        return self._screen is not None

    def show(self, line: str) -> None:
        """Replace the progress line."""
        assert self._screen is not None
        self._screen.write("\r" + line.ljust(self._width))
        self._screen.flush()
        self._width = len(line)

    def say(self, line: str) -> None:
        """A line that stays."""
        self.clear()
        if not self._quiet:
            print(line, file=self._stream, flush=True)

    def clear(self) -> None:
        if self._width and self._screen is not None:
            self._screen.write("\r" + " " * self._width + "\r")
            self._screen.flush()
            self._width = 0


def _screen(stream: TextIO) -> TextIO | None:
    """Where a person looks: the stream, or the terminal of ``spark-submit``, which puts a pipe between."""
    if stream.isatty():
        return stream
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    try:
        behind = os.readlink(f"/proc/{os.getppid()}/fd/2")
        return open(behind, "w", encoding="utf-8") if behind.startswith(("/dev/pts/", "/dev/tty")) else None
    except OSError:
        return None


def summary(result: RunResult) -> Iterator[str]:
    """The table at the end: counts, where the results are, a few records."""
    manifest = result.manifest
    storage = Storage(result.output)
    reasons = ", ".join(f"{number} {reason}" for reason, number in manifest["rejects_by_reason"].items())
    rows = [
        ("documents", f"{manifest['documents']} ({manifest['resumed_documents']} done before)"),
        ("records", f"{manifest['records']}"),
        ("rejects", f"{manifest['rejects']}" + (f" ({reasons})" if reasons else "")),
        ("retried", f"{manifest['retried_documents']}"),
        ("tokens", f"{manifest['tokens']['prompt']} prompt, {manifest['tokens']['output']} output"),
        ("time", _times(manifest)),
        *_dspark(manifest),
    ]
    for dataset in (RECORDS, RECORD_LINES, REJECTS):
        if storage.exists(dataset):
            rows.append((dataset, storage.uri(dataset)))
    if storage.exists(REPORT):
        rows.append(("report", storage.uri(REPORT)))
    rows.append(("manifest", storage.uri("manifest.json")))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        yield f"  {name.ljust(width)}  {value}"
    yield from _first_records(storage)


def _dspark(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """What DSpark did in this run; nothing where no engine was used, or where it was not asked for."""
    counters = manifest["engine"]["counters"]
    if "engine_steps" not in counters or not manifest["settings"]["dspark"]["enabled"]:
        return []
    if not counters.get("num_drafted"):
        return [("dspark", "off: nothing was drafted; the worker's log says why")]
    length, rate = counters["mean_acceptance_length"], counters["acceptance_rate"]
    return [("dspark", f"{length:.2f} tokens per step, {rate:.0%} of the drafts accepted")]


def _times(manifest: dict[str, Any]) -> str:
    timings = manifest["timings_s"]
    load_s = manifest["engine"]["load_s"]
    loading = f", model load {format_duration(load_s)}" if load_s >= 1 else ""
    return f"{format_duration(timings['total'])} (extraction {format_duration(timings.get('extract', 0.0))}{loading})"


def _first_records(storage: Storage) -> Iterator[str]:
    lines = _lines(storage)
    if lines:
        yield "first records:"
    for line in lines:
        yield "  " + (line if len(line) <= _MAX_CHARS else line[: _MAX_CHARS - 3] + "...")


def _lines(storage: Storage) -> list[str]:
    for file in storage.files(RECORD_LINES):
        with storage.open_input(file.path) as stream:
            head = stream.read(1 << 16).decode("utf-8", "replace").splitlines()
        if head:
            return [str(line) for line in head[:_NUM_SHOWN]]
    if storage.exists(RECORD_LINES):
        return []
    import pyarrow.parquet as pq

    for file in storage.files(RECORDS):
        with storage.open_input_file(file.path) as source:
            for batch in pq.ParquetFile(source).iter_batches(batch_size=_NUM_SHOWN, columns=["doc_id", "record"]):
                rows = batch.to_pylist()
                return [
                    json.dumps({"doc_id": r["doc_id"], **r["record"]}, ensure_ascii=False, default=str) for r in rows
                ]
    return []
