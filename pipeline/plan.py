"""The plan of a run: its documents as chunks with keys, and which of them the journal does not know yet.

Chunks are written once to the run's ``plan`` folder, so that counting, extraction and output all see the same ones
however often Spark evaluates something, and the source is read once. The folder goes when the run is finished.

On paper, one billion documents of 1 KB are 1 TB of plan, written once, read a few times (most passes read two columns)
and shuffled twice: to the engines and to the output files. Counting shuffles 8 bytes a document, the anti-join with the
journal keys of 64 bytes and the chunks that are left, the output the outcomes besides the texts, 300 GB; on 200 cores
each takes minutes. Partitions get equal numbers of estimated tokens: exactly where they are few (:data:`EXACT_LIMIT`,
:data:`MANY_PER_PARTITION`), by hash of the key beyond, where the law of large numbers does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import InputError
from pipeline.journal import OUTCOMES
from pipeline.readers import Step
from pipeline.udf.arrow import CHUNK_COLUMNS, OUTPUT_COLUMNS, PLAN_COLUMNS
from pipeline.udf.chunk import chunk_function
from pipeline.udf.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.storage import Storage

EXACT_LIMIT = 200_000
MANY_PER_PARTITION = 500
"""Placing chunks one by one sorts them in a single task, texts and all: done where it is cheap and where it matters."""
_OUTCOME_COLUMNS = (
    "key string, json string, reason string, detail string, errors string, attempts array<struct<number int, "
    "finish_reason string, prompt_tokens int, output_tokens int, num_cached_tokens int, latency_ms double, "
    "raw_output string, errors string>>, finished_at timestamp, "
    "confidence array<struct<path string, confidence double>>"
)


_OUTCOME_FIELDS = ("json", "reason", "detail", "errors", "attempts", "confidence")


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """Numbers of a plan. ``num_rejected`` documents have no text to work on."""

    num_documents: int
    num_rejected: int
    num_chunks: int


@dataclass(frozen=True, slots=True)
class Pending:
    """What is left to do: distinct texts (``num_keys``), the documents they belong to, their estimated tokens."""

    num_keys: int
    num_documents: int
    num_tokens: int
    has_duplicates: bool


def plan_step(stage: Stage) -> Step:
    """Documents to chunks."""
    return Step(chunk_function(stage), PLAN_COLUMNS)


@dataclass(frozen=True, slots=True)
class Again:
    """Which rejects are to be done again: with one of ``reasons`` (empty: any), from before ``before_s`` (epoch)."""

    reasons: frozenset[str]
    before_s: float


def write_plan(planned: DataFrame, storage: Storage, *, folder: str) -> DataFrame:
    """Write chunks (what :func:`plan_step` gives) once and give them back as a DataFrame of :data:`PLAN_COLUMNS`."""
    planned.write.mode("overwrite").parquet(storage.uri(folder))
    return planned.sparkSession.read.schema(PLAN_COLUMNS).parquet(storage.uri(folder))


def count_plan(plan: DataFrame) -> PlanCounts:
    """Count documents and chunks.

    Raises:
        InputError: two documents have the same id; names some of them.
    """
    from pyspark.sql import functions as F

    heads = F.count_if(F.col("chunk_index") == 0)
    by_document = plan.groupBy(F.xxhash64("doc_id")).agg(  # eight bytes each instead of the ids
        heads.alias("heads"),
        F.count_if(F.col("key").isNull()).alias("rejected"),
        F.count_if(F.col("key").isNotNull()).alias("chunks"),
    )
    row = by_document.agg(F.sum("heads"), F.sum("rejected"), F.sum("chunks"), F.max("heads")).first()
    assert row is not None
    num_documents, num_rejected, num_chunks, most = (int(value or 0) for value in row)
    by_id = plan.groupBy("doc_id").agg(heads.alias("heads")).where("heads > 1")
    twice = by_id.orderBy("doc_id").limit(5).collect() if most > 1 else []
    if twice:
        names = ", ".join(f"{found['doc_id']!r} ({found['heads']} times)" for found in twice)
        raise InputError(
            f"documents must have ids of their own, but the input repeats {names}",
            hint="remove the duplicates or pass another --id-column",
        )
    return PlanCounts(num_documents, num_rejected, num_chunks)


def read_outcomes(spark: SparkSession, journal: Storage) -> DataFrame:
    """All outcomes of the journal, several per key where work was done twice."""
    spark_schema = _OUTCOME_COLUMNS
    if not journal.files(OUTCOMES):
        return spark.createDataFrame([], spark_schema).where("false")  # so that Spark knows, and leaves joins out
    return spark.read.schema(spark_schema).parquet(journal.uri(OUTCOMES))


def best_outcomes(outcomes: DataFrame) -> DataFrame:
    """One outcome per key, as ``key, outcome``: a record before a reject, with confidence before without, then the
    earlier before the later.

    Earlier first keeps the output what it was when work is done again.
    """
    from pyspark.sql import functions as F

    order = F.struct(
        F.col("json").isNull(),
        F.col("confidence").isNull(),
        F.col("finished_at"),
        F.xxhash64("json", "reason", "detail"),
    )
    return outcomes.groupBy("key").agg(F.min_by(F.struct(*_OUTCOME_FIELDS), order).alias("outcome"))


def pending_chunks(
    plan: DataFrame,
    outcomes: DataFrame,
    *,
    again: Again | None = None,
    with_confidence: bool = False,
    num_partitions: int | None = None,
) -> DataFrame:
    """Chunks whose key has no outcome; with ``num_partitions`` in so many partitions by hash of the key.

    Rejects that ``again`` names count as not done, and so do records without confidence where it is wanted: it is no
    part of a key, as it changes no value.
    """
    from pyspark.sql import functions as F

    if with_confidence:
        outcomes = outcomes.where(F.col("json").isNull() | F.col("confidence").isNotNull())
    done = outcomes
    if again is not None:
        lost = F.col("reason").isin(sorted(again.reasons)) if again.reasons else F.lit(True)
        is_old = F.col("finished_at") < F.timestamp_micros(F.lit(int(again.before_s * 1e6)))
        done = outcomes.where(F.col("json").isNotNull() | ~(lost & is_old))
    work, keys = plan.where(F.col("key").isNotNull()).select(*CHUNK_COLUMNS), done.select("key")
    if num_partitions is None:
        return work.join(keys.distinct(), "key", "left_anti")
    # both sides in the partitions that the work is done in: the texts move once, and not for the join before that
    placed, known = (frame.repartition(num_partitions, "key") for frame in (work, keys))
    return placed.join(known, "key", "left_anti")


def count_pending(chunks: DataFrame) -> Pending:
    """Count what :func:`pending_chunks` gives.

    Keys are told apart by a hash of eight bytes: two that share one by chance count as one text, and are done as two.
    """
    from pyspark.sql import functions as F

    is_single = F.col("num_chunks") == 1
    by_key = chunks.groupBy(F.xxhash64("key")).agg(
        F.count("*").alias("chunks"), F.count_if(is_single).alias("single"), F.max("num_tokens").alias("tokens")
    )
    row = by_key.agg(F.count("*"), F.sum("chunks"), F.sum("single"), F.sum("tokens")).first()
    assert row is not None
    num_keys, num_chunks, num_single, num_tokens = (int(value or 0) for value in row)
    num_documents = num_single
    if num_chunks > num_single:
        num_documents += chunks.where(~is_single).select("doc_id").distinct().count()
    return Pending(num_keys, num_documents, num_tokens, num_chunks > num_keys)


def partitioned(
    plan: DataFrame,
    outcomes: DataFrame,
    pending: Pending,
    *,
    num_partitions: int,
    again: Again | None = None,
    with_confidence: bool = False,
) -> DataFrame:
    """One of the :func:`pending_chunks` per key, in partitions of equal estimated tokens, longest first in each."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    is_exact = num_partitions > 1 and pending.num_keys <= min(EXACT_LIMIT, MANY_PER_PARTITION * num_partitions)
    by_hash = None if is_exact else num_partitions
    frame = pending_chunks(plan, outcomes, again=again, with_confidence=with_confidence, num_partitions=by_hash)
    frame = frame.dropDuplicates(["key"]) if pending.has_duplicates else frame
    frame = frame.select(*CHUNK_COLUMNS)
    if is_exact:
        place = F.row_number().over(Window.orderBy(F.desc("num_tokens"), "key")) - 1
        lap, index = F.floor(place / num_partitions), place % num_partitions
        there_and_back = F.when(lap % 2 == 0, index).otherwise(num_partitions - 1 - index).cast("int")
        frame = frame.withColumn("_partition", there_and_back).repartitionById(num_partitions, "_partition")
    return frame.sortWithinPartitions(F.desc("num_tokens"), "key").select(*CHUNK_COLUMNS)


