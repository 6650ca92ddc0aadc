"""The draft budget: optimal prefixes, bounded, careful where computing is the limit."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dspark.budget import Budget
from pipeline.dspark.costs import CostTable

FREE = CostTable([(1, 10.0), (1000, 10.001)])
"""Memory-bound: more tokens cost nothing."""
LINEAR = CostTable([(1, 1.0), (1000, 1000.0)])
"""Compute-bound: a step takes as long as it has tokens."""

drafts = st.lists(st.lists(st.floats(0.03, 1.0), max_size=5), min_size=1, max_size=3)


def falling(rows: list[list[float]]) -> list[list[float]]:
    return [np.minimum.accumulate(row).tolist() if row else [] for row in rows]


@settings(max_examples=60)
@given(drafts, st.lists(st.floats(0.1, 3.0), min_size=18, max_size=18), st.integers(0, 3))
def test_no_other_prefixes_give_more_expected_tokens_per_millisecond(
    rows: list[list[float]], increments: list[float], num_plain: int
) -> None:
    rows = falling(rows)
    costs = CostTable([(size + 1, 5.0 + sum(increments[: size + 1])) for size in range(18)])
    admission = Budget(costs, max_token_budget=100).admit(rows, num_plain=num_plain)

    def rate(lengths: tuple[int, ...]) -> float:
        expected = len(rows) + num_plain + sum(sum(row[:n]) for row, n in zip(rows, lengths, strict=True))
        return expected / float(costs.step_ms([len(rows) + num_plain + sum(lengths)])[0])

    best = max(rate(lengths) for lengths in itertools.product(*(range(len(row) + 1) for row in rows)))
    assert rate(tuple(admission.num_tokens)) == pytest.approx(best, rel=1e-9)


def test_memory_bound_steps_admit_nearly_everything() -> None:
    assert Budget(FREE, max_token_budget=100).admit([[0.9, 0.5, 0.1], [0.3]]).num_tokens == [3, 1]


def test_compute_bound_steps_admit_only_near_certain_tokens() -> None:
    assert Budget(LINEAR, max_token_budget=100).admit([[0.999, 0.5], [0.3]]).num_tokens == [0, 0]


def test_the_token_budget_bounds_a_step_and_the_surest_tokens_stay() -> None:
    admission = Budget(FREE, max_token_budget=3).admit([[0.9, 0.8, 0.7], [0.95, 0.2]])
    assert admission.num_tokens == [2, 1]


def test_a_prefill_in_the_same_step_is_no_reason_to_draft_more() -> None:
    # Flat up to 64 tokens, then steep: alone the drafts are free, beside a long prompt they are not.
    costs = CostTable([(1, 10.0), (64, 10.0), (65, 12.0), (600, 1082.0)])
    budget = Budget(costs, max_token_budget=100)
    alone = budget.admit([[0.6, 0.4, 0.3, 0.2]])
    beside = budget.admit([[0.6, 0.4, 0.3, 0.2]], num_prefill=500)
    assert alone.num_tokens == [4]
    assert beside.num_tokens == [1]


def test_without_drafts_nothing_is_admitted() -> None:
    admission = Budget(FREE, max_token_budget=10).admit([[], []], num_plain=2)
    assert admission.num_tokens == [0, 0]
    assert admission.expected_tokens == 4.0


def test_rising_survival_is_read_as_its_running_minimum() -> None:
    assert Budget(FREE, max_token_budget=1).admit([[0.2, 0.9], [0.5]]).num_tokens == [0, 1]


def test_hopeless_tokens_are_never_verified() -> None:
    assert Budget(FREE, max_token_budget=10).admit([[0.5, 0.001]]).num_tokens == [1]


def test_prompt_tokens_that_are_cheaper_than_verified_ones_do_not_make_drafts_look_cheap() -> None:
    decoding = CostTable([(1, 30.0), (101, 230.0)])  # two milliseconds a verified token
    mixed = CostTable([(100, 140.0), (400, 440.0)])  # one a prompt token
    drafts = [[0.9, 0.8, 0.3, 0.2, 0.1]] * 16
    apart = Budget(decoding, mixed, max_token_budget=1000).admit(drafts, num_prefill=150)
    alone = Budget(decoding, max_token_budget=1000).admit(drafts)
    assert apart.num_tokens == alone.num_tokens == [2] * 16
    unseen = Budget(CostTable(), mixed, max_token_budget=1000).admit(drafts, num_prefill=150)
    assert sum(unseen.num_tokens) >= sum(apart.num_tokens), "before any step that only decodes, drafts are still taken"
    assert apart.expected_ms == pytest.approx(40.0 + 150 + 16 * 3, rel=1e-4)
