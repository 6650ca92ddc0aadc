"""What a report shows of a run's documents: a sample of outcomes, latencies, progress over time.

Documents come from what the output tasks kept (:mod:`pipeline.udf.sample`); only the timeline reads the journal, three
columns of it, once. The sample depends on the documents' keys alone, so a resumed run shows the same ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from pipeline.data import FieldError
from pipeline.grounding import Grounder, Span
from pipeline.report import TimelinePoint
from pipeline.report_sample import SampleRecord, SampleReject
from pipeline.strict_json import loads
from pipeline.udf.ground import text_of
from pipeline.udf.sample import NUM_LATENCIES, NUM_RECORDS, NUM_REJECTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MAX_POINTS = 600


class ReportData(TypedDict):
    """The keyword arguments of :func:`pipeline.report.render_report` that come from documents."""

    records: list[SampleRecord]
    rejects: list[SampleReject]
    timeline: list[TimelinePoint]
    latencies_ms: list[float]


def collect_report_data(
    samples: Iterable[str], *, plan: DataFrame, timeline: list[TimelinePoint], with_text: bool
) -> ReportData:
    """Put together what the tasks of the output stage kept.

    ``plan`` is as in :mod:`pipeline.plan`; of documents whose task had no texts (``with_text`` false), these are read
    from it.
    """
    parts = [json.loads(sample) for sample in samples]
    records, rejects = _fewest(parts, "records", NUM_RECORDS), _fewest(parts, "rejects", NUM_REJECTS)
    if not with_text:
        texts = _texts(plan, [entry["doc_id"] for entry in (*records, *rejects)])
        for entry in (*records, *rejects):
            entry["text"] = texts.get(entry["doc_id"], "")
    latencies = [ms for part in parts for ms in part["latencies_ms"]]
    return ReportData(
        records=[_record(entry) for entry in records],
        rejects=[_reject(entry) for entry in rejects],
        timeline=timeline,
        latencies_ms=latencies[:: max(1, len(latencies) // NUM_LATENCIES)],
    )


def _fewest(parts: Sequence[Mapping[str, Any]], name: str, number: int) -> list[dict[str, Any]]:
    entries = sorted((entry for part in parts for entry in part[name]), key=lambda e: (e["key"], e["doc_id"]))
    return sorted(entries[:number], key=lambda entry: entry["doc_id"])


def _texts(plan: DataFrame, ids: Sequence[str]) -> dict[str, str]:
    from pyspark.sql import functions as F

    columns = ("doc_id", "text", "char_start", "char_end")
    documents: dict[str, list[dict[str, Any]]] = {}
    for row in plan.where(F.col("doc_id").isin(list(ids))).select(*columns).collect() if ids else ():
        documents.setdefault(row["doc_id"], []).append(row.asDict())
    return {doc_id: text_of(chunks) for doc_id, chunks in documents.items()}


def _record(entry: Mapping[str, Any]) -> SampleRecord:
    value, text = loads(entry["json"]), entry["text"]
    found = entry["spans"]
    spans = Grounder(text).ground(value) if found is None else tuple(Span(**span) for span in found)
    confidence = {item["path"]: item["confidence"] for item in entry["confidence"] or ()}
    return SampleRecord(
        entry["doc_id"], text, value, spans, confidence, attempts=entry["attempts"], num_chars=entry["num_chars"]
    )


def _reject(entry: Mapping[str, Any]) -> SampleReject:
    errors = [FieldError(**error) for error in json.loads(entry["errors"] or "[]")]
    return SampleReject(
        entry["doc_id"], entry["reason"], entry["detail"], entry["raw_output"], errors, entry["text"] or None
    )


def read_timeline(outcomes: DataFrame, *, since_s: float) -> list[TimelinePoint]:
    """Sums up to each of at most 600 moments, from outcomes as in :mod:`pipeline.plan`.

    ``since_s`` (seconds since the epoch) is when the run began: outcomes before it are not on its timeline.
    """
    from pyspark.sql import functions as F

    width_s = max(1, round((time.time() - since_s) / _MAX_POINTS))
    tokens = _sum_of_attempts("prompt_tokens") + _sum_of_attempts("output_tokens")
    at_s = F.col("finished_at").cast("double") - since_s
    bins = outcomes.where(at_s >= 0).groupBy(F.floor(at_s / width_s).alias("bin"))
    rows = sorted(bins.agg(F.count("*").alias("documents"), F.sum(tokens).alias("tokens")).collect())
    points, documents, total = [], 0, 0
    for row in rows:
        documents, total = documents + row["documents"], total + int(row["tokens"] or 0)
        points.append(TimelinePoint((row["bin"] + 1.0) * width_s, documents, total))
    return [TimelinePoint(rows[0]["bin"] * float(width_s), 0, 0), *points] if rows else []


def _sum_of_attempts(name: str) -> Column:
    """Over the attempts of an outcome; of the attempts only this field is read."""
    from pyspark.sql import functions as F

    values = F.col(f"attempts.{name}")
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + F.coalesce(value, F.lit(0)))