def documents_with_outcomes(
    plan: DataFrame, outcomes: DataFrame, *, num_partitions: int, with_text: bool = False
) -> DataFrame:
    """Rows of :data:`pipeline.udf.arrow.OUTPUT_COLUMNS`: the chunks of a document one after the other, documents by
    position within partitions.

    A chunk is one row with its outcome and, ``with_text``, another one behind it with its text: so texts are moved
    between machines once, and never joined.
    """
    from pyspark.sql import functions as F

    place = ("position", "doc_id", "chunk_index")
    facts = ("char_start", "char_end", "key", "reason", "detail")
    joined = plan.select(*place, *facts).join(_one_outcome_each(outcomes), "key", "left")
    rows = joined.select(*place, *facts, "outcome")
    if with_text:
        texts = plan.where(F.col("text").isNotNull()).select(*place, "text", "metadata")
        rows = rows.unionByName(texts, allowMissingColumns=True)
    else:
        rows = rows.selectExpr("*", "string(null) as text", "cast(null as map<string,string>) as metadata")
    spread = rows.repartition(1) if num_partitions == 1 else rows.repartition(num_partitions, "doc_id")
    names = OUTPUT_COLUMNS.split(", ")
    return spread.sortWithinPartitions("position", "doc_id", "chunk_index", F.col("text").isNotNull()).select(*names)


def _one_outcome_each(outcomes: DataFrame) -> DataFrame:
    """As :func:`best_outcomes`, which is dear; a look at the keys tells whether it is needed."""
    from pyspark.sql import functions as F

    most = outcomes.groupBy(F.xxhash64("key")).count().agg(F.max("count")).first()
    if most is not None and (most[0] or 0) > 1:
        return best_outcomes(outcomes)
    return outcomes.select("key", F.struct(*_OUTCOME_FIELDS).alias("outcome"))
