"""The drafter of one request: what the model will probably write next, as token ids with survival probabilities."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.composer import Composer
from pipeline.dspark.evidence import Evidence
from pipeline.dspark.learner import Learner
from pipeline.dspark.memory import Memory
from pipeline.dspark.path import PathTracker
from pipeline.dspark.plan import Event, Plan
from pipeline.dspark.repetition import Repetition, expected_bytes
from pipeline.dspark.tokens import Tokenizer

_TAIL_TOKENS = 16
# What is left of a followed draft is used up before a new one is made, if it has so many tokens.
_ENOUGH_TOKENS = 6
# A repetition is looked for where less than this part of a draft is expected to come true, and taken where this factor
# more of it is: what the schema's own drafters say is better founded.
_GOOD = 0.5
_MARGIN = 1.25
DRAFTERS = frozenset({"grammar", "structure", "history", "document", "output", "repetition"})


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

    `survival[i]` (float32) is the estimated probability that positions 0..i are all accepted; `drafters[i]` names what
    proposed position i.
    """

    token_ids: list[int]
    survival: NDArray[np.float32]
    drafters: list[str]

    def __len__(self) -> int:
        return len(self.token_ids)

    def __getitem__(self, part: slice) -> Draft:
        return Draft(self.token_ids[part], self.survival[part], self.drafters[part])

    def followed_by(self, token_id: int, drafter: str) -> Draft:
        """The draft with one more, as likely as its last token."""
        last = self.survival[-1:] if len(self) else np.ones(1, dtype=np.float32)
        return Draft([*self.token_ids, token_id], np.concatenate([self.survival, last]), [*self.drafters, drafter])


_NOTHING = Draft([], np.zeros(0, dtype=np.float32), [])


