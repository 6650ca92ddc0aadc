"""Evaluation: the scores are those worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.bootstrap import bootstrap, f1_of
from pipeline.calibration import calibrate
from pipeline.evaluation import Prediction, compare, evaluate
from pipeline.field_scores import Difference, Tally, score_document
from pipeline.value_equality import is_equal

SCHEMA = {
    "type": "object",
    "properties": {"orders": {"type": "array", "key": "id", "items": {"type": "object", "properties": {"id": {}}}}},
}
GOLD: dict[str, Any] = {
    "d1": {"name": "Ann Lee", "total": 24.9, "date": "2018-04-05", "city": None},
    "d2": {"name": "Bob", "total": 10, "date": None, "city": "Bonn"},
    "d3": {"name": "Cem", "total": 7, "date": "2018-01-01", "city": "Köln"},
    "d4": {"name": "Dan", "total": 1, "date": None, "city": None},
}
PREDICTED = {
    "d1": Prediction({"name": "ANN  LEE", "total": 24.90, "date": "05/04/2018", "city": "Bonn"}),
    "d2": Prediction({"name": "Bob", "total": 10.0, "city": ""}),
    "d3": Prediction(None, reason="INVALID_JSON"),
    "other": Prediction({"name": "x"}),
}


def counts(tally: Tally) -> tuple[int, int, int]:
    return tally.tp, tally.fp, tally.fn


def test_scores_are_those_worked_out_by_hand() -> None:
    result = evaluate(GOLD, PREDICTED)
    exact = {field.name: counts(field.exact) for field in result.fields}
    normalised = {field.name: counts(field.normalised) for field in result.fields}
    # name: d1 differs in case (wrong exactly, right normalised), d2 right, d3 and d4 not there
    # city: d1 invented, d2 blank although there is one, d3 not there, d4 has none
    assert exact == {"/name": (1, 1, 3), "/total": (2, 0, 2), "/date": (0, 1, 2), "/city": (0, 1, 2)}
    assert normalised == {"/name": (2, 0, 2), "/total": (2, 0, 2), "/date": (1, 0, 1), "/city": (0, 1, 2)}
    assert counts(result.exact) == (3, 3, 9)
    assert counts(result.normalised) == (5, 1, 7)
    assert result.exact.precision == 3 / 6
    assert result.exact.recall == 3 / 12
    assert result.normalised.f1 == pytest.approx(10 / 18)
    assert result.rejects_by_reason == {"INVALID_JSON": 1}
    assert (result.reject_rate, result.invalid_rate) == (0.25, 0.25)
    assert (result.num_missing, result.num_without_gold, result.num_documents) == (1, 1, 4)
    assert result.intervals["record_match"].value == 0.0
    assert [document.doc_id for document in result.worst] == ["d3", "d4", "d2", "d1"]
    assert result.worst[3].differences == (Difference("/city", "extra", None, "Bonn"),)
    assert result.worst[2].differences == (Difference("/city", "missing", "Bonn", None),)


def test_items_of_a_list_are_paired_by_key() -> None:
    gold = {"orders": [{"id": "1", "n": 5}, {"id": "2", "n": 6}, {"id": "3", "n": 7}]}
    found = {"orders": [{"id": "3", "n": 7}, {"id": "1", "n": 9}, {"id": "4", "n": 6}]}
    score = score_document(gold, found, SCHEMA, mode="exact")
    assert {name: counts(tally) for name, tally in score.fields.items()} == {
        "/orders[]": (2, 1, 1),
        "/orders/*/id": (2, 1, 1),
        "/orders/*/n": (1, 2, 2),
    }
    assert counts(score.total) == (3, 3, 3)
    assert Difference("/orders/0/n", "wrong", 5, 9) in score.differences
    assert ("/orders/1/n", False) in score.leaves


def test_items_without_a_key_are_paired_by_likeness() -> None:
    gold = {"events": [{"type": "a", "who": "x", "when": 1}, {"type": "b", "who": "y", "when": 2}]}
    found = {"events": [{"type": "b", "who": "y", "when": 3}, {"type": "a", "who": "x", "when": 1}]}
    score = score_document(gold, found, mode="exact")
    assert counts(score.fields["/events[]"]) == (1, 1, 1)
    assert counts(score.fields["/events/*/when"]) == (1, 1, 1)
    assert counts(score.total) == (5, 1, 1)


def test_lists_of_texts_are_sets_with_counts() -> None:
    score = score_document({"skills": ["A", "b", "b", "c"]}, {"skills": ["b", "a", "x"]}, mode="normalised")
    assert {name: counts(tally) for name, tally in score.fields.items()} == {"/skills/*": (2, 1, 2)}


@pytest.mark.parametrize(
    ("left", "right", "exact", "normalised"),
    [
        (1, 1.0, True, True),
        (True, 1, False, False),
        ("1,000", 1000, False, True),
        ("Ｂonn ", "bonn", False, True),
        ("2018-04-05", "5 April 2018", False, True),
        ("2018-04-05T10:00:00Z", "2018-04-05 10:00", False, True),
        ("2018-04-05", "2018-05-05", False, False),
        ("北京　市", "北京 市", False, True),
        ("a", "b", False, False),
    ],
)
def test_equality_of_values(left: Any, right: Any, exact: bool, normalised: bool) -> None:
    assert is_equal(left, right, "exact") == exact
    assert is_equal(left, right, "normalised") == normalised


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("abA ", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("pqr"), inner, max_size=3),
    max_leaves=12,
)


@given(value=VALUES, other=VALUES)
@settings(max_examples=300, deadline=None)
def test_a_value_scores_full_against_itself_and_errors_are_symmetric(value: Any, other: Any) -> None:
    same = score_document({"f": value}, {"f": value}, mode="exact")
    assert same.is_match
    assert same.total.f1 == 1.0
    there = score_document({"f": value}, {"f": other}, mode="exact")
    back = score_document({"f": other}, {"f": value}, mode="exact")
    assert (there.total.tp, there.total.fp, there.total.fn) == (back.total.tp, back.total.fn, back.total.fp)
    assert there.is_match == (there.total.fp + there.total.fn == 0)


def test_two_runs_are_compared_with_intervals() -> None:
    gold = {str(i): {"a": i, "b": "x"} for i in range(100)}
    worse = evaluate(gold, {str(i): Prediction({"a": i if i % 2 else -1, "b": "x"}) for i in range(100)})
    better = evaluate(gold, {str(i): Prediction({"a": i, "b": "x" if i % 10 != 1 else "y"}) for i in range(100)})
    result = compare(worse, better)
    assert result.differences["f1_exact"].value == pytest.approx(0.95 - 0.75)
    assert result.differences["record_match"].value == pytest.approx(0.9 - 0.5)
    assert result.differences["record_match"].excludes_zero
    assert (result.num_better, result.num_worse) == (50, 10)
    same = compare(worse, worse)
    assert same.differences["f1_exact"].low == same.differences["f1_exact"].high == 0.0
    assert result == compare(worse, better)


def test_an_interval_covers_what_theory_says() -> None:
    interval = bootstrap([[float(i < 60), 1.0] for i in range(100)], lambda sums: sums[:, 0] / sums[:, 1])
    assert interval.value == 0.6
    assert interval.low == pytest.approx(0.6 - 1.96 * 0.049, abs=0.015)
    assert interval.high == pytest.approx(0.6 + 1.96 * 0.049, abs=0.015)
    assert bootstrap([], f1_of).value == 0.0


def test_calibration_is_the_one_worked_out_by_hand() -> None:
    result = calibrate([(0.95, True), (0.95, True), (0.95, False), (0.55, False), (1.0, True)])
    assert [(b.low, b.count) for b in result.bins] == [(0.5, 1), (0.9, 4)]
    assert result.bins[1].accuracy == 0.75
    assert result.ece == pytest.approx((1 * 0.55 + 4 * (0.9625 - 0.75)) / 5)
    assert result.brier == pytest.approx((0.05**2 * 2 + 0.95**2 + 0.55**2) / 5)
    assert calibrate([]).ece == 0.0


def test_confidences_are_joined_with_what_is_right() -> None:
    found = Prediction({"a": 1, "b": [{"c": "x"}]}, confidence={"/a": 0.9, "/b/0/c": 0.8, "/zzz": 0.1})
    result = evaluate({"d": {"a": 1, "b": [{"c": "y"}]}}, {"d": found})
    assert result.calibration is not None
    assert result.calibration.num_values == 2
    assert result.calibration.ece == pytest.approx((0.1 + 0.8) / 2)


@pytest.mark.parametrize("name", ["sroie_receipts_en", "fewfc_events_zh", "crosswoz_zh"])
def test_gold_scores_full_against_itself(shared: Path, name: str) -> None:
    rows = [json.loads(line) for line in (shared / "data" / name / "documents.jsonl").read_text("utf-8").splitlines()]
    gold = {row["id"]: row["gold"] for row in rows}
    result = evaluate(gold, {doc_id: Prediction(value) for doc_id, value in gold.items()})
    assert result.exact.f1 == 1.0
    assert result.exact.tp > 100
    assert not result.worst
