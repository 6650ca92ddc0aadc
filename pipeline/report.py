"""The report of a run: one self-contained HTML page from its manifest and a sample of its outcomes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pipeline.evaluation import Comparison, Evaluation
from pipeline.html_page import page, panel, table
from pipeline.report_evaluation import evaluation_html
from pipeline.report_sample import SampleRecord, SampleReject, record_html, reject_html
from pipeline.svg_charts import bars, histogram, line, short_number


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """What was done ``at_s`` seconds after the extraction began, over all workers."""

    at_s: float
    num_documents: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class _Facts:
    """Figures derived from a manifest (see :mod:`pipeline.manifest`); what an older one lacks counts as 0."""

    manifest: Mapping[str, Any]

    @property
    def extract_s(self) -> float:
        return float(self.manifest.get("timings_s", {}).get("extract") or 0.0)

    @property
    def counters(self) -> Mapping[str, float]:
        return self.manifest.get("engine", {}).get("counters") or {}

    @property
    def new_documents(self) -> int:
        return int(self.manifest.get("documents", 0)) - int(self.manifest.get("resumed_documents", 0))

    @property
    def engine_output_tokens(self) -> int:
        return int(self.manifest.get("engine", {}).get("output_tokens", 0))

    @property
    def acceptance_length(self) -> float | None:
        steps = self.counters.get("num_decode_steps")
        return self.counters.get("num_tokens", 0.0) / steps if steps else None


def render_report(
    manifest: Mapping[str, Any],
    *,
    records: Sequence[SampleRecord] = (),
    rejects: Sequence[SampleReject] = (),
    timeline: Sequence[TimelinePoint] = (),
    latencies_ms: Sequence[float] = (),
    evaluation: Evaluation | None = None,
    comparison: Comparison | None = None,
) -> str:
    """The page as HTML text. ``records`` and ``rejects`` are shown as given: sample before calling.

    Document text and model output are escaped; the page loads nothing and runs only its own script.
    """
    facts = _Facts(manifest)
    parts = [_head(facts), _tiles(facts), '<div class="grid">', *_charts(facts, timeline, latencies_ms), "</div>"]
    if evaluation is not None:
        parts += ["<h2>Evaluation</h2>", evaluation_html(evaluation, comparison=comparison)]
    if records:
        parts += [f"<h2>Records: a sample of {len(records)}</h2>", _LEGEND]
        parts += [record_html(record, is_open=index == 0) for index, record in enumerate(records)]
    if rejects:
        parts += [f"<h2>Rejects: a sample of {len(rejects)}</h2>", *(reject_html(reject) for reject in rejects)]
    parts += ["<h2>Settings</h2>", _settings(manifest)]
    return page(f"Run {manifest.get('run_id', '')}", "\n".join(parts))


_LEGEND = (
    '<p><span class="key exact">as written</span><span class="key normalised">same value, other spelling</span>'
    '<span class="key fuzzy">alike</span><span class="key none">not in the document</span>'
    '<span class="soft">Click a value or a highlight.</span></p>'
)


def _head(facts: _Facts) -> str:
    manifest = facts.manifest
    rejects = int(manifest.get("rejects", 0))
    verdict = (
        f'<span class="bad">{rejects:,} rejected ({manifest.get("reject_rate", 0.0):.1%})</span>'
        if rejects
        else '<span class="good">none rejected</span>'
    )
    schema = (manifest.get("settings") or {}).get("schema_spec") or "the given schema"
    model, run_id = escape(str(manifest.get("model", ""))), escape(str(manifest.get("run_id", "")))
    started, finished = (escape(_time(str(manifest.get(name, "")))) for name in ("started_at", "finished_at"))
    return (
        f"<h1>{manifest.get('records', 0):,} records from {manifest.get('documents', 0):,} documents</h1>"
        f"<p>{verdict}; schema <code>{escape(str(schema))}</code>, model <code>{model}</code></p>"
        f'<p class="soft">run {run_id}, {started} to {finished}</p>'
    )


def _time(iso: str) -> str:
    return iso.replace("T", " ").removesuffix("+00:00") + " UTC" if iso.endswith("+00:00") else iso


def _tiles(facts: _Facts) -> str:
    manifest, seconds = facts.manifest, facts.extract_s
    tokens = manifest.get("tokens", {})
    tiles = [
        (f"{manifest.get('documents', 0):,}", _resumed(manifest)),
        (f"{manifest.get('retried_documents', 0):,}", "documents tried again"),
        (short_number(tokens.get("prompt", 0)), "prompt tokens"),
        (short_number(tokens.get("output", 0)), "output tokens"),
    ]
    if seconds and facts.new_documents:
        tiles.append((short_number(facts.new_documents / seconds), "documents per second"))
        tiles.append((short_number(facts.engine_output_tokens / seconds), "output tokens per second"))
    if facts.acceptance_length is not None:
        tiles.append((f"{facts.acceptance_length:.2f}", "tokens per decode step"))
    if manifest.get("merge_conflicts"):
        tiles.append((f"{manifest['merge_conflicts']:,}", "documents whose parts disagree"))
    inside = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span class="soft">{escape(name)}</span></div>'
        for value, name in tiles
    )
    return f'<div class="tiles">{inside}</div>'


def _resumed(manifest: Mapping[str, Any]) -> str:
    resumed = manifest.get("resumed_documents", 0)
    return f"documents, {resumed:,} done before" if resumed else "documents"


def _charts(facts: _Facts, timeline: Sequence[TimelinePoint], latencies_ms: Sequence[float]) -> Iterator[str]:
    manifest = facts.manifest
    if len(timeline) > 2:
        rates = _rates(timeline)
        yield panel("Documents per second", line([(x, y) for x, y, _ in rates], unit="s"))
        yield panel("Tokens per second, prompt and output", line([(x, y) for x, _, y in rates], unit="s"))
    if latencies_ms:
        ordered = sorted(latencies_ms)
        middle, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        note = f"half of the documents took less than {middle / 1000:.2f} s, 95 % less than {late / 1000:.2f} s"
        yield panel("Latency of a document", histogram([ms / 1000 for ms in ordered], unit="s"), note)
    stages = [(name, s, f"{s:.1f} s") for name, s in (manifest.get("timings_s") or {}).items() if name != "total"]
    engine = manifest.get("engine", {})
    loading = f"model loads {engine.get('loads', 0)}, {engine.get('load_s', 0.0):.1f} s"
    note = f"{loading}; engine busy {engine.get('busy_s', 0.0):.1f} s"
    yield panel("Time by stage", bars(stages), note)
    yield panel("Tokens by kind", bars(_token_rows(manifest)), "failed attempts included")
    reasons = sorted((manifest.get("rejects_by_reason") or {}).items(), key=lambda item: -item[1])
    yield panel("Rejects by reason", bars([(name, n, f"{n:,}") for name, n in reasons]))
    drafters = sorted(name.partition(".")[2] for name in facts.counters if name.startswith("drafted_by."))
    if drafters:
        drafted = [facts.counters[f"drafted_by.{name}"] for name in drafters]
        accepted = [facts.counters.get(f"accepted_by.{name}", 0.0) for name in drafters]
        rows = [
            (name, yes, f"{yes / total:.0%} of {short_number(total)}" if total else "0")
            for name, yes, total in zip(drafters, accepted, drafted, strict=True)
        ]
        steps = facts.counters.get("num_decode_steps") or 1.0
        parts = ", ".join(f"{name} {yes / steps:.2f}" for name, yes in zip(drafters, accepted, strict=True))
        yield panel(
            "Draft tokens accepted, by drafter", bars(rows, total=drafted), f"accepted per decode step: {parts}"
        )


def _rates(timeline: Sequence[TimelinePoint]) -> list[tuple[float, float, float]]:
    """(second, documents/s, tokens/s) over at most 60 equal stretches."""
    stride = max(1, len(timeline) // 60)
    picked = list(timeline[::stride])
    rates = []
    for before, after in itertools.pairwise(picked):
        seconds = after.at_s - before.at_s
        if seconds > 0:
            documents = (after.num_documents - before.num_documents) / seconds
            rates.append((after.at_s, documents, (after.num_tokens - before.num_tokens) / seconds))
    return rates


def _token_rows(manifest: Mapping[str, Any]) -> list[tuple[str, float, str]]:
    tokens = manifest.get("tokens") or {}
    documents = max(1, int(manifest.get("documents", 0)))
    return [
        (name, float(number), f"{short_number(number)}, {number / documents:,.0f} per document")
        for name, number in tokens.items()
    ]


def _settings(manifest: Mapping[str, Any]) -> str:
    rows = [[name, value] for name, value in _flat(manifest.get("settings") or {}, "")]
    versions = [[name, str(value)] for name, value in (manifest.get("versions") or {}).items()]
    hashes = [[name, str(value)] for name, value in (manifest.get("hashes") or {}).items()]
    return "".join(
        f'<details class="doc"><summary>{title}</summary>{table(["name", "value"], lines, numeric_from=9)}</details>'
        for title, lines in (("Settings", rows), ("Versions", versions), ("Hashes", hashes))
    )


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    else:
        text = str(value)
        yield name, text if len(text) <= 400 else text[:399] + "…"
