"""Files of documents: listing and checking on the driver, streaming in tasks."""

from __future__ import annotations

import csv
import glob
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, get_args

import pyarrow as pa

from pipeline.data import RejectReason
from pipeline.documents import FileFormat
from pipeline.errors import ConfigError, InputError
from pipeline.line_ranges import count_lines, lines_of
from pipeline.storage import Storage
from pipeline.udf.arrow import batches_of
from pipeline.udf.files import file_rows

SPLIT_BYTES = 64 << 20
ID_COLUMNS = ("doc_id", "id")
"""Columns that name a document where the settings name none."""
_MAX_SHOWN = 30
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_DOCUMENT_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("doc_id", pa.string()),
        ("text", pa.string()),
        ("metadata", pa.map_(pa.string(), pa.string())),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)
_FILE_ROWS = {kind: file_rows(kind) for kind in get_args(FileFormat)}
Row = dict[str, Any]
Read = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One input file; ``name`` is its path below the input folder."""

    uri: str
    name: str
    size_bytes: int

    @property
    def suffix(self) -> str:
        """The suffix that tells the format, without that of a compression."""
        base = self.name.lower()
        for compressed in _COMPRESSED:
            base = base.removesuffix(compressed)
        dot = base.rfind(".")
        return base[dot:] if dot > base.rfind("/") else ""

    @property
    def is_compressed(self) -> bool:
        return self.name.lower().endswith(_COMPRESSED)


def list_files(path: str, *, suffix: tuple[str, ...] | None) -> list[SourceFile]:
    """Visible files at a path: a file, a folder (recursively) or a local glob; sorted by name.

    A named file is taken whatever its suffix. Raises :class:`InputError` where there is nothing.
    """
    if "://" not in path and any(c in path for c in "*?["):
        names = sorted(glob.glob(path, recursive=True))
        found = [file for name in names for file in list_files(name, suffix=suffix)]
        found = list({file.uri: file for file in found}.values())  # ** names a folder and what is in it
        if not found:
            raise InputError(f"no file matches {path}")
        return found
    storage = Storage(path)
    folder = storage.files(recursive=True)
    files = [SourceFile(storage.uri(f.path), f.path, f.size_bytes) for f in folder]
    if files:
        files = [f for f in files if not any(part.startswith((".", "_")) for part in f.name.split("/"))]
        kept = [f for f in files if suffix is None or f.suffix in suffix]
        if not kept:
            raise InputError(f"{path} has no file that ends in {' or '.join(suffix or ())}")
        return kept
    parent, _, name = storage.root.rpartition("/")
    single = [f for f in Storage(parent or ("." if "/" not in storage.root else "/")).files() if f.name == name]
    if single:
        return [SourceFile(storage.uri(""), name, single[0].size_bytes)]
    raise InputError(f"{path} does not exist" if not storage.exists() else f"{path} has no files")


def check_columns(files: list[SourceFile], *, kind: str, id_column: str | None, text_column: str) -> str | None:
    """The id column to use, None where documents are named by file and line; looks at the head of the first file.

    Raises:
        ConfigError: a column is missing.
        InputError: the file cannot be read, or holds nothing of its format.
    """
    if kind in ("text", *_FILE_ROWS):
        return None
    try:
        columns = _csv_header(files) if kind == "csv" else _json_fields(files[0])
    except OSError as error:
        raise InputError(f"cannot read {files[0].name}: {error}") from None
    if not columns:
        return id_column
    for name, option in ((text_column, "--text-column"), (id_column, "--id-column")):
        if name is not None and name not in columns:
            raise ConfigError(
                f"{files[0].name} has no column {name!r}; it has {_shortly(columns)}", hint=f"pass {option} NAME"
            )
    return id_column or next((name for name in ID_COLUMNS if name in columns), None)


def _shortly(names: Sequence[str]) -> str:
    """Names for a message. What is taken for a header may be a document, and its text is for no log."""
    if max(map(len, names)) > _MAX_SHOWN:
        return f"{len(names)}, too long to be names"
    return ", ".join([*names[:_MAX_SHOWN], *["…"] * (len(names) > _MAX_SHOWN)])


def split_file(file: SourceFile) -> list[tuple[int, int]]:
    """Byte ranges in which a JSON Lines file is read."""
    if file.is_compressed:
        return [(0, 1 << 62)]  # its size says nothing about the size of what is in it
    if file.size_bytes <= SPLIT_BYTES:
        return [(0, file.size_bytes)]
    starts = range(0, file.size_bytes, SPLIT_BYTES)
    return [(start, min(start + SPLIT_BYTES, file.size_bytes)) for start in starts]


def read_function(kind: str, *, id_column: str | None, text_column: str, limit: int | None) -> Read:
    """Parts (index, uri, name, start, stop, first_line) to documents; at most ``limit`` from each part."""
    make = {"jsonl": _jsonl_rows, "csv": _csv_rows, "text": _text_rows, **_FILE_ROWS}[kind]

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        for part in (part for batch in batches for part in batch.to_pylist()):
            for number, row in enumerate(make(part, id_column, text_column)):
                if limit is not None and number >= limit:
                    break
                yield {"position": (part["index"] << 33) + number, "metadata": {}, "reason": None, "detail": None} | row

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches_of(rows(batches), schema=_DOCUMENT_SCHEMA, text_column="text")

    return run


def count_function() -> Read:
    """Parts to the number of lines that begin in each."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in (part for batch in batches for part in batch.to_pylist()):
            num_lines = count_lines(part["uri"], part["start"], part["stop"])
            schema = pa.schema([("index", pa.int32()), ("lines", pa.int64())])
            yield pa.RecordBatch.from_pylist([{"index": part["index"], "lines": num_lines}], schema=schema)

    return run


