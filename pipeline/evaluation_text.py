"""An evaluation as JSON and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pipeline.bootstrap import Interval
from pipeline.evaluation import HEADLINES, Comparison, Evaluation
from pipeline.field_scores import Difference, Tally
from pipeline.messages import got


def evaluation_json(result: Evaluation, *, comparison: Comparison | None = None) -> dict[str, Any]:
    """All figures as JSON values; rates are between 0 and 1."""
    return {
        "documents": result.num_documents,
        "missing_documents": result.num_missing,
        "documents_without_gold": result.num_without_gold,
        "records_against_schema": result.num_schema_errors,
        "reject_rate": result.reject_rate,
        "invalid_rate": result.invalid_rate,
        "rejects_by_reason": result.rejects_by_reason,
        "headline": {name: asdict(interval) for name, interval in result.intervals.items()},
        "fields": {
            field.name: {"exact": _tally(field.exact), "normalised": _tally(field.normalised)}
            for field in result.fields
        },
        "calibration": asdict(result.calibration) if result.calibration else None,
        "worst": [
            {
                "doc_id": d.doc_id,
                "f1": d.normalised.f1,
                "reason": d.reason,
                "differences": [asdict(x) for x in d.differences],
            }
            for d in result.worst
        ],
        "comparison": asdict(comparison) if comparison else None,
    }


def evaluation_markdown(result: Evaluation, *, title: str, comparison: Comparison | None = None) -> str:
    """The same as a page to read."""
    return "\n".join(_lines(result, title, comparison)) + "\n"


def _lines(result: Evaluation, title: str, comparison: Comparison | None) -> Iterator[str]:
    yield from (f"# {title}", "")
    rates = f"{result.reject_rate:.1%} rejected, {result.invalid_rate:.1%} not valid"
    yield f"{result.num_documents} documents with gold; {rates}"
    if result.num_missing or result.num_without_gold:
        yield f"{result.num_missing} of them are not in the run; {result.num_without_gold} of the run have no gold"
    if result.num_schema_errors:
        yield f"{result.num_schema_errors} records do not satisfy the schema"
    yield from ("", "| measure | value | 95 % interval |", "|---|---|---|")
    for name, interval in result.intervals.items():
        yield f"| {HEADLINES[name]} | {interval.value:.3f} | {interval.low:.3f} to {interval.high:.3f} |"
    if comparison is not None:
        yield from _comparison(comparison)
    yield from (
        "",
        "## Fields",
        "",
        "| field | values | precision | recall | F1 | F1 exact |",
        "|---|---|---|---|---|---|",
    )
    for field in result.fields:
        t = field.normalised
        scores = " | ".join(f"{value:.3f}" for value in (t.precision, t.recall, t.f1, field.exact.f1))
        yield f"| `{field.name}` | {t.tp + t.fn} | {scores} |"
    if result.calibration is not None:
        yield from ("", "## Calibration", "")
        yield f"Expected calibration error {result.calibration.ece:.3f}, Brier score {result.calibration.brier:.3f}"
        yield from ("", "| confidence | values | mean confidence | right |", "|---|---|---|---|")
        for b in result.calibration.bins:
            yield f"| {b.low:.1f} to {b.high:.1f} | {b.count} | {b.mean_confidence:.3f} | {b.accuracy:.3f} |"
    if result.rejects_by_reason:
        yield from ("", "## Rejects", "", "| reason | documents |", "|---|---|")
        yield from (f"| {reason} | {number} |" for reason, number in result.rejects_by_reason.items())
    if result.worst:
        yield from ("", f"## Worst {len(result.worst)} documents", "")
    for document in result.worst:
        yield f"### {_cell(document.doc_id)}: F1 {document.normalised.f1:.2f}" + (
            f", {document.reason}" if document.reason else ""
        )
        yield from ("", "| field | right | extracted |", "|---|---|---|")
        for difference in document.differences[:20]:
            yield f"| `{_cell(difference.path)}` | {_side(difference, 'gold')} | {_side(difference, 'predicted')} |"
        if len(document.differences) > 20:
            yield f"| and {len(document.differences) - 20} more | | |"
        yield ""


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield from ("", f"## B against A, {comparison.num_documents} documents", "")
    yield f"B is better on {comparison.num_better} documents and worse on {comparison.num_worse}."
    yield from ("", "| measure | B minus A | 95 % interval | |", "|---|---|---|---|")
    for name, interval in comparison.differences.items():
        verdict = "clear" if interval.excludes_zero else "may be chance"
        yield f"| {HEADLINES[name]} | {interval.value:+.3f} | {_signed(interval)} | {verdict} |"


def _signed(interval: Interval) -> str:
    return f"{interval.low:+.3f} to {interval.high:+.3f}"


def _side(difference: Difference, side: str) -> str:
    absent = {"gold": "extra", "predicted": "missing"}[side] == difference.kind
    return "" if absent else _cell(got(getattr(difference, side)))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("`", "'")


def _tally(tally: Tally) -> Mapping[str, float]:
    return {**asdict(tally), "precision": tally.precision, "recall": tally.recall, "f1": tally.f1}
