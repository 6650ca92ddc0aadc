"""Nouns that cross module borders; frozen, plain data, picklable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

FinishReason = Literal["stop", "length", "abort", "error"]
"""Why the engine ended a request: grammar or EOS reached, token limit, aborted, engine error on this request."""


class RejectReason(StrEnum):
    """Why a chunk or document has no record (design: a bad row is a value, never an exception)."""

    TOO_LONG = "TOO_LONG"
    TRUNCATED = "TRUNCATED"
    INVALID_JSON = "INVALID_JSON"
    SCHEMA_MISMATCH = "SCHEMA_MISMATCH"
    EMPTY_INPUT = "EMPTY_INPUT"
    UNDECODABLE_INPUT = "UNDECODABLE_INPUT"
    REFUSED_BY_ENGINE = "REFUSED_BY_ENGINE"
    TIMEOUT = "TIMEOUT"
    MERGE_CONFLICT = "MERGE_CONFLICT"
    PROFILE_LOSS = "PROFILE_LOSS"
    UNGROUNDED = "UNGROUNDED"


@dataclass(frozen=True, slots=True)
class Document:
    """One input. ``text`` is None where the bytes could not be decoded; ``metadata`` is carried through untouched."""

    doc_id: str
    text: str | None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A token-bounded span ``[char_start, char_end)`` of a document, in Unicode code points.

    ``text`` may hold more than the span (repeated table header, preamble); ``key`` identifies the work: equal keys
    mean equal outcomes, so work is shared and resumed by it. ``num_tokens`` is the text's length in tokens.
    """

    doc_id: str
    index: int
    num_chunks: int
    text: str
    char_start: int
    char_end: int
    key: str
    num_tokens: int = 0

    @property
    def chunk_id(self) -> str:
        return f"{self.doc_id}#{self.index}"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One reason why a value is not valid: ``path`` is a JSON pointer (``/orders/0/amount``)."""

    path: str
    message: str
    keyword: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to the engine and what came of it. ``latency_ms`` runs from submission to the last token."""

    number: int
    raw_output: str
    finish_reason: FinishReason
    prompt_tokens: int
    output_tokens: int
    latency_ms: float
    errors: tuple[FieldError, ...] = ()
    num_cached_tokens: int = 0


def is_retried(attempts: Sequence[Attempt]) -> bool:
    """Whether a first attempt failed and another one followed; further passes over a good record are no retries."""
    return len(attempts) > 1 and (attempts[0].finish_reason != "stop" or bool(attempts[0].errors))


@dataclass(frozen=True, slots=True)
class Record:
    """A validated value for one chunk (or, after merging, one document).

    ``value`` is the parsed JSON value; ``json`` its canonical compact text, from which outputs are derived.
    ``attempts`` keeps only counts of failed attempts' tokens where raw outputs are not needed any more.
    ``confidence`` (JSON pointer to probability) is None where nobody asked for it.
    """

    chunk: Chunk
    value: dict[str, Any]
    json: str
    attempts: tuple[Attempt, ...]
    confidence: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """No record for this chunk, with everything needed to understand and replay it."""

    chunk: Chunk
    reason: RejectReason
    detail: str
    attempts: tuple[Attempt, ...] = ()
    errors: tuple[FieldError, ...] = ()


Outcome = Record | Reject
