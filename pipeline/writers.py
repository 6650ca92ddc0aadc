"""Output files: written by tasks into a staging folder, moved into place by the driver when all of them are there.

On paper, one billion documents are 20,000 files in each of three datasets (:func:`num_files`).
The driver holds a name and a count of each, a few MB, and moves them 16 at a time: seconds where a move is a rename
(local, HDFS); where it is a copy (S3), at 100 ms each, six minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import OutputError
from pipeline.journal import CONFIDENCE_TYPE
from pipeline.schema import Schema, arrow_type
from pipeline.storage import Storage

RECORDS = "records.parquet"
RECORD_LINES = "records.jsonl"
REJECTS = "rejects.parquet"
MANIFEST = "manifest.json"
REPORT = "report.html"
STAGING = "_staging"
DOCUMENTS_PER_FILE = 50_000
_FEW_FILES, _FEW_DOCUMENTS = 8, 5_000
_ROWS_PER_GROUP = 5000
_CHARS_PER_GROUP = 32 << 20

SPAN_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("kind", pa.string()),
        ("score", pa.float64()),
        ("page", pa.int32()),
    ]
)
META_TYPE = pa.struct(
    [
        ("key", pa.string()),
        ("model", pa.string()),
        ("num_chunks", pa.int32()),
        ("attempts", pa.int32()),
        ("prompt_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("finish_reason", pa.string()),
        ("latency_ms", pa.float64()),
        ("conflicts", pa.list_(pa.string())),
        ("spans", pa.list_(SPAN_TYPE)),
        ("confidence", pa.list_(CONFIDENCE_TYPE)),
        ("page_starts", pa.list_(pa.int64())),
    ]
)
"""``spans`` say where in the document each value stands (:class:`pipeline.grounding.Span`), ``confidence`` how probable
it was to the model, ``page_starts`` where pages begin; offsets count code points, null where a run does without."""
REJECT_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("chunk_index", pa.int32()),
        ("char_start", pa.int64()),
        ("char_end", pa.int64()),
        ("finish_reason", pa.string()),
        ("raw_output", pa.string()),
        ("errors", pa.string()),
        ("attempts", pa.string()),
        ("meta", META_TYPE),
    ]
)


def record_schema(schema: Schema) -> pa.Schema:
    """Columns of the records: ``doc_id``, ``record`` typed by the user's schema, ``meta``."""
    return pa.schema([("doc_id", pa.string()), ("record", arrow_type(schema)), ("meta", META_TYPE)])


def num_files(num_documents: int) -> int:
    """Files of each dataset. It follows from the number of documents alone, so that results do not depend on where they
    were made; some thousand documents are already several files, so that several cores write them.
    """
    return max(1, min(_FEW_FILES, num_documents // _FEW_DOCUMENTS), -(-num_documents // DOCUMENTS_PER_FILE))


@dataclass(frozen=True, slots=True)
class Part:
    """A finished file in the staging folder and the dataset it belongs to."""

    dataset: str
    staged: str
    num_rows: int

    def to_json(self) -> str:
        return json.dumps([self.dataset, self.staged, self.num_rows])

    @classmethod
    def from_json(cls, text: str) -> Part:
        return cls(*json.loads(text))


class ParquetPart:
    """One Parquet file under construction; row groups bounded in rows and in ``weight`` (characters)."""

    def __init__(self, storage: Storage, path: str, schema: pa.Schema) -> None:
        self._schema = schema
        self._stream = storage.open_output(path)
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd")
        self._rows: list[Mapping[str, Any]] = []
        self._weight = 0
        self._path = path
        self.num_rows = 0

    def add(self, row: Mapping[str, Any], *, weight: int) -> None:
        self._rows.append(row)
        self._weight += weight
        self.num_rows += 1
        if len(self._rows) >= _ROWS_PER_GROUP or self._weight >= _CHARS_PER_GROUP:
            self._flush()

    def close(self) -> None:
        self._flush()
        _guard(self._path, self._writer.close)
        _guard(self._path, self._stream.close)

    def _flush(self) -> None:
        rows, self._rows, self._weight = self._rows, [], 0
        if not rows:
            return
        try:
            table = pa.Table.from_pylist(rows, schema=self._schema)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise OutputError(f"a value does not fit its column in {self._path}: {error}") from None
        _guard(self._path, lambda: self._writer.write_table(table))


class LinesPart:
    """One file of text lines under construction."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._stream = storage.open_output(path)
        self._path = path
        self._lines: list[str] = []
        self.num_rows = 0

    def add(self, line: str) -> None:
        self._lines.append(line)
        self.num_rows += 1
        if len(self._lines) >= 1000:
            self._flush()

    def close(self) -> None:
        self._flush()
        _guard(self._path, self._stream.close)

    def _flush(self) -> None:
        if self._lines:
            data = ("\n".join(self._lines) + "\n").encode("utf-8")
            self._lines = []
            _guard(self._path, lambda: self._stream.write(data))


def write_empty(storage: Storage, path: str, dataset: str, schema: Schema) -> Part:
    """A file of no rows, for a dataset that no task had rows for."""
    if dataset == RECORD_LINES:
        LinesPart(storage, path).close()
    else:
        ParquetPart(storage, path, record_schema(schema) if dataset == RECORDS else REJECT_SCHEMA).close()
    return Part(dataset, path, 0)


def commit(
    storage: Storage,
    parts: Sequence[Part],
    *,
    datasets: Sequence[str],
    manifest: Mapping[str, Any],
    report: str | None = None,
) -> None:
    """Put staged parts (and the report) in place of what is there; the manifest goes first and comes back last.

    A folder without a manifest is unfinished: the same command run again finishes it.

    Raises:
        OutputError: the file system refuses; the journal is untouched.
    """
    storage.delete(MANIFEST)
    for name in (RECORDS, RECORD_LINES, REJECTS, REPORT):
        storage.delete(name)
    for dataset in datasets:
        storage.make_folder(dataset)
        mine = sorted((part for part in parts if part.dataset == dataset), key=lambda part: part.staged)
        mine.sort(key=lambda part: _partition_of(part.staged))
        names = (f"{dataset}/part-{number:05d}.{part.staged.rpartition('.')[2]}" for number, part in enumerate(mine))
        storage.move_all(zip((part.staged for part in mine), names, strict=True))
    if report is not None:
        storage.write(REPORT, report.encode("utf-8", "backslashreplace"))
    storage.write(MANIFEST, (json.dumps(manifest, indent=2, ensure_ascii=False, default=str) + "\n").encode())
    storage.delete(STAGING)


def staged_path(round_id: str, partition: int, attempt: int, dataset: str) -> str:
    """Where a task attempt puts its file of a dataset; unique per attempt."""
    suffix = "jsonl" if dataset == RECORD_LINES else "parquet"
    return f"{STAGING}/{round_id}/{dataset}/{partition:06d}-{attempt}.{suffix}"


def _partition_of(staged: str) -> str:
    return staged.rpartition("/")[2]


def _guard(path: str, write: Callable[[], object]) -> None:
    try:
        write()
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}",
            hint="check free space and permissions, then run the same command again: it resumes",
        ) from None
