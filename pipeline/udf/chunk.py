"""The CPU stage that turns documents into chunks with keys, as a ``mapInArrow`` function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from pipeline.chunking import split_document
from pipeline.data import Chunk, Document, RejectReason
from pipeline.udf.arrow import PLAN_SCHEMA, batches_of
from pipeline.udf.stage import Stage

_BYTES_PER_TOKEN = 4


def chunk_function(stage: Stage) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Documents (see :data:`pipeline.udf.arrow.DOCUMENT_COLUMNS`) to rows of :data:`PLAN_SCHEMA`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for document in batch.to_pylist() for row in _plan(document, stage))
        return batches_of(rows, schema=PLAN_SCHEMA, text_column="text")

    return run


def split_text(stage: Stage, doc_id: str, text: str) -> list[Chunk]:
    """Chunks of one document. NUL is read as a space, which keeps offsets.

    A text of no more bytes than a chunk has tokens fits for sure (a token is at least a byte), so most documents are
    never tokenised here; their ``num_tokens`` is an estimate.
    """
    text = text.replace("\x00", " ")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= stage.chunk_tokens:
        estimate = 1 + size // _BYTES_PER_TOKEN
        return [Chunk(doc_id, 0, 1, text, 0, len(text), stage.key_for(text), estimate)]
    chunking = stage.config.chunking
    return split_document(
        Document(doc_id, text),
        tokenizer=stage.tokenizer,
        max_tokens=stage.chunk_tokens,
        overlap_tokens=min(chunking.overlap_tokens, stage.chunk_tokens // 2),
        repeat_preamble=chunking.repeat_preamble,
        key_for=stage.key_for,
    )


def _plan(document: dict[str, Any], stage: Stage) -> Iterator[dict[str, Any]]:
    base = {"position": document["position"], "doc_id": document["doc_id"]}
    text, reason, detail = document["text"], document["reason"], document["detail"]
    if reason is None and text is None:
        reason, detail = RejectReason.EMPTY_INPUT, "the document is null"
    elif reason is None and not text.replace("\x00", " ").strip():
        reason, detail = RejectReason.EMPTY_INPUT, "the document has no text"
    if reason is not None:
        yield base | {
            "chunk_index": 0,
            "num_chunks": 1,
            "text": None,
            "char_start": 0,
            "char_end": len(text or ""),
            "key": None,
            "num_tokens": 0,
            "reason": str(reason),
            "detail": detail,
            "metadata": None,
        }
        return
    for chunk in split_text(stage, document["doc_id"], text):
        yield base | {
            "chunk_index": chunk.index,
            "num_chunks": chunk.num_chunks,
            "text": chunk.text,
            "char_start": chunk.char_start,
            "char_end": chunk.char_end,
            "key": chunk.key,
            "num_tokens": chunk.num_tokens,
            "reason": None,
            "detail": None,
            "metadata": document["metadata"] or None if chunk.index == 0 else None,
        }
