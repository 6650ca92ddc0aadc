"""Drafting over all requests of an engine: who drafts, what is verified, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

from pipeline.dspark.arguments import RequestSettings, SchedulerSettings
from pipeline.dspark.budget import Budget
from pipeline.dspark.calibration import Calibration
from pipeline.dspark.costs import CostTable
from pipeline.dspark.counters import Counters
from pipeline.dspark.drafting import Draft
from pipeline.dspark.drafting import Matcher as DraftingMatcher
from pipeline.dspark.masks import Matcher as MaskMatcher
from pipeline.dspark.masks import first_legal_token
from pipeline.dspark.memories import Memories

_PATIENCE = 3  # drafts in a row without one accepted token before a request pauses drafting
_SHORTEST_DRAFT = 8  # tokens a request may always propose; beyond, twice what was last admitted
_LONGEST_PAUSE = 16  # steps; doubles from 2 with each further failure


class Drafter(Protocol):
    """What is used of :class:`pipeline.dspark.drafting.RequestDrafter`; see there."""

    def observe(self, token_ids: Sequence[int]) -> None: ...

    def propose(self, matcher: DraftingMatcher, max_tokens: int) -> Draft: ...

    def verified(self, num_verified: int, num_accepted: int) -> None: ...

    def finish(self) -> None: ...


@dataclass(slots=True)
class _State:
    """One request while it decodes."""

    drafter: Drafter | None  # None: decodes plainly
    settings: RequestSettings
    num_seen: int = 0
    draft: Draft | None = None
    survivals: Sequence[float] = ()
    num_failures: int = 0
    pause: int = 0
    was_verified: bool = False  # in the step whose tokens have not been taken yet


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A request with a draft that asks for a share of the budget."""

    request_id: str
    state: _State
    drafter: Drafter
    draft: Draft


