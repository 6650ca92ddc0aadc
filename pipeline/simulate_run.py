"""The simulation as a report: measured times reproduced, then predicted for an H200-class machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.charts import line_chart
from pipeline.dspark.costs import CostTable
from pipeline.errors import InputError
from pipeline.simulate import ASSUMPTIONS, H200_MODELS, RequestTrace, simulate
from pipeline.step_model import Load, StepModel

_NUM_REQUESTS = 512
"""Predictions decode at least so many requests (the recorded ones again and again), to keep 256 in flight busy."""


def run_simulate(traces: Path, *, in_flight: Sequence[int], charts: Path | None = None) -> dict[str, Any]:
    """Figures from a file that ``decode --traces`` wrote. Raises InputError where it is none."""
    try:
        recorded = json.loads(traces.read_text(encoding="utf-8"))
        requests = load_traces(recorded)
        table = CostTable([(int(size), float(time)) for size, time in recorded["cost_table_ms"].items()])
        measured = recorded["measured_s"]
        model = StepModel.fit([(Load.of(parts), step_ms) for parts, step_ms in recorded["steps"]])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{traces} holds no recorded drafts: {error}", hint="decode --traces FILE") from None
    reproduced = []
    for variant, drafting in (("off", False), ("dspark", True)):
        for level, seconds in measured.get(variant, {}).items():
            if seconds:
                simulated = simulate(requests, table, in_flight=int(level), drafting=drafting, model=model)
                reproduced.append(
                    {
                        "variant": variant,
                        "in_flight": int(level),
                        "measured_s": seconds,
                        "simulated_s": simulated.elapsed_s,
                        "ratio": simulated.elapsed_s / seconds,
                        "mean_acceptance_length": simulated.mean_acceptance_length,
                    }
                )
    figures = {
        "assumptions": list(ASSUMPTIONS),
        "num_requests": len(requests),
        "reproduced": reproduced,
        "predicted": _predict(requests, in_flight),
    }
    if charts is not None:
        charts.mkdir(parents=True, exist_ok=True)
        _draw(charts, figures)
    return figures


def load_traces(recorded: Mapping[str, Any]) -> list[RequestTrace]:
    """The recorded requests in order of submission."""
    return [
        RequestTrace(
            num_prompt_tokens=num_prompt,
            num_output_tokens=num_output,
            drafts=tuple((tuple(survivals), accepted) for survivals, accepted in recorded["drafts"].get(name, ())),
            num_cached_tokens=num_cached,
        )
        for name, (num_prompt, num_output, num_cached) in recorded["requests"].items()
    ]


def simulate_table(figures: Mapping[str, Any]) -> str:
    """Both tables as Markdown, the assumptions below."""
    lines = [f"{figures['num_requests']} recorded requests.", ""]
    lines += ["| | in flight | measured s | simulated s | ratio |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| {r['variant']} | {r['in_flight']} | {r['measured_s']:.1f} | {r['simulated_s']:.1f} | {r['ratio']:.2f} |"
        for r in figures["reproduced"]
    ]
    levels = list(dict.fromkeys(p["in_flight"] for p in figures["predicted"]))
    lines += ["", "Predicted for an H200-class machine, plain time / DSpark time:", ""]
    lines += ["| model | knee, tokens | " + " | ".join(map(str, levels)) + " |", "|---|---:|" + "---:|" * len(levels)]
    for model in dict.fromkeys(p["model"] for p in figures["predicted"]):
        found = [p for p in figures["predicted"] if p["model"] == model]
        cells = " | ".join(f"{p['ratio']:.2f}" for p in found)
        lines.append(f"| {model} | {found[0]['knee_tokens']:.0f} | {cells} |")
    lines += ["", "Assumptions:", *(f"- {' '.join(text.split())}" for text in figures["assumptions"])]
    return "\n".join(lines) + "\n"


def _predict(requests: Sequence[RequestTrace], in_flight: Sequence[int]) -> list[dict[str, Any]]:
    many = [*requests] * max(1, -(-_NUM_REQUESTS // max(len(requests), 1)))
    predicted = []
    for machine in H200_MODELS:
        table = machine.cost_table()
        for level in in_flight:
            some = many[: max(level * 4, 64)]
            plain = simulate(some, table, in_flight=level, drafting=False)
            dspark = simulate(some, table, in_flight=level)
            predicted.append(
                {
                    "model": machine.name,
                    "knee_tokens": machine.knee_tokens,
                    "in_flight": level,
                    "ratio": plain.elapsed_s / dspark.elapsed_s,
                    "plain_tokens_per_s": plain.num_output_tokens / plain.elapsed_s,
                    "dspark_tokens_per_s": dspark.num_output_tokens / dspark.elapsed_s,
                    "mean_acceptance_length": dspark.mean_acceptance_length,
                }
            )
    return predicted


def _draw(folder: Path, figures: Mapping[str, Any]) -> None:
    series: dict[str, list[tuple[float, float]]] = {}
    for predicted in figures["predicted"]:
        series.setdefault(predicted["model"], []).append((float(predicted["in_flight"]), predicted["ratio"]))
    line_chart(
        folder / "simulated_ratios.png",
        series,
        title="Predicted for an H200: speed relative to plain decoding",
        x_label="requests in flight",
        y_label="times as fast",
    )
