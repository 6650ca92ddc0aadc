"""The drafter of one request: what the model will probably write next, as token ids with survival probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.composer import Composer, Event, Plan
from pipeline.dspark.evidence import Evidence
from pipeline.dspark.learner import Learner
from pipeline.dspark.memory import Memory
from pipeline.dspark.path import PathTracker
from pipeline.dspark.tokens import Tokenizer

_TAIL_TOKENS = 16


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


class _Grammar:
    """Asks a matcher without moving it."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def forced_after(self, text: bytes) -> bytes | None:
        matcher = self._matcher
        if text:
            matcher = matcher.fork()
            if not matcher.accept_string(text):
                return None
        try:
            return matcher.find_jump_forward_string().encode()
        except UnicodeDecodeError:  # between the bytes of one character
            return None


class RequestDrafter:
    """Drafts for one request; `memory` is shared by the requests of one schema in this engine.

    `without` silences drafters: grammar, structure, history, document. `min_survival` is where a draft ends at the latest.
    """

    def __init__(
        self,
        *,
        document: str,
        tokenizer: Tokenizer,
        memory: Memory,
        eos_token_id: int | None = None,
        min_survival: float = 0.25,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._tokenizer = tokenizer
        self._memory = memory
        self._eos_token_id = eos_token_id
        self._evidence = Evidence(document, memory)
        self._learner = Learner(self._evidence)
        self._composer = Composer(self._evidence, memory, min_survival, without)
        self._tracker = PathTracker(memory)
        self._tail: list[int] = []
        self._output = bytearray()
        self._plan = Plan(b"", [], False)
        self._planned_from = 0
        self._token_bytes = memory.token_bytes

    def observe(self, token_ids: Sequence[int]) -> None:
        """Take the output tokens appended since the last call (accepted and bonus), in order."""
        if not token_ids:
            return
        self._tail = [*self._tail, *token_ids][-_TAIL_TOKENS:]
        data = self._tokenizer.decode_bytes(token_ids)
        self._output += data
        # How many bytes of text make a draft depends on the language and the vocabulary.
        self._token_bytes += 0.02 * (len(data) - len(token_ids) * self._token_bytes)
        self._judge()
        for segment in self._tracker.feed(data):
            self._learner.take(segment)

    def _judge(self) -> None:
        """Compare the plan with what was written since; claims that are decided teach the estimates."""
        plan, written = self._plan, self._output[self._planned_from :]
        if not plan.events:
            return
        agreed = _common(plan.text, written)
        differs = agreed < min(len(written), len(plan.text))
        learn = self._memory.estimates.learn
        left: list[Event] = []
        for event in plan.events:
            if event.end <= agreed or (event.end > len(plan.text) and event.offset < agreed):
                if event.drafter != "grammar":
                    learn(event.drafter, event.path, event.claimed, True)
            elif differs and event.offset <= agreed:
                learn(event.drafter, event.path, event.claimed, False)
            else:
                left.append(event)
        self._plan = Plan(plan.text, [] if differs else left, plan.complete)

    def propose(self, matcher: Matcher, max_tokens: int) -> Draft:
        """Draft at most `max_tokens` tokens after all observed ones; `matcher` stands there and is left as it was."""
        plan = self._composer.compose(
            self._tracker, self._learner.situation, self._output, _Grammar(matcher), int(max_tokens * self._token_bytes) + 1
        )
        self._plan, self._planned_from = plan, len(self._output)
        ids = self._tokenizer.encode_after(self._tail, plan.text)[:max_tokens] if plan.text else []
        accepted = 0
        for token_id in ids:
            if not matcher.accept_token(token_id):
                break
            accepted += 1
        if accepted:
            matcher.rollback(accepted)
        return self._draft(ids[:accepted], plan.events)

    def _draft(self, ids: list[int], events: list[Event]) -> Draft:
        survival: list[float] = []
        drafters: list[str] = []
        running, at, end, name = 1.0, 0, 0, "grammar"
        num_events, num_bytes = len(events), self._tokenizer.num_bytes
        following = events[0].offset if events else 0
        for token_id in ids:
            end += num_bytes(token_id)
            while at < num_events and following < end:
                running *= events[at].chance
                name = events[at].drafter
                at += 1
                if at < num_events:
                    following = events[at].offset
            survival.append(running)
            drafters.append(name)
        return Draft(ids, np.array(survival, dtype=np.float32), drafters)

    def verified(self, num_verified: int, num_accepted: int) -> None:
        """Of the last draft, how many positions the model verified (the budget may cut) and how many it accepted."""

    def finish(self) -> None:
        """The record is complete: learn from it."""
        self._memory.num_records += 1
        self._memory.token_bytes = self._token_bytes


def _common(a: bytes | bytearray, b: bytes | bytearray) -> int:
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return size
    for index in range(size):
        if a[index] != b[index]:
            return index
    return size
