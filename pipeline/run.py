"""One run on the driver: read, chunk, extract, merge, write; the manifest last."""

from __future__ import annotations

import json
import logging
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.compaction import compact
from pipeline.config import RunConfig
from pipeline.errors import ConfigError
from pipeline.faults import spark_faults
from pipeline.input_source import find_source
from pipeline.journal import FOLDER as JOURNAL
from pipeline.manifest import build_manifest
from pipeline.metrics import Counts
from pipeline.output_counts import grounding_facts, sum_counts
from pipeline.plan import (
    Again,
    PlanCounts,
    count_pending,
    count_plan,
    documents_with_outcomes,
    pending_chunks,
    plan_step,
    read_outcomes,
    write_plan,
)
from pipeline.progress import ProgressLine
from pipeline.readers import apply_step, read_through
from pipeline.report import TimelinePoint, render_report
from pipeline.report_data import ReportData, collect_report_data, read_timeline
from pipeline.rounds import RoundsResult, extract_pending
from pipeline.run_folder import check_folder, claim_folder, only_run
from pipeline.schema import Schema
from pipeline.session import make_session, with_package
from pipeline.storage import Storage
from pipeline.udf.lines import check_writable
from pipeline.udf.output import RESULT_COLUMNS, output_function
from pipeline.udf.stage import Stage, build_stage
from pipeline.warming import warming
from pipeline.writers import RECORD_LINES, RECORDS, REJECTS, STAGING, Part, commit, num_files, write_empty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """Where the results of a finished run are, and its manifest."""

    output: str
    manifest: dict[str, Any] = field(repr=False)

    @property
    def reject_rate(self) -> float:
        return float(self.manifest["reject_rate"])


def run(
    config: RunConfig,
    *,
    spark: SparkSession | None = None,
    documents: DataFrame | None = None,
    schema: Schema | None = None,
    retry_reasons: Sequence[str] = (),
    overwrite: bool = False,
    say: Say | None = None,
    show: Say | None = None,
) -> RunResult:
    """Extract one record per document into ``config.output.path``.

    ``documents`` (see :data:`pipeline.udf.arrow.DOCUMENT_COLUMNS`) replaces ``config.input``. ``say`` gets a line per
    stage, ``show`` the progress line about once a second. ``retry_reasons`` limits which rejects are done again.
    Without ``spark`` a session is made, after the settings have been checked.

    Raises:
        ConfigError, InputError: anything that is wrong before work starts.
        EngineError: the engine does not start or keeps dying.
        OutputError: the output folder refuses.
    """
    if not config.output.path:
        raise ConfigError("no output folder is given", hint="pass --output DIR")
    stage = build_stage(config, schema=schema)
    check_writable(stage)
    output = Storage(config.output.path)
    check_folder(output, stage, overwrite=overwrite)
    work = _Run(stage, output, say=say or _silent, show=show)
    source = find_source(config.input) if documents is None else None
    with only_run(output), spark_faults():
        spark = with_package(spark) if spark is not None else make_session()
        step = plan_step(stage)
        with _cancelling(spark), warming(spark, stage, output.child(JOURNAL)) as wait:
            if documents is not None:
                planned = apply_step(documents, step)
            else:
                planned = read_through(spark, config.input, step, source=source)
            return work.execute(spark, planned, retry_reasons=retry_reasons, wait=wait)


@contextmanager
def _cancelling(spark: SparkSession) -> Iterator[None]:
    """A person who stops a run stops its tasks too: PySpark does that for Ctrl-C, but not for other signals.

    An interrupt in the middle of a call to the JVM comes out as a fault of that call: it is told as what it was.
    """
    handled = sys.exception()  # what the caller is dealing with is the end of each chain, and no news
    try:
        yield
    except BaseException as error:
        if not _is_interrupt(error, handled):
            raise
        with suppress(Exception):  # the JVM may be gone, which is as good
            spark.sparkContext.cancelAllJobs()
        if isinstance(error, KeyboardInterrupt):
            raise
        raise KeyboardInterrupt from None


def _is_interrupt(error: BaseException | None, handled: BaseException | None) -> bool:
    while error is not None and error is not handled and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None and error is not handled


