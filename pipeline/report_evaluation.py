"""An evaluation as a part of a page, and as a page of its own."""

from __future__ import annotations

from html import escape

from pipeline.bootstrap import Interval
from pipeline.evaluation import HEADLINES, Comparison, DocumentResult, Evaluation
from pipeline.field_scores import Difference
from pipeline.html_page import page, panel, table
from pipeline.messages import got
from pipeline.svg_charts import bars, reliability

_MAX_FIELDS = 40
_MAX_DIFFERENCES = 30


def evaluation_html(result: Evaluation, *, comparison: Comparison | None = None) -> str:
    """Scores, fields, calibration and the worst documents side by side."""
    tiles = "".join(_tile(HEADLINES[name], interval) for name, interval in result.intervals.items())
    rates = [
        f"{result.num_documents:,} documents with gold",
        f"{result.reject_rate:.1%} rejected",
        f"{result.invalid_rate:.1%} not valid",
        f"{result.num_missing:,} not in the run",
        f"{result.num_schema_errors:,} records against the schema",
    ]
    parts = [f'<div class="tiles">{tiles}</div>', f"<p>{', '.join(rates)}</p>"]
    if comparison is not None:
        parts.append(_comparison(comparison))
    ordered = sorted(result.fields, key=lambda field: field.normalised.f1)
    rows = [(field.name, field.normalised.f1, f"{field.normalised.f1:.2f}") for field in ordered[:_MAX_FIELDS]]
    parts += [
        '<div class="grid" style="margin-top:14px">',
        panel("F1 by field, normalised, lowest first", bars(rows, largest=1.0)),
    ]
    if result.calibration is not None:
        note = f"expected calibration error {result.calibration.ece:.3f}, Brier score {result.calibration.brier:.3f}"
        parts.append(panel("Share of right values, by confidence", reliability(result.calibration), note))
    parts.append("</div>")
    parts.append(f'<details class="doc"><summary>All fields</summary>{_fields(result)}</details>')
    if result.worst:
        parts.append(f"<h2>Worst {len(result.worst)} documents</h2>")
        parts += [_document(document) for document in result.worst]
    return "\n".join(parts)


def render_evaluation(result: Evaluation, *, title: str, comparison: Comparison | None = None) -> str:
    """The evaluation as one self-contained page."""
    return page(title, f"<h1>{escape(title)}</h1>\n{evaluation_html(result, comparison=comparison)}")


def _tile(name: str, interval: Interval) -> str:
    return f'<div class="tile"><b>{interval.value:.3f}</b><span class="soft">{name}<br>{_range(interval)}</span></div>'


def _fields(result: Evaluation) -> str:
    rows = [
        [
            field.name,
            f"{field.normalised.tp + field.normalised.fn:,}",
            f"{field.normalised.precision:.3f}",
            f"{field.normalised.recall:.3f}",
            f"{field.normalised.f1:.3f}",
            f"{field.exact.f1:.3f}",
        ]
        for field in result.fields
    ]
    return table(["field", "values", "precision", "recall", "F1", "F1 exact"], rows)


def _comparison(comparison: Comparison) -> str:
    rows = [
        [
            HEADLINES[name],
            f"{change.value:+.3f}",
            _range(change, "+"),
            "clear" if change.excludes_zero else "may be chance",
        ]
        for name, change in comparison.differences.items()
    ]
    note = f"B is better on {comparison.num_better:,} documents and worse on {comparison.num_worse:,}"
    return panel("Run B against run A", table(["measure", "B minus A", "95 % interval", ""], rows), note)


def _document(document: DocumentResult) -> str:
    rows = [
        [difference.path or "/", _side(difference, "gold"), _side(difference, "predicted")]
        for difference in document.differences[:_MAX_DIFFERENCES]
    ]
    reason = f' <span class="bad">{escape(document.reason)}</span>' if document.reason else ""
    return (
        f'<details class="doc"><summary>{escape(document.doc_id)}{reason} <span class="soft">F1 '
        f"{document.normalised.f1:.2f}, {_plural(len(document.differences), 'difference')}</span></summary>"
        f"{table(['field', 'right', 'extracted'], rows, numeric_from=9)}</details>"
    )


def _side(difference: Difference, side: str) -> str:
    absent = {"gold": "extra", "predicted": "missing"}[side] == difference.kind
    return "" if absent else got(getattr(difference, side))


def _range(interval: Interval, sign: str = "") -> str:
    return f"{interval.low:{sign}.3f} to {interval.high:{sign}.3f}"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number != 1 else "")
