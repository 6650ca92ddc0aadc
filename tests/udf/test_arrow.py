"""Batches as nouns: documents that go on in the next batch, chunks with and without their texts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pipeline.udf.arrow import grouped_documents

SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("chunk_index", pa.int32()),
        ("char_start", pa.int64()),
        ("char_end", pa.int64()),
        ("key", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("outcome", pa.struct([("json", pa.string())])),
        ("text", pa.string()),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)


def _chunk(doc_id: str, index: int) -> dict[str, Any]:
    return {"doc_id": doc_id, "chunk_index": index, "key": f"{doc_id}{index}", "outcome": {"json": str(index)}}


def _text(doc_id: str, index: int) -> dict[str, Any]:
    return {"doc_id": doc_id, "chunk_index": index, "text": f"text {doc_id}{index}", "metadata": [("a", "b")]}


ROWS = [
    _chunk("x", 0), _text("x", 0), _chunk("x", 1), _text("x", 1), _chunk("y", 0), _chunk("z", 0), _text("z", 0),
]  # fmt: skip


@pytest.mark.parametrize("rows_per_batch", [1, 2, 3, 7])
def test_documents_are_whole_however_batches_fall(rows_per_batch: int) -> None:
    starts = range(0, len(ROWS), rows_per_batch)
    batches = [pa.RecordBatch.from_pylist(ROWS[i : i + rows_per_batch], schema=SCHEMA) for i in starts]
    documents = list(grouped_documents(batches))
    assert [d["doc_id"] for d in documents] == ["x", "y", "z"]
    assert [[c["key"] for c in d["chunks"]] for d in documents] == [["x0", "x1"], ["y0"], ["z0"]]
    assert [[c["text"] for c in d["chunks"]] for d in documents] == [["text x0", "text x1"], [None], ["text z0"]]
    assert documents[0]["chunks"][1]["outcome"] == {"json": "1"}
    assert documents[0]["chunks"][1]["metadata"] == [("a", "b")]


def test_no_batch_is_no_document() -> None:
    assert list(grouped_documents([])) == []
