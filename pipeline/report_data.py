"""What a report shows of a run's documents: a sample of outcomes, latencies, progress over time.

Everything is read with a few passes that keep only the smallest hashes: nothing is shuffled as a whole, and what comes
to the driver is bounded. The sample depends on the documents' keys alone, so a resumed run shows the same ones.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, TypedDict

from pipeline.data import FieldError
from pipeline.grounding import Grounder
from pipeline.plan import best_outcomes
from pipeline.report import TimelinePoint
from pipeline.report_sample import SampleRecord, SampleReject
from pipeline.udf.ground import ground_record, spans_of, text_of
from pipeline.udf.merge import DocumentRecord, DocumentReject, merge_document
from pipeline.udf.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NUM_RECORDS, NUM_REJECTS, NUM_LATENCIES = 30, 30, 5000
_SPARE = 8
"""The journal may hold outcomes that are none of this run's: so many times more are drawn from it than shown."""
_FEW_FILES = 16
_MAX_CHUNKS = 40
_MAX_POINTS = 600


class ReportData(TypedDict):
    """The keyword arguments of :func:`pipeline.report.render_report` that come from documents."""

    records: list[SampleRecord]
    rejects: list[SampleReject]
    timeline: list[TimelinePoint]
    latencies_ms: list[float]


def collect_report_data(plan: DataFrame, outcomes: DataFrame, stage: Stage, *, since_s: float) -> ReportData:
    """Sample a run whose outcomes are all in the journal; ``plan`` and ``outcomes`` as in :mod:`pipeline.plan`.

    ``since_s`` (seconds since the epoch) is when the run began: outcomes before it are not on its timeline.
    """
    records, rejects = _sample(plan, outcomes, stage)
    return ReportData(
        records=records, rejects=rejects, timeline=_timeline(outcomes, since_s), latencies_ms=_latencies(outcomes)
    )


def _sample(plan: DataFrame, outcomes: DataFrame, stage: Stage) -> tuple[list[SampleRecord], list[SampleReject]]:
    from pyspark.sql import functions as F

    by_hash = F.xxhash64("key")
    good = outcomes.where(F.col("reason").isNull()).select("key", F.lit(True).alias("is_good"))
    bad = outcomes.where(F.col("reason").isNotNull()).select("key", F.lit(False).alias("is_good"))
    few = good.orderBy(by_hash).limit(NUM_RECORDS * _SPARE).union(bad.orderBy(by_hash).limit(NUM_REJECTS * _SPARE))
    is_good = {row["key"]: row["is_good"] for row in few.collect()}
    small = (F.col("num_chunks") <= _MAX_CHUNKS) & F.col("key").isin(sorted(is_good))
    by_key = plan.where(small).groupBy("key").agg(F.min("doc_id").alias("doc_id"))
    by_id = plan.where(F.col("key").isNull()).select("key", "doc_id").orderBy(F.xxhash64("doc_id")).limit(NUM_REJECTS)
    found_keys = by_key.unionByName(by_id).select("*", by_hash.alias("hash")).orderBy("hash").collect()
    ids = {row["doc_id"] for row in found_keys if row["key"] is None}
    for kind, number in ((True, NUM_RECORDS), (False, NUM_REJECTS)):
        of_kind = [row["doc_id"] for row in found_keys if is_good.get(row["key"]) is kind]
        ids.update(of_kind[:number])
    chunks = [row.asDict() for row in _rows_with(plan, "doc_id", ids).collect()]
    found = _outcomes_of({chunk["key"] for chunk in chunks if chunk["key"]}, outcomes)
    documents: dict[str, list[dict[str, Any]]] = {}
    for chunk in chunks:
        documents.setdefault(chunk["doc_id"], []).append(chunk | {"outcome": found.get(chunk["key"])})
    records: list[SampleRecord] = []
    rejects: list[SampleReject] = []
    for doc_id in sorted(documents):
        parts = documents[doc_id]
        outcome = merge_document({"doc_id": doc_id, "chunks": parts}, stage)
        text = text_of(parts)
        if isinstance(outcome, DocumentRecord) and stage.config.output.reads_text:
            outcome = ground_record(outcome, parts, stage)
        if isinstance(outcome, DocumentRecord) and len(records) < NUM_RECORDS:
            records.append(_record(outcome, text))
        elif isinstance(outcome, DocumentReject) and len(rejects) < NUM_REJECTS:
            rejects.append(_reject(outcome, text))
    return records, rejects


def _outcomes_of(keys: set[str], outcomes: DataFrame) -> dict[str, dict[str, Any]]:
    rows = best_outcomes(_rows_with(outcomes, "key", keys)).collect() if keys else []
    return {row["key"]: row["outcome"].asDict(recursive=True) for row in rows}


def _rows_with(frame: DataFrame, column: str, values: set[str]) -> DataFrame:
    """The rows with one of a few values; only the files that hold them are read in full."""
    from pyspark.sql import functions as F

    wanted = F.col(column).isin(sorted(values))
    if len(frame.inputFiles()) <= _FEW_FILES:
        return frame.where(wanted)
    files = [row["file_path"] for row in frame.where(wanted).select("_metadata.file_path").distinct().collect()]
    return frame.sparkSession.read.schema(frame.schema).parquet(*files).where(wanted) if files else frame.limit(0)


def _record(record: DocumentRecord, text: str) -> SampleRecord:
    meta = record.meta
    spans = spans_of(meta) or Grounder(text).ground(record.value)
    confidence = {entry["path"]: entry["confidence"] for entry in meta["confidence"] or ()}
    return SampleRecord(record.doc_id, text, record.value, spans, confidence, attempts=meta["attempts"])


def _reject(reject: DocumentReject, text: str) -> SampleReject:
    row = reject.row
    errors = [FieldError(**error) for error in json.loads(row["errors"] or "[]")]
    return SampleReject(reject.doc_id, row["reason"], row["detail"], row["raw_output"], errors, text or None)


def _timeline(outcomes: DataFrame, since_s: float) -> list[TimelinePoint]:
    """Sums up to each of at most 600 moments."""
    from pyspark.sql import functions as F

    width_s = max(1, round((time.time() - since_s) / _MAX_POINTS))
    tokens = _sum_of_attempts("prompt_tokens") + _sum_of_attempts("output_tokens")
    at_s = F.col("finished_at").cast("double") - since_s
    rows = (
        outcomes.where(at_s >= 0)
        .groupBy(F.floor(at_s / width_s).alias("bin"))
        .agg(F.count("*").alias("documents"), F.sum(tokens).alias("tokens"))
        .orderBy("bin")
        .collect()
    )
    points, documents, total = [], 0, 0
    for row in rows:
        documents, total = documents + row["documents"], total + int(row["tokens"] or 0)
        points.append(TimelinePoint((row["bin"] + 1.0) * width_s, documents, total))
    return [TimelinePoint(rows[0]["bin"] * float(width_s), 0, 0), *points] if rows else []


def _latencies(outcomes: DataFrame) -> list[float]:
    from pyspark.sql import functions as F

    spent = outcomes.select("key", _sum_of_attempts("latency_ms").alias("ms")).where("ms > 0")
    return [float(row["ms"]) for row in spent.orderBy(F.xxhash64("key")).limit(NUM_LATENCIES).collect()]


def _sum_of_attempts(name: str) -> Column:
    """Over the attempts of an outcome; of the attempts only this field is read."""
    from pyspark.sql import functions as F

    values = F.col(f"attempts.{name}")
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + F.coalesce(value, F.lit(0)))
