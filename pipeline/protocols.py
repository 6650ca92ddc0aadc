"""What the extraction loop asks of its surroundings: engine, prompter, validator, split and merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline.data import Chunk, FieldError, FinishReason
from pipeline.validation import Invalid, Valid


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt for the engine. ``document_span`` is the token range of the document inside the prompt.

    ``example_spans`` are the few-shot examples': token ranges of document and output, as (start, end, start, end).
    ``seed`` replaces the engine's where a temperature is set. ``wants_logprobs`` asks for each token's probability.
    """

    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int
    grammar: str
    document_span: tuple[int, int]
    seed: int | None = None
    wants_logprobs: bool = False
    example_spans: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of one request. ``detail`` says why where ``finish_reason`` is ``error``.

    ``tokens`` (the bytes of each output token) and ``logprobs`` (natural logarithms, under the grammar) come where the
    request wanted them.
    """

    request_id: str
    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    output_tokens: int
    num_cached_tokens: int = 0
    detail: str = ""
    tokens: tuple[bytes, ...] = ()
    logprobs: tuple[float, ...] = ()


class Engine(Protocol):
    """What the loop needs of an engine; :class:`pipeline.engine.VllmEngine` is the real one,
    :class:`pipeline.testing.ScriptedEngine` the one for tests.

    ``submit`` raises nothing for a request that fits (``prompt + max_tokens <= max_model_len``). ``step`` advances all
    requests by one forward pass and returns those that ended, each exactly once. ``num_processed_tokens`` grows
    whenever the engine gets anything done (prompt or output tokens). An exception from any method means that the
    engine is dead. ``counters`` are plain numbers for the manifest (steps, drafted and accepted tokens, ...).
    """

    max_model_len: int
    max_in_flight: int

    @property
    def num_processed_tokens(self) -> int: ...

    def submit(self, request: Request) -> None: ...

    def step(self) -> list[Completion]: ...

    def abort(self, request_id: str) -> None: ...

    def counters(self) -> dict[str, float]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as token ids, and where the document and the examples lie in it (see :class:`Request`)."""

    token_ids: list[int]
    document_span: tuple[int, int]
    example_spans: tuple[tuple[int, int, int, int], ...] = ()


class Prompter(Protocol):
    """Chunk to prompt; :class:`pipeline.prompting.Prompting` is the real one."""

    def first(self, chunk: Chunk) -> Prompt: ...

    def retry(self, chunk: Chunk, raw_output: str, errors: Sequence[FieldError]) -> Prompt: ...

    def again(self, chunk: Chunk, value: Mapping[str, Any]) -> Prompt: ...


class Validating(Protocol):
    """Raw output to value or errors; :class:`pipeline.validation.Validator` is the real one."""

    def validate(self, raw: str) -> Valid | Invalid: ...


Split = Callable[[Chunk], "list[Chunk]"]
"""Halves of a chunk (each with its own offsets), or one or no element where it cannot be split."""

Merge = Callable[[Sequence[dict[str, Any]]], "tuple[dict[str, Any], str] | str"]
"""Values of the halves to (value, canonical JSON), or a text that says why they conflict."""

Unite = Callable[[dict[str, Any], dict[str, Any]], "tuple[dict[str, Any], str] | None"]
"""A record's value and that of a later pass to (value, canonical JSON); None where the later one tells nothing new."""
