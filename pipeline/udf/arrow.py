"""Arrow batches to nouns and back: the columns that stages exchange."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.data import Chunk

MAX_BATCH_BYTES = 8 << 20
MAX_BATCH_ROWS = 4096

DOCUMENT_COLUMNS = (
    "position long, doc_id string, text string, metadata map<string,string>, reason string, detail string"
)
"""What readers give: ``text`` null where ``reason`` says why. ``position`` orders documents as their source does."""

PLAN_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("doc_id", pa.string()),
        ("chunk_index", pa.int32()),
        ("num_chunks", pa.int32()),
        ("text", pa.string()),
        ("char_start", pa.int64()),
        ("char_end", pa.int64()),
        ("key", pa.string()),
        ("num_tokens", pa.int32()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)
"""One row per chunk; a document that is rejected before any work is one row with ``reason`` and no ``key``.
``metadata`` is the document's, in the row of its first chunk only."""
PLAN_COLUMNS = (
    "position long, doc_id string, chunk_index int, num_chunks int, text string, char_start long, char_end long, "
    "key string, num_tokens int, reason string, detail string, metadata map<string,string>"
)
OUTPUT_COLUMNS = "doc_id, chunk_index, char_start, char_end, key, reason, detail, outcome, text, metadata"
"""What the output stage reads (:func:`pipeline.plan.documents_with_outcomes`)."""
CHUNK_COLUMNS = ("doc_id", "chunk_index", "num_chunks", "text", "char_start", "char_end", "key", "num_tokens")
_CHUNK_FIELDS = OUTPUT_COLUMNS.split(", ")[1:-2]


def chunks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    """Chunks of batches with :data:`CHUNK_COLUMNS`; a batch is read only when its first chunk is asked for."""
    for batch in batches:
        columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in CHUNK_COLUMNS]
        for doc_id, index, num_chunks, text, start, end, key, num_tokens in zip(*columns, strict=True):
            yield Chunk(doc_id, index, num_chunks, text, start, end, key, num_tokens)


def grouped_documents(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Documents (``doc_id, chunks``) of batches with :data:`OUTPUT_COLUMNS`; one may go on in the next batch."""
    document: dict[str, Any] | None = None
    names = OUTPUT_COLUMNS.split(", ")
    for batch in batches:
        columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in names]
        for doc_id, *values, text, metadata in zip(*columns, strict=True):
            if text is not None:
                assert document is not None, "a text follows its chunk"
                document["chunks"][-1].update(text=text, metadata=metadata)
                continue
            if document is None or document["doc_id"] != doc_id:
                if document is not None:
                    yield document
                document = {"doc_id": doc_id, "chunks": []}
            document["chunks"].append(dict(zip(_CHUNK_FIELDS, values, strict=True), text=None, metadata=None))
    if document is not None:
        yield document


def batches_of(rows: Iterable[Mapping[str, Any]], *, schema: pa.Schema, text_column: str) -> Iterator[pa.RecordBatch]:
    """Rows as batches bounded in rows and in characters of ``text_column``."""
    waiting: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[text_column] or "")
        if size >= MAX_BATCH_BYTES or len(waiting) >= MAX_BATCH_ROWS:
            yield _batch(waiting, schema)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting, schema)


def _batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array([row[field.name] for row in rows], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
