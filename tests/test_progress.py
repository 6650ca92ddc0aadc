"""Progress: counts of task attempts add up, and the line says what a person wants to know."""

from __future__ import annotations

from pipeline.metrics import Counts, total
from pipeline.progress import ProgressLine, format_duration


def test_counts_survive_their_file_and_add_up() -> None:
    one = Counts(records=2, rejects=1, output_tokens=10, engine={"steps": 3.0}, engine_id="a", load_s=1.0)
    two = Counts(records=1, engine={"steps": 2.0}, engine_id="a")
    both = total([Counts.from_json(one.to_json()), two])
    assert (both.done, both.output_tokens, both.engine["steps"], both.engine_id) == (4, 10, 5.0, "1")


def test_the_load_of_an_engine_counts_once_however_many_attempts_used_it() -> None:
    parts = [Counts(engine_id=name, load_s=seconds) for name, seconds in [("a", 20.0), ("a", 20.0), ("b", 5.0)]]
    assert total(parts).load_s == 25.0
    assert total(parts).engine_id == "2"


def test_ratios_are_made_from_totals_and_not_added() -> None:
    one = {"num_tokens": 30.0, "num_decode_steps": 10.0, "mean_acceptance_length": 3.0, "num_drafted": 0.0,
           "num_accepted": 0.0, "acceptance_rate": 0.0}  # fmt: skip
    two = {"num_tokens": 90.0, "num_decode_steps": 90.0, "mean_acceptance_length": 1.0, "num_drafted": 50.0,
           "num_accepted": 20.0, "acceptance_rate": 0.4}  # fmt: skip
    engine = total([Counts(engine=one), Counts(engine=two)]).engine
    assert (engine["mean_acceptance_length"], engine["acceptance_rate"]) == (1.2, 0.4)
    assert total([Counts(engine={"engine_steps": 1.0})]).engine == {"engine_steps": 1.0}


def test_a_count_of_a_newer_version_is_skipped() -> None:
    assert Counts.from_json(b'{"records": 1, "new": 2}').records == 1


def test_the_line_tells_loading_then_rates_then_the_time_left() -> None:
    line = ProgressLine(num_total=200, num_resumed=100, num_work=100, now_s=0.0)
    assert line.render(Counts(), now_s=7.0) == "100/200 documents, starting the engine (7 s)"
    assert line.render(Counts(records=10), now_s=10.0) == "110/200 documents, 10 valid, 0 retried, 0 rejected"
    later = line.render(Counts(records=28, rejects=2, retried=3, output_tokens=400), now_s=20.0)
    assert later == "130/200 documents, 2.0/s, 40 tokens/s, 28 valid, 3 retried, 2 rejected, 35 s left"


def test_the_line_tells_what_a_step_brings_once_there_are_drafts() -> None:
    line = ProgressLine(num_total=100, num_resumed=0, num_work=100, now_s=0.0)
    line.render(Counts(records=10), now_s=1.0)
    engine = {"num_tokens": 300.0, "num_decode_steps": 80.0}
    shown = line.render(Counts(records=20, output_tokens=100, engine=engine), now_s=11.0)
    assert "1.0/s, 10 tokens/s (3.8 per step), 20 valid" in shown


def test_several_texts_of_one_document_count_in_proportion() -> None:
    line = ProgressLine(num_total=10, num_resumed=0, num_work=100, now_s=0.0)
    assert line.render(Counts(records=50), now_s=1.0).startswith("5/10 documents")


def test_durations_are_short() -> None:
    assert [format_duration(s) for s in (7.4, 185, 7800, -1)] == ["7 s", "3 min 05 s", "2 h 10 min", "0 s"]