class Matcher(DraftingMatcher, MaskMatcher, Protocol):
    """What drafting and masking use of ``xgrammar.GrammarMatcher``."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """A request that decodes in the next step. ``room`` is how many draft tokens it could still use."""

    request_id: str
    output_token_ids: Sequence[int]
    matcher: Matcher
    room: int


class Coordinator:
    """Keeps a drafter per request and admits drafts by the budget; knows nothing of vLLM.

    ``enabled`` False stops drafting at once and for all requests; decoding goes on plainly, and requests that start
    meanwhile teach nothing. For measurements:
    ``verify_all`` admits every draft in full; ``trace``, where set, is called for each decode step with the request
    id, the survival probabilities that were verified (none without a draft), and the number accepted; ``trace_step``
    for each step with (tokens, context before them, whether it decodes) of every request in it, and its milliseconds.
    """

    def __init__(self, settings: SchedulerSettings, *, vocab_size: int) -> None:
        self.settings = settings
        self.enabled = True
        self.verify_all = False
        self.costs = CostTable()  # of steps that only decode
        self.mixed_costs = CostTable()  # of steps that read prompts too
        self.counters = Counters()
        self._budget = Budget(self.costs, self.mixed_costs, max_token_budget=settings.max_token_budget)
        self._calibration = Calibration()
        self.memories = Memories()
        self.trace: Callable[[str, Sequence[float], int], None] | None = None
        self.trace_step: Callable[[Sequence[tuple[int, int, bool]], float], None] | None = None
        self._longest_draft = settings.num_draft_slots
        self._states: dict[str, _State] = {}
        self._vocab_size = vocab_size

    def describe(self) -> str:
        """The settings in force, inferred ones included, for the log."""
        settings = self.settings
        sizes = (1, settings.num_draft_slots + 1)
        one, many = self.costs.step_ms(sizes).tolist()
        return (
            f"draft slots {settings.num_draft_slots}, max_token_budget {settings.max_token_budget}, "
            f"max_concurrent_structs {settings.max_concurrent_structs or 'all'}, "
            f"max_json_depth {settings.max_json_depth}, "
            + (
                f"step {one:.1f} ms for {sizes[0]} token, {many:.1f} ms for {sizes[1]}"
                if self.costs.num_sizes
                else "step times measured while running"
            )
        )

    def stepped(self, num_tokens: int, *, num_prefill: int, step_ms: float) -> None:
        """The engine took a step of so many tokens, ``num_prefill`` of them of prompts."""
        self.counters.num_engine_steps += 1
        self.counters.step_ms += step_ms
        (self.mixed_costs if num_prefill else self.costs).observe(num_tokens, step_ms)

    def forget(self) -> None:
        """Start with an empty history and untested survival estimates; the cost tables are kept (for measurements)."""
        self.memories = Memories()
        self._calibration = Calibration()

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._states

    def open(self, request_id: str, settings: RequestSettings, drafter: Callable[[], Drafter]) -> None:
        """Start a request that decodes under a grammar."""
        self.counters.num_requests += 1
        drafts = self.enabled and settings.enabled and not settings.num_filler
        self._states[request_id] = _State(drafter() if drafts else None, settings)

    def close(self, request_id: str, output_token_ids: Sequence[int], *, completed: bool) -> None:
        """End a request; a completed one teaches the history. Unknown ids are ignored."""
        state = self._states.pop(request_id, None)
        if state is None:
            return
        self._take(request_id, state, output_token_ids)
        if completed and state.drafter is not None:
            state.drafter.finish()

    def verified(self, request_id: str, num_verified: int, num_accepted: int) -> None:
        """The model read the first ``num_verified`` tokens of the last draft and accepted ``num_accepted``."""
        state = self._states.get(request_id)
        if state is None or state.draft is None or state.drafter is None:
            return
        draft, state.draft = state.draft, None
        state.was_verified = True
        num_verified = min(num_verified, len(draft.token_ids))
        self.counters.verified(draft.drafters[:num_verified], num_accepted)
        state.drafter.verified(num_verified, num_accepted)
        self._calibration.observe(state.survivals[:num_verified], num_accepted)
        if self.trace is not None:
            self.trace(request_id, state.survivals[:num_verified], num_accepted)
        if num_accepted or not num_verified:
            state.num_failures = 0
            return
        state.num_failures += 1
        if state.num_failures >= _PATIENCE:
            state.pause = min(2 << (state.num_failures - _PATIENCE), _LONGEST_PAUSE)

    def draft(self, requests: Sequence[Decoding], *, num_prefill: int) -> dict[str, list[int]]:
        """Draft token ids per request for the next step; requests without a draft are absent.

        ``requests`` are all that will decode, oldest first; ``num_prefill`` prompt tokens will share the step.
        """
        started = time.perf_counter()
        drafts: dict[str, list[int]] = {}
        candidates: list[_Candidate] = []
        limit = self.settings.max_concurrent_structs
        for request in requests:
            state = self._states[request.request_id]
            self._take(request.request_id, state, request.output_token_ids)
            if state.settings.num_filler:
                drafts[request.request_id] = self._filler(request.matcher, state.settings.num_filler)
            if state.drafter is None or not self.enabled or request.room <= 0:
                continue
            if state.pause:
                state.pause -= 1
                continue
            if limit is not None and len(candidates) >= limit:
                continue
            draft = state.drafter.propose(request.matcher, min(request.room, self._longest_draft))
            if draft.token_ids:
                candidates.append(_Candidate(request.request_id, state, state.drafter, draft))
        if candidates:
            self._admit(candidates, drafts, num_plain=len(requests) - len(candidates), num_prefill=num_prefill)
        self.counters.drafting_ms += (time.perf_counter() - started) * 1000.0
        return drafts

    def _admit(
        self,
        candidates: Sequence[_Candidate],
        drafts: dict[str, list[int]],
        *,
        num_plain: int,
        num_prefill: int,
    ) -> None:
        survivals = [self._calibration.corrected(candidate.draft.survival) for candidate in candidates]
        if self.verify_all:
            lengths = [len(candidate.draft.token_ids) for candidate in candidates]
        else:
            lengths = self._budget.admit(survivals, num_plain=num_plain, num_prefill=num_prefill).num_tokens
        # Under load only short drafts are admitted: longer ones would be drafted for nothing.
        self._longest_draft = min(max(2 * max(lengths), _SHORTEST_DRAFT), self.settings.num_draft_slots)
        for candidate, num_tokens in zip(candidates, lengths, strict=True):
            draft = candidate.draft
            if num_tokens:
                candidate.state.draft = draft
                candidate.state.survivals = draft.survival[:num_tokens].tolist()
                drafts[candidate.request_id] = draft.token_ids[:num_tokens]
            else:
                candidate.drafter.verified(0, 0)

    def _take(self, request_id: str, state: _State, output_token_ids: Sequence[int]) -> None:
        """Hand new output tokens to the drafter and count them."""
        num_tokens = len(output_token_ids)
        num_new = num_tokens - state.num_seen
        if num_new <= 0:
            return
        if state.num_seen:  # the first token is the prefill's
            self.counters.num_tokens += num_new
            self.counters.num_decode_steps += 1
            if self.trace is not None and not state.was_verified:
                self.trace(request_id, (), 0)
        state.was_verified = False
        if state.drafter is not None:
            if state.draft is not None:  # dropped unread: preempted, or no room in the step
                state.draft = None
                state.drafter.verified(0, 0)
            state.drafter.observe(list(output_token_ids[state.num_seen :]))
        state.num_seen = num_tokens

    def _filler(self, matcher: Matcher, num_tokens: int) -> list[int]:
        token = first_legal_token(matcher, self._vocab_size)
        return [token] * min(num_tokens, self.settings.num_draft_slots) if token is not None else []


_BY_ENGINE: WeakValueDictionary[str, Coordinator] = WeakValueDictionary()


def register(engine_id: str, coordinator: Coordinator) -> None:
    """Make an engine's coordinator findable in this process; forgotten with the engine."""
    _BY_ENGINE[engine_id] = coordinator


def coordinator_of(engine: Any) -> Coordinator | None:
    """The coordinator of a vLLM ``LLMEngine``; None without DSpark, or where its core runs in another process."""
    return _BY_ENGINE.get(str(engine.vllm_config.instance_id))
