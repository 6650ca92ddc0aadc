"""A run in small: everything is checked, the work is counted, and a sample of the documents goes through the engine."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import RunConfig
from pipeline.data import Chunk
from pipeline.errors import OutputError
from pipeline.estimate import Estimate, Sample
from pipeline.faults import spark_faults
from pipeline.input_source import find_source
from pipeline.journal import FOLDER as JOURNAL
from pipeline.plan import (
    Pending,
    count_pending,
    count_plan,
    pending_chunks,
    plan_step,
    read_outcomes,
    write_plan,
)
from pipeline.readers import read_through
from pipeline.rounds import extract_pending
from pipeline.run_folder import check_folder
from pipeline.scheduling import num_slots
from pipeline.session import is_local, make_session, with_package
from pipeline.storage import Storage
from pipeline.udf.lines import check_writable
from pipeline.udf.stage import Stage, build_stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_DOCUMENTS = 8
_MAX_PROMPT_CHARS = 4000


def dry_run(
    config: RunConfig, *, num_documents: int = DEFAULT_DOCUMENTS, spark: SparkSession | None = None
) -> Iterator[str]:
    """Lines that say how much work there is, how ``num_documents`` of it went, and what all of it would take.

    The sample is the same each time (by hash of the ids) and goes through the run's own stage: prompts, engine,
    validation, retries. With 0 no engine is loaded. The output folder gets nothing.

    Raises what :func:`pipeline.run.run` raises, and OutputError where executors write elsewhere than the driver reads.
    """
    stage = build_stage(config)
    check_writable(stage)
    output = Storage(config.output.path or ".")
    check_folder(output, stage)
    source = find_source(config.input)
    with spark_faults():
        spark = with_package(spark) if spark is not None else make_session()
        with _scratch(spark, output) as scratch:
            documents = read_through(spark, config.input, plan_step(stage), source=source)
            plan = write_plan(documents, scratch, folder="plan")
            counts = count_plan(plan)
            outcomes = read_outcomes(spark, output.child(JOURNAL))
            left = pending_chunks(plan, outcomes, with_confidence=config.output.confidence)
            pending = count_pending(left)
            yield f"documents          {counts.num_documents}"
            yield f"without text       {counts.num_rejected}"
            yield f"chunks             {counts.num_chunks} of at most {stage.chunk_tokens} tokens"
            yield f"left to do         {pending.num_keys} texts, about {pending.num_tokens} tokens"
            yield f"prompt             {stage.prompting.num_fixed_tokens} tokens besides the document"
            yield f"model              {Path(stage.model).name}, context {stage.max_model_len} tokens"
            yield f"grammar            {len(stage.grammar)} characters"
            if num_documents and pending.num_keys:
                yield from _sample(plan, left, stage, scratch, num_documents=num_documents, pending=pending)
            yield from _first_prompt(plan, stage)


def _sample(
    plan: DataFrame, left: DataFrame, stage: Stage, scratch: Storage, *, num_documents: int, pending: Pending
) -> Iterator[str]:
    from pyspark.sql import functions as F

    spark = plan.sparkSession
    ids = left.select("doc_id").distinct().orderBy(F.xxhash64("doc_id"), "doc_id").limit(num_documents).collect()
    chosen = plan.where(F.col("doc_id").isin([row["doc_id"] for row in ids]))
    nothing = read_outcomes(spark, scratch.child(JOURNAL))
    some = count_pending(pending_chunks(chosen, nothing))
    result = extract_pending(chosen, stage, scratch.child(JOURNAL), pending=some)
    rows = read_outcomes(spark, scratch.child(JOURNAL)).select("json", "reason", "detail", "attempts").collect()
    if len(rows) < some.num_keys:
        raise OutputError(
            f"of {some.num_keys} sampled texts the executors' outcomes for {len(rows)} are in {scratch.root}",
            hint="--output must be a place that driver and executors share",
        )
    sample = Sample.of(
        rows, num_documents=some.num_documents, num_tokens=some.num_tokens,
        busy_s=result.counts.busy_s, load_s=result.counts.load_s,
    )  # fmt: skip
    yield from sample.lines()
    estimate = Estimate.of(
        sample, num_texts=pending.num_keys, num_tokens=pending.num_tokens,
        num_fixed_tokens=stage.prompting.num_fixed_tokens, num_engines=num_slots(spark, stage.config),
    )  # fmt: skip
    yield from estimate.lines()


def _first_prompt(plan: DataFrame, stage: Stage) -> Iterator[str]:
    first = plan.where("key is not null").orderBy("position", "chunk_index").first()
    if first is None:
        return
    chunk = Chunk(first["doc_id"], 0, 1, first["text"], 0, len(first["text"]), first["key"])
    text = stage.tokenizer.decode(stage.prompting.first(chunk).token_ids)
    yield f"first prompt ({first['doc_id']}):"
    yield text if len(text) <= _MAX_PROMPT_CHARS else text[:_MAX_PROMPT_CHARS] + " ..."


@contextmanager
def _scratch(spark: SparkSession, output: Storage) -> Iterator[Storage]:
    """A folder that all workers see, gone afterwards: on a cluster one inside the output's, which they all reach."""
    if is_local(spark):
        with tempfile.TemporaryDirectory(prefix="extract-dry-run-") as folder:
            yield Storage(folder)
        return
    name = f"_dry_run-{uuid.uuid4().hex[:8]}"
    existed = output.exists()
    try:
        yield output.child(name)
    finally:
        output.delete(name)
        if not existed and output.is_empty():
            output.delete("")
