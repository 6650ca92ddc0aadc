"""The benchmark's figures follow from its measurements."""

from typing import Any

import pytest

from pipeline.decode_benchmark import Measurement, Measurements, _slices
from pipeline.decode_report import markdown, summary


class Workload:
    """What the report reads of a workload."""

    name = "two documents"
    prompts = ((), ())
    num_prompt_tokens = 20
    num_examples = 1
    layout = "spaced"
    golds = ()


def measured(variant: str, in_flight: int, elapsed_s: float, **counters: float) -> Measurement:
    return Measurement(variant, in_flight, 0, 2, elapsed_s, 100, 400, 50, counters)


@pytest.fixture
def figures() -> dict[str, Any]:
    found = Measurements(Workload())  # type: ignore[arg-type]
    counters = {"num_tokens": 98.0, "num_decode_steps": 14.0, "num_drafted": 100.0, "num_accepted": 84.0}
    by_drafter = {"drafted_by.grammar": 60.0, "accepted_by.grammar": 57.0, "drafting_ms": 20.0}
    found.all = [
        measured("plain", 1, 10.0),
        measured("off", 1, 10.5),
        measured("ngram", 1, 8.0),
        measured("dspark", 1, 2.0, **counters, **by_drafter),
        measured("bound", 1, 1.6),
        measured("plain", 4, 4.0),
        measured("dspark", 4, 2.0, **(counters | {"num_decode_steps": 28.0})),
    ]
    found.texts = {("plain", 1): ["a", "b"], ("dspark", 1): ["a", "b"], ("plain", 4): ["a", "b"]}
    found.texts["dspark", 4] = ["a", "c"]
    return summary(found, model="demo", dtype="bfloat16", machine={"cpu": "x"})


def test_ratios_are_plain_time_over_the_variants(figures: dict[str, Any]) -> None:
    assert figures["ratios"] == {"1": 5.0, "4": 2.0}
    assert figures["ratios_ngram"] == {"1": 1.25}
    assert figures["ratios_off"] == {"1": pytest.approx(0.9524)}
    assert figures["bound_ratio"] == {"1": 1.25}


def test_acceptance_is_that_of_the_fewest_in_flight(figures: dict[str, Any]) -> None:
    assert figures["mean_acceptance_length"] == 7.0
    assert figures["mean_acceptance_length_by_in_flight"] == {"1": 7.0, "4": 3.5}
    assert figures["acceptance_rate"] == 0.84
    assert figures["acceptance_by_drafter"]["grammar"] == {"drafted": 60.0, "accepted": 57.0, "rate": 0.95}


def test_one_different_output_is_not_identical(figures: dict[str, Any]) -> None:
    assert figures["identical"] is False
    assert figures["num_identical"] == {"1": 2, "4": 1}


def test_documents_alone_in_flight_are_compared_by_output_length() -> None:
    found = Measurements(Workload())  # type: ignore[arg-type]
    for variant, times in (("plain", (4.0, 10.0)), ("dspark", (2.0, 2.0))):
        found.all.append(Measurement(variant, 1, 0, 2, sum(times), 50, 1, 9, {}, times, (40, 10)))
    found.texts = {("plain", 1): ["a", "b"], ("dspark", 1): ["a", "b"]}
    figures = summary(found, model="demo", dtype="float32", machine={})
    assert figures["ratios_by_output_tokens"] == {"10": 5.0, "40": 2.0}


def test_the_table_shows_every_level_and_only_what_was_measured(figures: dict[str, Any]) -> None:
    text = markdown(figures)
    assert "| in flight | 1 | 4 |" in text
    assert "| plain / DSpark | 5.00 | 2.00 |" in text
    assert "| plain / vLLM ngram | 1.25 | – |" in text
    assert "2 documents (two documents)" in text


@pytest.mark.parametrize(("documents", "in_flight", "expected"), [(16, 1, 2), (16, 4, 2), (16, 16, 1), (3, 4, 1)])
def test_slices_are_long_enough_to_keep_requests_in_flight(documents: int, in_flight: int, expected: int) -> None:
    slices = list(_slices(documents, in_flight))
    assert len(slices) == expected
    assert [d for part in slices for d in part] == list(range(documents))
