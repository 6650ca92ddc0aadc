"""Prompts as token ids: shared prefix (instructions, fields, examples) first, then the document.

The chat template is rendered with a marker in place of every free text; the text between markers is encoded with its
control tokens, the free texts without. So a document cannot open or close a turn, and all prompts of a run share one
token prefix, which the engine's prefix cache keeps.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pipeline.config import Layout, PromptConfig
from pipeline.data import Chunk, FieldError
from pipeline.errors import ConfigError
from pipeline.fields import describe_fields
from pipeline.layout import render_value
from pipeline.protocols import Prompt

_MARKER = "@@text-{index}@@"
_MARKERS = re.compile(r"@@text-(\d+)@@")
_RETRY = "The JSON object has errors:\n{errors}\nWrite the corrected JSON object for the same document."
_AGAIN = (
    "The lists may lack entries. Read the document again and write the complete JSON object: "
    "all entries found so far and those that were missed."
)
_MAX_ERRORS = 20
_MAX_RAW_CHARS = 20_000
_VERSION = 1  # part of the fingerprint: raise when the wording or the assembly changes


class PromptTokenizer(Protocol):
    """What prompting asks of a tokenizer; :class:`pipeline.tokenizer.Tokenizer` is the real one."""

    @property
    def has_chat_template(self) -> bool: ...

    @property
    def bos_token(self) -> str: ...

    def encode(self, text: str) -> list[int]: ...

    def encode_template(self, text: str) -> list[int]: ...

    def render(self, messages: Sequence[Mapping[str, str]]) -> str: ...


class Prompting:
    """Builds the first prompt of a chunk and those that follow on an answer.

    Raises :class:`ConfigError` at construction where the chat template loses a text that it was given.
    """

    def __init__(
        self,
        tokenizer: PromptTokenizer,
        *,
        config: PromptConfig,
        json_schema: Mapping[str, Any],
        layout: Layout = "indented",
    ) -> None:
        self._tokenizer = tokenizer
        self._layout = layout
        self._json_schema = json_schema
        system = config.instructions.strip()
        if config.show_schema:
            system += "\n\nFields:\n" + describe_fields(json_schema)
        self._shared = [("system", system)]
        for example in config.examples:
            self._shared.append(("user", example.text))
            self._shared.append(("assistant", render_value(json_schema, example.output, layout=layout)))
        pieces = self._pieces([*self._shared, ("user", "")])
        self._prefix, self._suffix = _join(pieces[:-1]), pieces[-1]
        self._example_spans = _spans(pieces, len(config.examples))

    @property
    def num_fixed_tokens(self) -> int:
        """Tokens of a first prompt without its document."""
        return len(self._prefix) + len(self._suffix)

    @property
    def fingerprint(self) -> str:
        """Hash of everything a prompt holds besides the document."""
        parts = [_VERSION, self._prefix, self._suffix, _RETRY, _AGAIN, self._layout]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def first(self, chunk: Chunk) -> Prompt:
        """Prompt of the first attempt."""
        document = self._tokenizer.encode(chunk.text)
        start = len(self._prefix)
        return Prompt([*self._prefix, *document, *self._suffix], (start, start + len(document)), self._example_spans)

    def retry(self, chunk: Chunk, raw_output: str, errors: Sequence[FieldError]) -> Prompt:
        """Prompt that shows the model its output and what is wrong with it; shares the first prompt's tokens."""
        listed = "\n".join(f"- {error.path or '/'}: {error.message}" for error in errors[:_MAX_ERRORS])
        return self._after(chunk, raw_output[:_MAX_RAW_CHARS], _RETRY.format(errors=listed))

    def again(self, chunk: Chunk, value: Mapping[str, Any]) -> Prompt:
        """Prompt of a further pass: shows what was found and asks for what was missed; shares the first's tokens."""
        return self._after(chunk, render_value(self._json_schema, value, layout=self._layout), _AGAIN)

    def _after(self, chunk: Chunk, answer: str, request: str) -> Prompt:
        first = self.first(chunk)
        turns = [("assistant", answer), ("user", request)]
        pieces = self._pieces([*self._shared, ("user", ""), *turns])
        # what follows the document's own marker: end of the user turn, the answer, what is wanted now
        tail = pieces[2 * (len(self._shared) + 1) :]
        return Prompt(
            [*first.token_ids[: first.document_span[1]], *_join(tail)], first.document_span, first.example_spans
        )

    def _pieces(self, turns: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Token ids, alternating template text and free text; ``2 * len(turns) + 1`` pieces."""
        rendered = self._render(turns)
        parts = _MARKERS.split(rendered)
        if [int(part) for part in parts[1::2]] != list(range(len(turns))):
            raise ConfigError(
                "the model's chat template does not keep each message once and in order",
                hint="use an instruction-tuned model with a plain chat template",
            )
        texts = [content for _, content in turns]
        return [
            self._tokenizer.encode(texts[int(part)]) if odd else self._tokenizer.encode_template(part)
            for part, odd in zip(parts, [index % 2 == 1 for index in range(len(parts))], strict=True)
        ]

    def _render(self, turns: Sequence[tuple[str, str]]) -> str:
        marked = [(role, _MARKER.format(index=index)) for index, (role, _) in enumerate(turns)]
        if self._tokenizer.has_chat_template:
            return self._tokenizer.render([{"role": role, "content": content} for role, content in marked])
        titles = {"system": "{}\n\n", "user": "Document:\n{}\n\nJSON:\n", "assistant": "{}\n\n"}
        return self._tokenizer.bos_token + "".join(titles[role].format(content) for role, content in marked)


def _spans(pieces: Sequence[list[int]], num_examples: int) -> tuple[tuple[int, int, int, int], ...]:
    """Token ranges of each example's document and output; the free texts are the odd pieces, the first the system's."""
    ends = list(itertools.accumulate(len(piece) for piece in pieces))
    spans = []
    for index in range(num_examples):
        document, output = 4 * index + 3, 4 * index + 5
        spans.append((ends[document - 1], ends[document], ends[output - 1], ends[output]))
    return tuple(spans)


def _join(pieces: Sequence[list[int]]) -> list[int]:
    return [token for piece in pieces for token in piece]