def _jsonl_rows(part: Row, id_column: str | None, text_column: str) -> Iterator[Row]:
    for number, line in enumerate(lines_of(part["uri"], part["start"], part["stop"])):
        line_number = part["first_line"] + number
        stripped = line.strip()
        if stripped:
            place = f"{part['name']}:{line_number}"
            yield _jsonl_row(stripped, place, id_column, text_column)


def _jsonl_row(line: bytes, place: str, id_column: str | None, text_column: str) -> Row:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        known = _loads(line.decode("utf-8", "replace"))
        doc_id = _scalar(known.get(id_column)) if isinstance(known, dict) and id_column else None
        return _bad(doc_id or place, f"{place}: byte {error.start} of the line is not UTF-8")
    value = _loads(text)
    if not isinstance(value, dict):
        kind = "no JSON" if value is None else f"JSON, but no object: {type(value).__name__}"
        return _bad(place, f"{place}: the line is {kind}")
    doc_id = _scalar(value.get(id_column)) if id_column else place
    if doc_id is None:
        return _bad(place, f"{place}: field {id_column!r} is missing or no text")
    document = value.get(text_column)
    if document is None:
        reason = str(RejectReason.EMPTY_INPUT)
        return {"doc_id": doc_id, "text": None, "reason": reason, "detail": f"{place}: no field {text_column!r}"}
    if not isinstance(document, str):
        return _bad(doc_id, f"{place}: field {text_column!r} is no text but {type(document).__name__}")
    return _checked(doc_id, document, place)


def _csv_rows(part: Row, id_column: str | None, text_column: str) -> Iterator[Row]:
    csv.field_size_limit(1 << 30)
    with _open(part["uri"]) as raw:
        stream = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        ended: list[str] = []
        reader = csv.DictReader(chain(stream, filter(ended.append, [""])))  # gives no line, but says that it was asked
        for row in reader:
            place = f"{part['name']}:{reader.line_num}"
            doc_id = row.get(id_column) if id_column else place
            text = row.get(text_column)
            if ended:  # within a row: all others end with their line
                yield _bad(doc_id or place, f"{place}: a quote is open at the end of the file, which is all one row")
            elif not doc_id:
                yield _bad(place, f"{place}: column {id_column!r} is empty")
            elif text is None:
                yield _bad(doc_id, f"{place}: the row has too few columns")
            else:
                yield _checked(doc_id, text, place)


def _text_rows(part: Row, id_column: str | None, text_column: str) -> Iterator[Row]:
    with _open(part["uri"]) as raw:
        data = raw.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield _bad(part["name"], f"{part['name']}: byte {error.start} is not UTF-8")
        return
    yield {"doc_id": part["name"], "text": text}


def _checked(doc_id: str, text: str, place: str) -> Row:
    """A document, unless its text holds lone surrogates (escaped in JSON, or bytes that are no UTF-8 in CSV)."""
    try:
        (doc_id + text).encode("utf-8")
    except UnicodeEncodeError:
        safe = doc_id.encode("utf-8", "backslashreplace").decode("utf-8")
        return _bad(safe, f"{place}: the text is not valid Unicode")
    return {"doc_id": doc_id, "text": text}


def _bad(doc_id: str, detail: str) -> Row:
    return {"doc_id": doc_id, "text": None, "reason": str(RejectReason.UNDECODABLE_INPUT), "detail": detail}


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _scalar(value: Any) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _open(uri: str) -> Any:
    return Storage(uri).open_input()


def _csv_header(files: list[SourceFile]) -> list[str]:
    with _open(files[0].uri) as raw:
        stream = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        header = next(csv.reader(stream), None)
    if not header:
        raise InputError(f"{files[0].name} is empty: a CSV file begins with a header line")
    return header


def _json_fields(file: SourceFile) -> list[str]:
    """Fields of the first lines together; none where no line is an object (the rows will say why)."""
    fields: dict[str, None] = {}
    for number, line in enumerate(lines_of(file.uri, 0, file.size_bytes if not file.is_compressed else 1 << 62)):
        value = _loads(line.decode("utf-8", "replace"))
        if isinstance(value, dict):
            fields.update(dict.fromkeys(value))
        if number >= 20:
            break
    return list(fields)
