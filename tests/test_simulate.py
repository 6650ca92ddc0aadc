"""The simulation agrees with what can be computed by hand, and predicts what arithmetic allows."""

import json
from pathlib import Path

import pytest

from pipeline.dspark.costs import CostTable
from pipeline.errors import InputError
from pipeline.simulate import H200_MODELS, RequestTrace, simulate
from pipeline.simulate_run import run_simulate, simulate_table
from pipeline.step_model import Load, StepModel

SURE = (0.99, 0.98, 0.97, 0.96)
FREE = CostTable([(1, 10.0), (4096, 10.001)])
LINEAR = CostTable([(1, 1.0), (4096, 4096.0)])


def trace(*drafts: tuple[tuple[float, ...], int], output: int, prompt: int = 1) -> RequestTrace:
    return RequestTrace(prompt, output, drafts)


def test_plain_decoding_takes_one_step_per_token_and_one_for_the_prompt() -> None:
    result = simulate([trace(output=5)], FREE, in_flight=1, drafting=False)
    assert result.num_steps == 5
    assert result.elapsed_s == pytest.approx(0.05, rel=1e-3)
    assert result.num_output_tokens == 5


def test_accepted_drafts_save_steps() -> None:
    result = simulate([trace((SURE, 4), (SURE, 4), output=11)], FREE, in_flight=1)
    assert result.num_steps == 3
    assert result.num_output_tokens == 11
    assert result.mean_acceptance_length == 5.0


def test_a_rejected_draft_gives_one_token() -> None:
    assert simulate([trace((SURE, 0), output=2)], FREE, in_flight=1).num_steps == 2


def test_what_the_budget_leaves_out_is_drafted_again() -> None:
    result = simulate([trace((SURE, 4), output=6)], FREE, in_flight=1, max_token_budget=1)
    # prompt; one admitted and the model's own next; one more and the end
    assert result.num_steps == 4
    assert result.num_output_tokens == 6


def test_compute_bound_drafts_are_not_worth_it() -> None:
    requests = [trace(*([((0.6, 0.3), 1)] * 10), output=20) for _ in range(4)]
    with_drafts = simulate(requests, LINEAR, in_flight=4)
    plain = simulate(requests, LINEAR, in_flight=4, drafting=False)
    assert with_drafts.elapsed_s <= plain.elapsed_s * 1.001


def test_requests_in_flight_share_steps() -> None:
    requests = [trace(output=10) for _ in range(8)]
    one = simulate(requests, FREE, in_flight=1, drafting=False)
    eight = simulate(requests, FREE, in_flight=8, drafting=False)
    assert one.num_steps == 8 * eight.num_steps


def test_a_long_prompt_is_read_in_chunks() -> None:
    result = simulate([trace(output=1, prompt=100)], FREE, in_flight=1, max_step_tokens=30)
    assert result.num_steps == 4


def test_the_h200_knee_lies_where_it_is_said_to() -> None:
    for machine in H200_MODELS:
        assert 150 <= machine.knee_tokens <= 200
        below, above = machine.cost_table().step_ms([machine.knee_tokens / 2, machine.knee_tokens * 4])
        assert above > 1.5 * below or machine.num_parameters < 2e9


def test_the_report_reproduces_and_predicts(tmp_path: Path) -> None:
    drafts = {f"r{i}": [[list(SURE), 4], [[], 0]] * 4 for i in range(6)}
    costs = {str(size): 10.0 + 0.1 * size for size in (1, 2, 4, 8, 16, 32, 64)}
    requests = [RequestTrace(10, 25, tuple((tuple(s), a) for s, a in rows)) for rows in drafts.values()]
    table = CostTable([(int(size), time) for size, time in costs.items()])
    loads = [Load.of([(size, 10 * size, True)] * count) for size in (1, 2, 5) for count in (1, 2, 4)]
    steps = [
        ([(size, 10 * size, True)] * count, 10.0 + 0.1 * size * count) for size in (1, 2, 5) for count in (1, 2, 4)
    ]
    model = StepModel.fit([(load, step_ms) for load, (_, step_ms) in zip(loads, steps, strict=True)])
    measured = {"off": {"4": simulate(requests, table, in_flight=4, drafting=False, model=model).elapsed_s}}
    file = tmp_path / "traces.json"
    file.write_text(
        json.dumps(
            {
                "requests": {name: [10, 25, 0] for name in drafts},
                "drafts": drafts,
                "cost_table_ms": costs,
                "steps": steps,
                "measured_s": measured,
            }
        )
    )
    figures = run_simulate(file, in_flight=(1, 64), charts=tmp_path / "charts")
    assert figures["reproduced"][0]["ratio"] == pytest.approx(1.0)
    assert len(figures["predicted"]) == 6
    assert all(p["ratio"] >= 0.99 for p in figures["predicted"])
    text = simulate_table(figures)
    assert "Assumptions" in text
    assert "| 8B |" in text
    assert (tmp_path / "charts" / "simulated_ratios.png").read_bytes().startswith(b"\x89PNG")


def test_the_model_of_a_step_finds_the_costs_it_was_made_with() -> None:
    def step_ms(load: Load) -> float:
        return 20.0 + 5.0 * (load.num_tokens > 1) + 0.5 * load.num_tokens + 0.001 * load.context

    shapes = [(count, size, context) for count in (1, 3, 16) for size in (1, 2, 9) for context in (50, 900, 1500)]
    loads = [Load.of([(size, context, True)] * count) for count, size, context in shapes]
    loads += [Load.of([(size, 0, False), (1, context, True)]) for _, size, context in shapes]
    model = StepModel.fit([(load, step_ms(load)) for load in loads])
    unseen = Load.of([(4, 700, True), (1, 300, True), (30, 0, False)])
    assert model.step_ms(unseen) == pytest.approx(step_ms(unseen), rel=0.02)


def test_no_cost_of_a_step_is_negative() -> None:
    falling = [(Load.of([(1, 100 * n, True)]), 50.0 - n) for n in range(1, 9)]
    model = StepModel.fit(falling)
    few, many = model.step_ms(Load.of([(1, 0, True)])), model.step_ms(Load.of([(1, 5000, True)]))
    assert few <= many


def test_a_file_that_holds_no_traces_is_named(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    with pytest.raises(InputError, match=r"other\.json holds no recorded drafts"):
        run_simulate(file, in_flight=(1,))
