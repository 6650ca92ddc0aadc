"""Who drafts, what is verified, and what is counted, with scripted drafters."""

from collections.abc import Sequence

import numpy as np
import pytest

from pipeline.dspark.arguments import RequestSettings, SchedulerSettings
from pipeline.dspark.coordinator import Coordinator, Decoding
from pipeline.dspark.drafting import Draft


class ScriptedDrafter:
    """Proposes the same tokens each time and records what it is told."""

    def __init__(self, token_ids: Sequence[int] = (7, 8, 9), survival: float = 0.99) -> None:
        self._token_ids = list(token_ids)
        self._survival = survival
        self.seen: list[int] = []
        self.results: list[tuple[int, int]] = []
        self.num_proposed = 0
        self.finished = False

    def observe(self, token_ids: Sequence[int]) -> None:
        self.seen += token_ids

    def propose(self, matcher: object, max_tokens: int) -> Draft:
        self.num_proposed += 1
        ids = self._token_ids[:max_tokens]
        return Draft(ids, np.full(len(ids), self._survival, np.float32), ["document"] * len(ids))

    def verified(self, num_verified: int, num_accepted: int) -> None:
        self.results.append((num_verified, num_accepted))

    def finish(self) -> None:
        self.finished = True


class Requests:
    """A coordinator with scripted requests that emit tokens as told."""

    def __init__(self, **settings: int) -> None:
        self.coordinator = Coordinator(SchedulerSettings(**settings), vocab_size=100)
        self.coordinator.costs.observe(1, 10.0)
        self.coordinator.costs.observe(100, 10.5)
        self.outputs: dict[str, list[int]] = {}

    def open(self, name: str, drafter: ScriptedDrafter, settings: RequestSettings | None = None) -> None:
        self.coordinator.open(name, settings or RequestSettings(), lambda: drafter)  # type: ignore[arg-type,return-value]
        self.outputs[name] = [1]

    def draft(self, *, room: int = 50, num_prefill: int = 0) -> dict[str, list[int]]:
        decoding = [Decoding(name, tokens, object(), room) for name, tokens in self.outputs.items()]  # type: ignore[arg-type]
        return self.coordinator.draft(decoding, num_prefill=num_prefill)


def test_a_sure_draft_is_verified_and_its_result_reaches_the_drafter() -> None:
    requests, drafter = Requests(), ScriptedDrafter()
    requests.open("a", drafter)
    assert requests.draft() == {"a": [7, 8, 9]}
    requests.coordinator.verified("a", 3, 2)
    requests.outputs["a"] += [7, 8, 5]
    requests.draft()
    assert drafter.results == [(3, 2)]
    assert drafter.seen == [1, 7, 8, 5]
    counters = requests.coordinator.counters
    assert (counters.num_drafted, counters.num_accepted) == (3, 2)
    assert counters.mean_acceptance_length == 3.0
    assert counters.accepted_by == {"document": 2}


def test_drafts_are_no_longer_than_the_room_that_is_left() -> None:
    requests = Requests()
    requests.open("a", ScriptedDrafter())
    assert requests.draft(room=2) == {"a": [7, 8]}
    requests.open("b", ScriptedDrafter())
    assert "b" not in requests.draft(room=0)


def test_a_draft_that_was_never_read_is_not_counted_as_rejected() -> None:
    requests, drafter = Requests(), ScriptedDrafter()
    requests.open("a", drafter)
    requests.draft()
    requests.outputs["a"].append(4)  # preempted: the draft was dropped
    requests.draft()
    assert drafter.results == [(0, 0)]
    assert requests.coordinator.counters.num_drafted == 0


def test_a_request_whose_drafts_keep_failing_pauses_and_comes_back() -> None:
    requests, drafter = Requests(), ScriptedDrafter()
    requests.open("a", drafter)
    for _ in range(60):
        if "a" in requests.draft():
            requests.coordinator.verified("a", 3, 0)
        requests.outputs["a"].append(4)
    assert 5 <= drafter.num_proposed <= 20


def test_no_more_requests_draft_at_once_than_allowed() -> None:
    requests = Requests(max_concurrent_structs=2)
    for name in "abcd":
        requests.open(name, ScriptedDrafter())
    assert set(requests.draft()) == {"a", "b"}


def test_the_token_budget_bounds_all_drafts_of_a_step() -> None:
    requests = Requests(max_token_budget=4)
    for name in "abc":
        requests.open(name, ScriptedDrafter())
    assert sum(map(len, requests.draft().values())) == 4


def test_switched_off_nothing_is_drafted_for_anyone() -> None:
    requests = Requests()
    requests.open("a", ScriptedDrafter())
    requests.coordinator.enabled = False
    assert requests.draft() == {}


def test_a_request_may_switch_drafting_off_for_itself() -> None:
    requests, drafter = Requests(), ScriptedDrafter()
    requests.open("a", drafter, RequestSettings(enabled=False))
    assert requests.draft() == {}
    assert drafter.num_proposed == 0


@pytest.mark.parametrize("completed", [True, False])
def test_only_completed_requests_teach_the_history(completed: bool) -> None:
    requests, drafter = Requests(), ScriptedDrafter()
    requests.open("a", drafter)
    requests.coordinator.close("a", [1, 2], completed=completed)
    assert drafter.finished is completed
    assert "a" not in requests.coordinator


def test_results_of_unknown_requests_are_ignored() -> None:
    coordinator = Requests().coordinator
    coordinator.verified("gone", 3, 1)
    coordinator.close("gone", [], completed=True)
    assert coordinator.counters.num_drafted == 0


def test_the_trace_has_one_entry_per_decode_step() -> None:
    requests = Requests()
    trace: list[tuple[int, int]] = []
    requests.coordinator.trace = lambda _, survivals, accepted: trace.append((len(survivals), accepted))
    requests.open("a", ScriptedDrafter())
    requests.draft()
    requests.coordinator.verified("a", 3, 1)
    requests.outputs["a"] += [7, 5]
    requests.draft(room=0)
    requests.outputs["a"] += [6]
    requests.draft()
    assert trace == [(3, 1), (0, 0)]


def test_a_request_that_starts_while_drafting_is_off_is_neither_drafted_nor_learned_from() -> None:
    requests, drafter = Requests(), ScriptedDrafter()
    requests.coordinator.enabled = False
    requests.open("a", drafter)
    requests.outputs["a"] += [7, 8]
    assert requests.draft() == {}
    requests.coordinator.enabled = True
    assert requests.draft() == {}
    requests.coordinator.close("a", requests.outputs["a"], completed=True)
    assert drafter.seen == []
    assert not drafter.finished


def test_steps_that_read_prompts_do_not_change_what_a_decode_step_is_said_to_cost() -> None:
    coordinator = Requests().coordinator
    before = coordinator.costs.points()
    coordinator.stepped(100, num_prefill=90, step_ms=500.0)
    assert coordinator.costs.points() == before
    assert coordinator.mixed_costs.points() == [(coordinator.mixed_costs.points()[0][0], 500.0)]
    coordinator.stepped(8, num_prefill=0, step_ms=10.2)
    assert coordinator.costs.points() != before
    assert coordinator.counters.num_engine_steps == 2
