"""A run without its expensive part: everything is checked and the work is counted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import RunConfig
from pipeline.data import Chunk
from pipeline.faults import spark_faults
from pipeline.journal import FOLDER as JOURNAL
from pipeline.plan import count_pending, count_plan, pending_chunks, plan_step, read_outcomes, write_plan
from pipeline.readers import read_through
from pipeline.run_folder import check_folder
from pipeline.session import make_session, with_package
from pipeline.storage import Storage
from pipeline.udf.lines import check_lines
from pipeline.udf.stage import build_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_PROMPT_CHARS = 4000


def dry_run(config: RunConfig, *, spark: SparkSession | None = None) -> Iterator[str]:
    """Lines that say how much work there is, and the first prompt. Reads the input; writes no results.

    Raises what :func:`pipeline.run.run` raises before it loads a model.
    """
    stage = build_stage(config)
    check_lines(stage)
    output = Storage(config.output.path or ".")
    check_folder(output, stage)
    with tempfile.TemporaryDirectory(prefix="extract-dry-run-") as folder, spark_faults():
        spark = with_package(spark) if spark is not None else make_session()
        plan = write_plan(read_through(spark, config.input, plan_step(stage)), Storage(folder), folder="plan")
        counts = count_plan(plan)
        outcomes = read_outcomes(spark, output.child(JOURNAL))
        pending = count_pending(pending_chunks(plan, outcomes, with_confidence=config.output.confidence))
        first = plan.where("key is not null").orderBy("position", "chunk_index").first()
    yield f"documents          {counts.num_documents}"
    yield f"without text       {counts.num_rejected}"
    yield f"chunks             {counts.num_chunks} of at most {stage.chunk_tokens} tokens"
    yield f"left to do         {pending.num_keys} texts, about {pending.num_tokens} tokens"
    yield f"prompt             {stage.prompting.num_fixed_tokens} tokens besides the document"
    yield f"model              {Path(stage.model).name}, context {stage.max_model_len} tokens"
    yield f"grammar            {len(stage.grammar)} characters"
    if first is not None:
        chunk = Chunk(first["doc_id"], 0, 1, first["text"], 0, len(first["text"]), first["key"])
        text = stage.tokenizer.decode(stage.prompting.first(chunk).token_ids)
        yield f"first prompt ({first['doc_id']}):"
        yield text if len(text) <= _MAX_PROMPT_CHARS else text[:_MAX_PROMPT_CHARS] + " ..."
