"""Chunk outcomes to one outcome per document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pipeline.confidence import merge_confidence
from pipeline.data import FieldError, RejectReason
from pipeline.journal import confidence_rows, errors_json
from pipeline.merging import Merger
from pipeline.protocols import Unite
from pipeline.strict_json import dumps, loads
from pipeline.udf.stage import Stage
from pipeline.uniting import Uniter

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document's value, its canonical JSON and how it came about (see ``META_TYPE`` in :mod:`pipeline.writers`)."""

    doc_id: str
    value: dict[str, Any]
    json: str
    meta: dict[str, Any]
    num_nulled: int = 0
    is_retried: bool = False


@dataclass(frozen=True, slots=True)
class DocumentReject:
    """A document without a record: the first rejected chunk's facts."""

    doc_id: str
    row: dict[str, Any]
    is_retried: bool = False


def reject_of(
    record: DocumentRecord, reason: RejectReason, detail: str, *, errors: Sequence[FieldError] = ()
) -> DocumentReject:
    """A record that cannot go out after all."""
    row = {
        "doc_id": record.doc_id,
        "reason": str(reason),
        "detail": detail,
        "chunk_index": 0,
        "char_start": None,
        "char_end": None,
        "finish_reason": record.meta["finish_reason"],
        "raw_output": record.json,
        "errors": errors_json(errors),
        "attempts": None,
        "meta": record.meta,
    }
    return DocumentReject(record.doc_id, row, record.is_retried)


def merger_of(stage: Stage) -> Merger:
    """The merger of a stage's schema, one per process and schema."""
    return _merger(stage.schema.fingerprint, _Held(stage))


def unite_of(stage: Stage) -> Unite | None:
    """The loop's way to join several passes; None where one is enough: none are wanted, or the schema has no lists."""
    if stage.config.decoding.passes == 1:
        return None
    uniter = Uniter(stage.schema.json_schema, validator=stage.output_validator)
    return uniter if uniter.has_lists else None


def merge_halves(stage: Stage, values: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], str] | str:
    """The loop's merge for the halves of a truncated chunk."""
    return merger_of(stage)(values)


def merge_document(row: Row, stage: Stage) -> DocumentRecord | DocumentReject | None:
    """One document's chunks (``doc_id``, ``chunks``) to its outcome; None where a chunk has no outcome yet."""
    chunks = sorted(row["chunks"], key=lambda chunk: (chunk["chunk_index"], chunk["char_start"]))
    if any(chunk["reason"] is None and chunk["outcome"] is None for chunk in chunks):
        return None
    meta, again = _meta(chunks, stage), any(map(_is_retried, chunks))
    for chunk in chunks:
        if chunk["reason"] is not None or chunk["outcome"]["json"] is None:
            return DocumentReject(row["doc_id"], _reject_row(row["doc_id"], chunk, meta), again)
    values = [loads(chunk["outcome"]["json"]) for chunk in chunks]
    if len(values) == 1:
        meta["confidence"] = chunks[0]["outcome"].get("confidence") if stage.config.output.confidence else None
        return DocumentRecord(row["doc_id"], values[0], chunks[0]["outcome"]["json"], meta, is_retried=again)
    merger = merger_of(stage)
    merged = merger.merge(values)
    result: tuple[dict[str, Any], str] | str
    if merged.fatal:
        result = "; ".join(conflict.message for conflict in merged.fatal)
    else:
        result = merger(values)
    if isinstance(result, str):
        whole = dict(chunks[0]) | {"char_end": chunks[-1]["char_end"]}
        whole["reason"], whole["detail"] = str(RejectReason.MERGE_CONFLICT), result
        reject = _reject_row(row["doc_id"], whole, meta)
        reject["errors"] = errors_json(merged.errors)
        reject["raw_output"] = "\n".join(dumps(value) for value in values)
        return DocumentReject(row["doc_id"], reject, again)
    meta["conflicts"] = [conflict.message for conflict in merged.conflicts] or None
    if stage.config.output.confidence:
        found = [{e["path"]: e["confidence"] for e in chunk["outcome"].get("confidence") or ()} for chunk in chunks]
        meta["confidence"] = confidence_rows(merge_confidence(list(zip(values, found, strict=True)), result[0]))
    return DocumentRecord(row["doc_id"], result[0], result[1], meta, is_retried=again)


def _is_retried(chunk: Row) -> bool:
    """As :func:`pipeline.data.is_retried`, of a chunk with its stored outcome."""
    attempts = (chunk["outcome"] or {}).get("attempts") or []
    return len(attempts) > 1 and (attempts[0]["finish_reason"] != "stop" or bool(attempts[0]["errors"]))


def _meta(chunks: Sequence[Row], stage: Stage) -> dict[str, Any]:
    attempts = [attempt for chunk in chunks if chunk["outcome"] for attempt in chunk["outcome"]["attempts"] or []]
    keys = [chunk["key"] for chunk in chunks if chunk["key"]]
    joined = keys[0] if len(keys) == 1 else hashlib.sha256("".join(keys).encode()).hexdigest() if keys else None
    return {
        "key": joined,
        "model": stage.model_id,
        "num_chunks": len(chunks),
        "attempts": len(attempts),
        "prompt_tokens": sum(attempt["prompt_tokens"] for attempt in attempts),
        "output_tokens": sum(attempt["output_tokens"] for attempt in attempts),
        "finish_reason": attempts[-1]["finish_reason"] if attempts else None,
        "latency_ms": sum(attempt["latency_ms"] for attempt in attempts),
        "conflicts": None,
        "spans": None,
        "confidence": None,
        "page_starts": None,
    }


def _reject_row(doc_id: str, chunk: Row, meta: dict[str, Any]) -> dict[str, Any]:
    outcome = chunk["outcome"] or {}
    attempts = outcome.get("attempts") or []
    return {
        "doc_id": doc_id,
        "reason": chunk["reason"] or outcome["reason"],
        "detail": chunk["detail"] or outcome.get("detail") or "",
        "chunk_index": chunk["chunk_index"],
        "char_start": chunk["char_start"],
        "char_end": chunk["char_end"],
        "finish_reason": attempts[-1]["finish_reason"] if attempts else None,
        "raw_output": attempts[-1]["raw_output"] if attempts else None,
        "errors": outcome.get("errors"),
        "attempts": json.dumps(attempts, ensure_ascii=False, default=str) if attempts else None,
        "meta": meta,
    }


class _Held:
    """A stage as an argument of a cache that must not look at it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4)
def _merger(fingerprint: str, held: _Held) -> Merger:
    return Merger(held.stage.schema.json_schema, validator=held.stage.validator)
