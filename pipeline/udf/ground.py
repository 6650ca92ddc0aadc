"""A document's record with the places of its values, under the rule for values that stand nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.chunking import document_text
from pipeline.data import FieldError, RejectReason
from pipeline.documents import page_starts_of
from pipeline.grounding import Grounder, Span
from pipeline.grounding_rule import GroundingRule
from pipeline.strict_json import dumps
from pipeline.udf.merge import DocumentRecord, DocumentReject, reject_of
from pipeline.udf.stage import Stage
from pipeline.validation import Invalid


def ground_record(
    record: DocumentRecord, chunks: Sequence[Mapping[str, Any]], stage: Stage
) -> DocumentRecord | DocumentReject:
    """The record with ``meta.spans`` and ``meta.page_starts``; a reject where the rule (``require_grounding``) says so.

    ``chunks`` are the document's, with ``text, char_start, char_end`` and, in the first, ``metadata``. Values that the
    rule replaced by null are counted in ``num_nulled`` of the result.
    """
    output = stage.config.output
    pages = page_starts_of(_metadata(chunks))
    grounder = Grounder(text_of(chunks), page_starts=pages)
    spans = grounder.ground(record.value)
    num_nulled = 0
    if output.require_grounding:
        ruled = GroundingRule(output.require_grounding, output.ungrounded).apply(record.value, spans)
        if ruled.errors:
            return reject_of(record, RejectReason.UNGROUNDED, _sentence(ruled.errors), errors=ruled.errors)
        if ruled.num_nulled:
            verdict = stage.validator.validate(dumps(ruled.value))
            if isinstance(verdict, Invalid):
                detail = f"values that stand nowhere cannot be null: {_sentence(verdict.errors)}"
                return reject_of(record, RejectReason.UNGROUNDED, detail, errors=verdict.errors)
            num_nulled = ruled.num_nulled
            before, spans = spans, grounder.ground(verdict.value)
            record = replace(record, value=verdict.value, json=verdict.json, meta=_without(record.meta, before, spans))
    meta = record.meta | {"page_starts": list(pages) or None}
    if output.grounding:
        meta["spans"] = [
            {"path": s.path, "start": s.start, "end": s.end, "kind": s.kind, "score": s.score, "page": s.page}
            for s in spans
        ]
    return DocumentRecord(record.doc_id, record.value, record.json, meta, num_nulled, record.is_retried)


def text_of(chunks: Sequence[Mapping[str, Any]]) -> str:
    """The document's text out of its chunks; empty for one that could not be read."""
    return document_text([(c["text"], c["char_start"], c["char_end"]) for c in chunks if c["text"] is not None])


def spans_of(meta: Mapping[str, Any]) -> tuple[Span, ...]:
    """``meta.spans`` as spans."""
    return tuple(Span(**span) for span in meta["spans"] or ())


def _without(meta: Mapping[str, Any], before: Sequence[Span], after: Sequence[Span]) -> dict[str, Any]:
    """Meta without the confidence of values that have become null."""
    gone = {span.path for span in before} - {span.path for span in after}
    kept = meta["confidence"] and [entry for entry in meta["confidence"] if entry["path"] not in gone]
    return {**meta, "confidence": kept}


def _metadata(chunks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the document's first chunk carries; Arrow gives a map as a list of pairs."""
    for chunk in chunks:
        if chunk.get("metadata"):
            return dict(chunk["metadata"])
    return {}


def _sentence(errors: Sequence[FieldError]) -> str:
    return "; ".join(f"{error.path or '/'}: {error.message}" for error in errors[:5])
