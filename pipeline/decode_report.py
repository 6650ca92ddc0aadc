"""The decoding benchmark's result as JSON and as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.decode_benchmark import Measurements

_LENGTH_GROUPS = 4


def summary(found: Measurements, *, model: str, dtype: str, machine: Mapping[str, Any]) -> dict[str, Any]:
    """All figures of a run.

    ``ratios``: plain time over DSpark's, by requests in flight (above 1: DSpark is faster); ``ratios_ngram`` and
    ``ratios_off`` the same for vLLM's ngram and for the DSpark engine with drafting off. ``bound_ratio``: DSpark's
    time over that of one prefill pass over prompt and output (1 is the least possible). ``outputs``: whose the
    records were, the ``model``'s or the ``gold`` ones that it was made to write. ``mean_acceptance_length``,
    ``acceptance_rate``: at the smallest number in flight; ``_by_in_flight`` for all. ``identical``: all DSpark
    outputs equal plain decoding's at the same number in flight.
    """
    levels = sorted({m.in_flight for m in found.all})
    lowest = levels[0] if levels else 0
    variants = sorted({m.variant for m in found.all})
    workload = found.workload
    return {
        "model": model,
        "dtype": dtype,
        "documents": workload.name,
        "num_documents": len(workload.prompts),
        "num_prompt_tokens": workload.num_prompt_tokens,
        "num_examples": workload.num_examples,
        "layout": workload.layout,
        "outputs": "gold" if workload.golds else "model",
        "machine": dict(machine),
        "ratios": _ratios(found, levels, "plain", "dspark"),
        "ratios_ngram": _ratios(found, levels, "plain", "ngram"),
        "ratios_off": _ratios(found, levels, "plain", "off"),
        "bound_ratio": _ratios(found, levels, "dspark", "bound"),
        "mean_acceptance_length": _acceptance_length(found, lowest),
        "mean_acceptance_length_by_in_flight": {str(n): _acceptance_length(found, n) for n in levels},
        "acceptance_rate": _acceptance_rate(found, lowest),
        "acceptance_rate_by_in_flight": {str(n): _acceptance_rate(found, n) for n in levels},
        "acceptance_by_drafter": _by_drafter(found),
        "identical": all(_num_identical(found, n, "dspark") == len(workload.prompts) for n in levels),
        "num_identical": {str(n): _num_identical(found, n, "dspark") for n in levels if ("plain", n) in found.texts},
        "num_identical_ngram": {str(n): _num_identical(found, n, "ngram") for n in levels},
        "num_identical_plain": {str(n): _num_identical_plain(found, n, lowest) for n in levels},
        "ratios_by_output_tokens": _by_length(found),
        "tokens_per_s": _per_second(found, levels, variants, "num_output_tokens", 1.0),
        "kilobytes_per_s": _per_second(found, levels, variants, "num_output_bytes", 1024.0),
        "drafting_share": _share(found, levels, "drafting_ms"),
        "masking_share": _share(found, levels, "masking_ms"),
        "cost_table_ms": {str(size): round(time, 2) for size, time in found.cost_table},
        "measurements": [asdict(m) for m in found.all],
    }


def markdown(figures: Mapping[str, Any]) -> str:
    """A table by requests in flight, with what was measured above it."""
    levels = list(figures["ratios"]) or list(figures["mean_acceptance_length_by_in_flight"])
    head = (
        f"Model {figures['model']} ({figures['dtype']}), "
        f"{figures['num_documents']} documents ({figures['documents']}), "
        f"{figures['num_examples']} examples in the prompt, {figures['num_prompt_tokens']} prompt tokens, "
        f"layout {figures['layout']}."
    )
    if figures["outputs"] == "gold":
        head += " The engines were made to write the gold records: as with a model that makes no mistake."
    rows: list[tuple[str, list[str]]] = [
        ("plain vLLM, tokens/s", _row(figures["tokens_per_s"].get("plain", {}), levels, "{:.1f}")),
        ("DSpark, tokens/s", _row(figures["tokens_per_s"].get("dspark", {}), levels, "{:.1f}")),
        ("DSpark, KB/s", _row(figures["kilobytes_per_s"].get("dspark", {}), levels, "{:.2f}")),
        ("plain / DSpark", _row(figures["ratios"], levels, "{:.2f}")),
        ("plain / vLLM ngram", _row(figures["ratios_ngram"], levels, "{:.2f}")),
        ("plain / DSpark engine, drafting off", _row(figures["ratios_off"], levels, "{:.2f}")),
        ("DSpark / bound (one prefill pass)", _row(figures["bound_ratio"], levels, "{:.2f}")),
        ("mean acceptance length", _row(figures["mean_acceptance_length_by_in_flight"], levels, "{:.2f}")),
        ("acceptance rate", _row(figures["acceptance_rate_by_in_flight"], levels, "{:.2f}")),
        ("drafting and budgeting, share of step time", _row(figures["drafting_share"], levels, "{:.1%}")),
        ("outputs equal to plain decoding", _row(figures["num_identical"], levels, "{}")),
    ]
    lines = [head, "", "| in flight | " + " | ".join(levels) + " |", "|---|" + "---:|" * len(levels)]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows if any(cell != "–" for cell in cells)]
    if "forced_share" in figures:
        lines += ["", f"Characters decided by the grammar alone: {figures['forced_share']:.0%}."]
    if "format_errors" in figures:
        lines += ["", "| constraint | outputs with a format error |", "|---|---:|"]
        lines += [f"| {name} | {rate:.1%} |" for name, rate in figures["format_errors"].items()]
    return "\n".join(lines) + "\n"


def _row(values: Mapping[str, Any], levels: Sequence[str], form: str) -> list[str]:
    return [form.format(values[level]) if level in values else "–" for level in levels]


def _ratios(found: Measurements, levels: Sequence[int], above: str, below: str) -> dict[str, float]:
    ratios = {}
    for level in levels:
        over, under = (found.total(name, level, "elapsed_s") for name in (above, below))
        if over and under:
            ratios[str(level)] = round(over / under, 4)
    return ratios


def _acceptance_length(found: Measurements, in_flight: int) -> float:
    steps = found.counter("num_decode_steps", in_flight)
    return round(found.counter("num_tokens", in_flight) / steps, 4) if steps else 1.0


def _acceptance_rate(found: Measurements, in_flight: int) -> float:
    drafted = found.counter("num_drafted", in_flight)
    return round(found.counter("num_accepted", in_flight) / drafted, 4) if drafted else 0.0


def _by_drafter(found: Measurements) -> dict[str, dict[str, float]]:
    names = sorted({key.split(".", 1)[1] for m in found.all for key in m.counters if key.startswith("drafted_by.")})
    table = {}
    for name in names:
        drafted, accepted = found.counter(f"drafted_by.{name}"), found.counter(f"accepted_by.{name}")
        table[name] = {"drafted": drafted, "accepted": accepted, "rate": round(accepted / drafted, 4) if drafted else 0}
    return table


def _num_identical(found: Measurements, in_flight: int, variant: str) -> int:
    pairs = zip(found.texts.get(("plain", in_flight), ()), found.texts.get((variant, in_flight), ()), strict=False)
    return sum(plain == other for plain, other in pairs)


def _num_identical_plain(found: Measurements, in_flight: int, lowest: int) -> int:
    """Plain decoding against itself at the lowest number in flight: what other batch shapes flip without DSpark."""
    pairs = zip(found.texts.get(("plain", lowest), ()), found.texts.get(("plain", in_flight), ()), strict=False)
    return sum(one == other for one, other in pairs)


def _per_second(
    found: Measurements, levels: Sequence[int], variants: Sequence[str], column: str, unit: float
) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for variant in variants:
        for level in levels:
            seconds = found.total(variant, level, "elapsed_s")
            if seconds and variant != "bound":
                rate = found.total(variant, level, column) / unit / seconds
                table.setdefault(variant, {})[str(level)] = round(rate, 3)
    return table


def _by_length(found: Measurements) -> dict[str, float]:
    """Plain time over DSpark's for documents alone in flight, in groups of equal number by their output tokens."""
    times: dict[str, list[tuple[int, float]]] = {"plain": [], "dspark": []}
    for m in found.all:
        if m.variant in times:
            times[m.variant] += zip(m.document_tokens, m.document_s, strict=True)
    pairs = sorted((tokens, plain, dspark) for (tokens, plain), (_, dspark) in zip(*times.values(), strict=False))
    number = min(_LENGTH_GROUPS, len(pairs))
    table = {}
    for index in range(number):
        group = pairs[len(pairs) * index // number : len(pairs) * (index + 1) // number]
        mean = round(sum(tokens for tokens, _, _ in group) / len(group))
        table[str(mean)] = round(sum(plain for _, plain, _ in group) / sum(dspark for _, _, dspark in group), 4)
    return table


def _share(found: Measurements, levels: Sequence[int], counter: str) -> dict[str, float]:
    shares = {}
    for level in levels:
        seconds = found.total("dspark", level, "elapsed_s")
        if seconds:
            shares[str(level)] = round(found.counter(counter, level) / 1000.0 / seconds, 5)
    return shares