class _Grammar:
    """Asks a matcher without moving it."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def forced_after(self, text: bytes) -> bytes:
        matcher = self._matcher
        if text:
            matcher = matcher.fork()
            if not matcher.accept_string(text):
                return b""
        try:
            return matcher.find_jump_forward_string().encode()
        except UnicodeDecodeError:  # between the bytes of one character
            return b""


class RequestDrafter:
    """Drafts for one request; `memory` is shared by the requests of one schema in this engine.

    `without` silences drafters (see DRAFTERS). A draft ends where its survival falls below `min_survival`. With an
    `eos_token_id` it may end with that token, once the record is complete.
    """

    def __init__(
        self,
        *,
        document: str,
        tokenizer: Tokenizer,
        memory: Memory,
        prompt: bytes = b"",
        eos_token_id: int | None = None,
        min_survival: float = 0.25,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._tokenizer = tokenizer
        self._memory = memory
        self._eos_token_id = eos_token_id
        self._evidence = Evidence(document, memory)
        self._learner = Learner(self._evidence, memory)
        self._composer = Composer(self._evidence, memory, without=without)
        self._repetition = None if "repetition" in without else Repetition(prompt, memory.estimates)
        self._min_survival = min_survival
        self._tracker = PathTracker(memory)
        self._tail: list[int] = []
        self._output = bytearray()
        self._token_bytes = memory.token_bytes
        self._plan = Plan(b"", [], False)
        self._undecided: list[Event] = []  # claims of the plan
        self._planned_from = 0
        # The draft of the plan, of which the first `_num_drafted` tokens have been written since.
        self._draft = self._proposed = _NOTHING
        self._num_drafted = 0

    def observe(self, token_ids: Sequence[int]) -> None:
        """Take the output tokens appended since the last call (accepted and bonus), in order."""
        if not token_ids:
            return
        self._tail = [*self._tail[-_TAIL_TOKENS:], *token_ids][-_TAIL_TOKENS:]
        data = self._tokenizer.decode_bytes(token_ids)
        self._output += data
        if self._repetition is not None:
            self._repetition.observe(data)
        # How many bytes of text make a draft depends on the language and the vocabulary.
        self._token_bytes += 0.02 * (len(data) - len(token_ids) * self._token_bytes)
        as_planned = self._judge()
        self._follow(list(token_ids), as_planned)
        for segment in self._tracker.feed(data):
            self._learner.take(segment)

    def _follow(self, written: list[int], as_planned: bool) -> None:
        """Keep the rest of the draft where the model wrote its start, forget it otherwise.

        Where the text is `as_planned` and the ids are not, the model spells it in its own way.
        """
        expected = self._draft.token_ids[self._num_drafted :]
        if written == expected[: len(written)]:
            self._num_drafted += len(written)
        elif expected:
            if as_planned:
                self._memory.spellings.learn(expected, written, self._tokenizer)
            self._draft, self._num_drafted = _NOTHING, 0

    def _judge(self) -> bool:
        """Compare the plan with what was written since; claims that are decided teach the estimates.

        Returns whether all was written as planned.
        """
        plan = self._plan
        if not self._undecided:
            return not plan.events
        written = self._output[self._planned_from :]
        agreed = _common(plan.text, written)
        differs = agreed < min(len(written), len(plan.text))
        left: list[Event] = []
        for event in self._undecided:
            offset, end, _, _, estimate = event
            if end <= agreed or (offset < agreed and end > len(plan.text)):
                if estimate is not None:
                    estimate.learn(True)
            elif not differs:
                left.append(event)
            elif offset > agreed:
                break
            elif estimate is not None:
                estimate.learn(False)
        self._undecided = left
        return not differs

    def propose(self, matcher: Matcher, max_tokens: int) -> Draft:
        """Draft at most `max_tokens` tokens after all observed ones; `matcher` stands there and is left as it was.

        What is left of an earlier draft that the model has followed so far is the next draft at no cost.
        """
        done = self._num_drafted
        if 0 < done < len(self._draft) and len(self._draft) - done >= min(max_tokens, _ENOUGH_TOKENS):
            rest = self._draft[done : done + max_tokens]
            before = max(float(self._draft.survival[done - 1]), 1e-6)
            self._proposed = Draft(rest.token_ids, rest.survival / before, rest.drafters)
        else:
            self._proposed = self._draft = self._new_draft(matcher, max_tokens)
            self._num_drafted = 0
        return self._proposed

    def _new_draft(self, matcher: Matcher, max_tokens: int) -> Draft:
        admission = self._memory.admission
        limit = int(max_tokens * self._token_bytes) + 1
        least = max(self._min_survival, admission.worth_composing)
        plan = self._composer.compose(
            self._tracker,
            self._learner.situation,
            output=self._output,
            oracle=_Grammar(matcher),
            limit=limit,
            min_survival=least,
        )
        if self._repetition is not None and not plan.complete:
            expected = expected_bytes(plan)
            if expected < limit * _GOOD:
                other = self._repetition.plan(limit=limit, min_survival=least)
                if other is not None and expected_bytes(other) > expected * _MARGIN:
                    plan = other
        self._plan, self._undecided, self._planned_from = plan, plan.events, len(self._output)
        text, complete = plan.text, plan.complete
        if plan.events and plan.events[-1][3] < admission.worth_encoding:
            unlikely = next(offset for offset, _, _, survival, _ in plan.events if survival < admission.worth_encoding)
            text, complete = text[:unlikely], False
        # A space goes into one token with what follows it.
        if text[-1:] == b" ":
            text = text[:-1]
        if not text and not complete:
            return _NOTHING
        ids = self._tokenizer.encode_after(self._tail, text) if text else []
        ids = self._memory.spellings.respell(ids)[:max_tokens]
        pieces = self._tokenizer.pieces_of(ids)
        data = b"".join(pieces)
        legal = _num_legal(matcher, ids, data if text.startswith(data) else b"")
        drafted = _assess(ids[:legal], pieces[:legal], plan.events)
        if complete and legal == len(ids) < max_tokens and self._eos_token_id is not None:
            trial = matcher.fork()
            if (not data or trial.accept_string(data)) and trial.accept_token(self._eos_token_id):
                drafted = drafted.followed_by(self._eos_token_id, "grammar")
        return drafted

    def verified(self, num_verified: int, num_accepted: int) -> None:
        """Of the last draft, how many positions the model verified (the budget may cut) and how many it accepted.

        The acceptance estimates learn from the text in `observe`, which also decides claims beyond what was verified;
        what is learned here is down to which survival drafts are worth making.
        """
        self._memory.admission.verified(self._proposed.survival, num_verified)

    def finish(self) -> None:
        """The record is complete; its values have been learned one by one as they were written."""
        self._memory.num_records += 1
        self._memory.token_bytes = self._token_bytes


def _num_legal(matcher: Matcher, ids: list[int], data: bytes) -> int:
    """How many of the first ids the grammar accepts; the matcher is back where it was.

    ``data`` is what all of them write, where that is sure: accepted in one piece, every id of it is.
    """
    if data and matcher.accept_string(data):
        matcher.rollback(1)
        return len(ids)
    accepted = 0
    for token_id in ids:
        if not matcher.accept_token(token_id):
            break
        accepted += 1
    if accepted:
        matcher.rollback(accepted)
    return accepted


def _common(a: bytes, b: bytearray) -> int:
    """Length of the common start."""
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return size
    return next(index for index in range(size) if a[index] != b[index])


def _assess(ids: list[int], pieces: list[bytes], events: list[Event]) -> Draft:
    """The draft of these ids: a token survives when all claims made before its end come true."""
    ends = list(accumulate([len(piece) for piece in pieces]))
    survival: list[float] = []
    drafters: list[str] = []
    running, name = 1.0, "grammar"
    for offset, _, drafter, survives, _ in events:
        untouched = bisect_right(ends, offset) - len(survival)
        if untouched > 0:
            survival += [running] * untouched
            drafters += [name] * untouched
        running, name = survives, drafter
    rest = len(ids) - len(survival)
    survival += [running] * rest
    drafters += [name] * rest
    return Draft(ids, np.array(survival, dtype=np.float32), drafters)
