"""The drafter of one request: what the model will probably write next, as token ids with survival probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.memory import Memory
from pipeline.dspark.tokens import Tokenizer


class Matcher(Protocol):
    """The part of `xgrammar.GrammarMatcher` that drafting uses."""

    def fork(self) -> Matcher: ...
    def accept_string(self, input_str: bytes | str, /) -> bool: ...
    def accept_token(self, token_id: int, /) -> bool: ...
    def find_jump_forward_string(self) -> str: ...
    def rollback(self, num_tokens: int = 1, /) -> None: ...
    def is_terminated(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """Draft tokens of one request, all accepted by its matcher, in order.

    `survival[i]` (float32) is the estimated probability that positions 0..i are all accepted; `drafters[i]` names what proposed position i.
    """

    token_ids: list[int]
    survival: NDArray[np.float32]
    drafters: list[str]

    def __len__(self) -> int:
        return len(self.token_ids)


class RequestDrafter:
    """Drafts for one request; `memory` is shared by the requests of one schema in this engine."""

    def __init__(self, *, document: str, tokenizer: Tokenizer, memory: Memory, eos_token_id: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._memory = memory
        self._eos_token_id = eos_token_id
        self._tail: list[int] = []

    def observe(self, token_ids: Sequence[int]) -> None:
        """Take the output tokens appended since the last call (accepted and bonus), in order."""
        self._tail = [*self._tail, *token_ids][-16:]

    def propose(self, matcher: Matcher, max_tokens: int) -> Draft:
        """Draft at most `max_tokens` tokens after all observed ones; `matcher` stands there and is left as it was."""
        forced = _forced_text(matcher)
        ids = self._tokenizer.encode_after(self._tail, forced)[:max_tokens] if forced else []
        accepted = 0
        for token_id in ids:
            if not matcher.accept_token(token_id):
                break
            accepted += 1
        if accepted:
            matcher.rollback(accepted)
        return Draft(ids[:accepted], np.ones(accepted, dtype=np.float32), ["grammar"] * accepted)

    def verified(self, num_verified: int, num_accepted: int) -> None:
        """Of the last draft, how many positions the model verified (the budget may cut) and how many it accepted."""

    def finish(self) -> None:
        """The record is complete: learn from it."""


def _forced_text(matcher: Matcher) -> bytes:
    try:
        return matcher.find_jump_forward_string().encode()
    except UnicodeDecodeError:  # between the bytes of one character
        return b""
