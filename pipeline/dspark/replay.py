"""Replay of gold records: how many steps a model that writes them exactly would need with each drafter."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pipeline.dspark.drafting import DRAFTERS, Matcher, RequestDrafter
from pipeline.dspark.estimates import Estimates
from pipeline.dspark.floor import AcceptanceFloor
from pipeline.dspark.memory import Memory
from pipeline.dspark.ngram import NgramLookup
from pipeline.dspark.tokens import Tokenizer
from pipeline.dspark.weights import Weights

Method = Literal["off", "forced", "ngram", "dspark"]
METHODS: tuple[Method, ...] = ("off", "forced", "ngram", "dspark")
# Everything but the grammar.
_LEARNED = DRAFTERS - {"grammar"}


@dataclass(frozen=True)
class GoldRecord:
    """One document with the text a perfect model would write for it; `schema` keys the history and the matcher."""

    document_id: str
    document: str
    output: str
    schema: str


@dataclass
class ReplayResult:
    """Counts of one method over a set; `draft_s` is processor time of propose, observe and verified."""

    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    refused_records: int = 0
    draft_s: float = 0.0
    setup_s: float = 0.0
    drafted_by: Counter[str] = field(default_factory=Counter)
    accepted_by: Counter[str] = field(default_factory=Counter)

    @property
    def mean_acceptance_length(self) -> float:
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def acceptance_rate(self) -> float:
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def draft_us(self) -> float:
        """Mean time of drafting per request and step, in microseconds."""
        return 1e6 * self.draft_s / self.steps if self.steps else 0.0

    def to_json(self) -> dict[str, object]:
        """The figures under the names the benchmark writes."""
        return {
            "tokens": self.tokens,
            "steps": self.steps,
            "mean_acceptance_length": self.mean_acceptance_length,
            "acceptance_rate": self.acceptance_rate,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "draft_us": self.draft_us,
            "setup_us": 1e6 * self.setup_s / self.steps if self.steps else 0.0,
            "refused_records": self.refused_records,
            "by_drafter": {
                name: {"drafted": count, "accepted": self.accepted_by[name]}
                for name, count in self.drafted_by.most_common()
            },
        }


class _Proposer(Protocol):
    def observe(self, token_ids: Sequence[int]) -> None: ...
    def propose(self, matcher: Matcher, max_tokens: int) -> tuple[list[int], list[str]]: ...
    def verified(self, num_verified: int, num_accepted: int) -> None: ...
    def finish(self) -> None: ...


class _Off:
    def observe(self, token_ids: Sequence[int]) -> None:
        pass

    def propose(self, matcher: Matcher, max_tokens: int) -> tuple[list[int], list[str]]:
        return [], []

    def verified(self, num_verified: int, num_accepted: int) -> None:
        pass

    def finish(self) -> None:
        pass


class _Ngram(_Off):
    def __init__(self, lookup: NgramLookup) -> None:
        self._lookup = lookup

    def observe(self, token_ids: Sequence[int]) -> None:
        self._lookup.observe(token_ids)

    def propose(self, matcher: Matcher, max_tokens: int) -> tuple[list[int], list[str]]:
        ids = self._lookup.propose(max_tokens)
        return ids, ["ngram"] * len(ids)


class _Dspark:
    def __init__(self, drafter: RequestDrafter, floor: AcceptanceFloor) -> None:
        self._drafter = drafter
        self._floor = floor
        self.observe = drafter.observe
        self.finish = drafter.finish

    def propose(self, matcher: Matcher, max_tokens: int) -> tuple[list[int], list[str]]:
        draft = self._drafter.propose(matcher, max_tokens)
        count = self._floor.admit(draft.survival.tolist())
        return draft.token_ids[:count], draft.drafters[:count]

    def verified(self, num_verified: int, num_accepted: int) -> None:
        self._floor.verified(num_verified, num_accepted)
        self._drafter.verified(num_verified, num_accepted)


def replay(
    records: Iterable[GoldRecord],
    *,
    method: Method,
    tokenizer: Tokenizer,
    matchers: Mapping[str, Callable[[], Matcher]],
    max_draft_tokens: int = 16,
    without: frozenset[str] = frozenset(),
    rate: float = 0.62,
) -> ReplayResult:
    """Replay `records` one after the other, history starting empty; `matchers[schema]()` is a fresh matcher.

    A record whose tokens the grammar refuses is counted and left out. The end-of-sequence token is not counted.
    """
    result = ReplayResult()
    weights, estimates, floor = Weights(), Estimates(), AcceptanceFloor(rate)
    memories: dict[str, Memory] = {}
    silent = without | _LEARNED if method == "forced" else without

    def proposer(record: GoldRecord) -> _Proposer:
        if method == "off":
            return _Off()
        if method == "ngram":
            return _Ngram(NgramLookup(tokenizer.encode(record.document)))
        memory = memories.get(record.schema)
        if memory is None:
            memory = memories[record.schema] = Memory(weights, estimates)
        return _Dspark(
            RequestDrafter(
                document=record.document,
                prompt=record.document.encode(),
                tokenizer=tokenizer,
                memory=memory,
                without=silent,
            ),
            floor,
        )

    for record in records:
        ids = tokenizer.encode(record.output)
        matcher = matchers[record.schema]()
        if not _accepts(matcher, ids):
            result.refused_records += 1
            continue
        started = time.thread_time()
        drafter = proposer(record)
        result.setup_s += time.thread_time() - started
        _replay_record(ids, drafter, matcher, max_draft_tokens, result)
        started = time.thread_time()
        drafter.finish()
        result.setup_s += time.thread_time() - started
    return result


def _accepts(matcher: Matcher, ids: Sequence[int]) -> bool:
    trial = matcher.fork()
    return all(trial.accept_token(token_id) for token_id in ids)


def _replay_record(ids: list[int], drafter: _Proposer, matcher: Matcher, max_tokens: int, result: ReplayResult) -> None:
    position = 0
    # All that one step asks of the drafter runs in one stretch of the clock: taking in what was written, then drafting.
    started = time.thread_time()
    draft, names = drafter.propose(matcher, max_tokens)
    result.draft_s += time.thread_time() - started
    while position < len(ids):
        accepted = 0
        while accepted < len(draft) and position + accepted < len(ids) and draft[accepted] == ids[position + accepted]:
            accepted += 1
        num_verified = len(draft)
        result.drafted += num_verified
        result.accepted += accepted
        result.drafted_by.update(names)
        result.accepted_by.update(names[:accepted])
        written = ids[position : position + accepted + 1]
        for token_id in written:
            if not matcher.accept_token(token_id):
                raise AssertionError("the grammar refuses a token it accepted before")
        position += len(written)
        result.steps += 1
        result.tokens += len(written)
        started = time.thread_time()
        drafter.verified(num_verified, accepted)
        drafter.observe(written)
        if position < len(ids):
            draft, names = drafter.propose(matcher, max_tokens)
        result.draft_s += time.thread_time() - started