class _Run:
    """State of one run."""

    def __init__(self, stage: Stage, output: Storage, *, say: Say, show: Say | None) -> None:
        self._stage = stage
        self._output = output
        self._journal = output.child(JOURNAL)
        self._run_id = uuid.uuid4().hex[:12]
        self._say = say
        self._show = show
        self._started_at = time.time()
        self._timings_s: dict[str, float] = {}

    def execute(
        self, spark: SparkSession, planned: DataFrame, *, retry_reasons: Sequence[str], wait: Callable[[], None]
    ) -> RunResult:
        claim_folder(self._output, self._stage)
        folder = f"plan/{self._run_id}"
        try:
            with self._timed("plan"):
                plan = write_plan(planned, self._journal, folder=folder)
                counts = count_plan(plan)
            result, num_resumed = self._extract(spark, plan, counts, retry_reasons, wait=wait)
            with ThreadPoolExecutor(max_workers=1) as beside:
                timeline = beside.submit(self._timeline, spark)
                with self._timed("output"):
                    parts, totals, samples = self._write(spark, plan, counts)
                with self._timed("report"):
                    sample = self._sample(plan, samples, timeline.result())
            manifest = self._manifest(counts, totals, result, num_resumed)
            report = None if sample is None else render_report(manifest, **sample)
            commit(self._output, parts, datasets=self._datasets, manifest=manifest, report=report)
        finally:
            self._journal.delete("plan")
        return RunResult(self._output.uri(""), manifest)

    def _extract(
        self,
        spark: SparkSession,
        plan: DataFrame,
        counts: PlanCounts,
        retry_reasons: Sequence[str],
        *,
        wait: Callable[[], None],
    ) -> tuple[RoundsResult, int]:
        retry = self._stage.config.journal.retry_rejects or bool(retry_reasons)
        again = Again(frozenset(retry_reasons), self._started_at) if retry else None
        with self._timed("compare"):
            compact(spark, self._journal)
            outcomes = read_outcomes(spark, self._journal)
            with_confidence = self._stage.config.output.confidence
            pending = count_pending(pending_chunks(plan, outcomes, again=again, with_confidence=with_confidence))
        num_resumed = counts.num_documents - counts.num_rejected - pending.num_documents
        if num_resumed:
            self._say(f"[resumed] {num_resumed} of {counts.num_documents}")
        if not pending.num_keys:
            return RoundsResult(Counts(), 0), num_resumed
        line = ProgressLine(
            num_total=counts.num_documents,
            num_resumed=counts.num_documents - pending.num_documents,
            num_work=pending.num_keys,
        )
        show = self._show
        watch = None if show is None else lambda now: show(line.render(now))
        with self._timed("extract"):
            wait()
            result = extract_pending(plan, self._stage, self._journal, pending=pending, again=again, watch=watch)
        return result, num_resumed

    @property
    def _datasets(self) -> list[str]:
        formats = self._stage.config.output.formats
        wanted = {RECORDS: "parquet" in formats, RECORD_LINES: "jsonl" in formats, REJECTS: True}
        return [name for name, is_wanted in wanted.items() if is_wanted]

    def _write(
        self, spark: SparkSession, plan: DataFrame, counts: PlanCounts
    ) -> tuple[list[Part], dict[str, Any], list[str]]:
        """The staged files, the counts, and what the tasks kept for the report."""
        self._output.delete(STAGING)
        num_tasks = num_files(counts.num_documents)
        outcomes = read_outcomes(spark, self._journal)
        with_text = self._stage.config.output.reads_text
        documents = documents_with_outcomes(plan, outcomes, num_partitions=num_tasks, with_text=with_text)
        function = output_function(
            self._stage,
            root=self._output.root,
            round_id=self._run_id,
            datasets=self._datasets,
            num_tasks=num_tasks,
        )
        rows = documents.mapInArrow(function, RESULT_COLUMNS).collect()
        parts = [Part.from_json(text) for row in rows for text in json.loads(row["parts"])]
        for dataset in self._datasets:
            if not any(part.dataset == dataset for part in parts):
                path = f"{STAGING}/{self._run_id}/{dataset}/empty.{dataset.rpartition('.')[2]}"
                parts.append(write_empty(self._output, path, dataset, self._stage.schema))
        samples = [row["sample"] for row in rows if row["sample"] is not None]
        return parts, sum_counts(json.loads(row["counts"]) for row in rows), samples

    def _timeline(self, spark: SparkSession) -> list[TimelinePoint]:
        if not self._stage.config.output.report:
            return []
        return read_timeline(read_outcomes(spark, self._journal), since_s=self._started_at)

    def _sample(self, plan: DataFrame, samples: Sequence[str], timeline: list[TimelinePoint]) -> ReportData | None:
        """What the report shows of the documents; None where none is wanted."""
        output = self._stage.config.output
        if not output.report:
            return None
        return collect_report_data(samples, plan=plan, timeline=timeline, with_text=output.reads_text)

    def _manifest(
        self, plan: PlanCounts, totals: Mapping[str, Any], result: RoundsResult, num_resumed: int
    ) -> dict[str, Any]:
        stage, counts = self._stage, result.counts
        return build_manifest(
            run_id=self._run_id,
            settings=stage.config.model_dump(mode="json"),
            hashes={
                "run": stage.fingerprint,
                "schema": stage.schema.fingerprint,
                "prompt": stage.prompt_fingerprint,
                "grammar": stage.grammar_fingerprint,
            },
            model=stage.model_id,
            num_documents=plan.num_documents,
            num_resumed=num_resumed,
            counts=totals,
            engine={
                "loads": int(counts.engine_id or 0),
                "load_s": round(counts.load_s, 3),
                "busy_s": round(counts.busy_s, 3),
                "rounds": result.num_rounds,
                "journal_s": round(counts.journal_s, 3),
                "journal_files": counts.journal_files,
                "prompt_tokens": counts.prompt_tokens,
                "output_tokens": counts.output_tokens,
                "counters": counts.engine,
            },
            timings_s=self._timings_s | {"total": time.time() - self._started_at},
            started_at=self._started_at,
            notes={"grounding": grounding_facts(totals)} if stage.config.output.reads_text else None,
        )

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - started
            self._timings_s[stage] = self._timings_s.get(stage, 0.0) + seconds
            logger.info("stage %s took %.1f s", stage, seconds)


def _silent(text: str) -> None:
    return None
