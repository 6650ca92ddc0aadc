"""Rounds of extraction: the expensive stage, run again after a failure until nothing is left or nothing helps."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import EngineError, EngineStartError, PipelineError
from pipeline.faults import failed_partition, fault_of
from pipeline.markers import FOLDER as STARTED
from pipeline.markers import combine, load_suspects, read_markers, save_suspects
from pipeline.metrics import FOLDER as PROGRESS
from pipeline.metrics import Counts, total
from pipeline.plan import Again, Pending, count_pending, partitioned, pending_chunks, read_outcomes
from pipeline.scheduling import engine_profile, num_partitions
from pipeline.session import engine_pool
from pipeline.storage import Storage
from pipeline.udf.extract import RESULT_COLUMNS, ExtractTask, extract_function
from pipeline.udf.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

MAX_FRUITLESS_ROUNDS = 5
"""An engine that dies this often in a row without one good outcome between is broken, whatever it was given."""

_POLL_S = 1.0
_TASKS_END_WITHIN_S = 5.0
Watch = Callable[[Counts], None]


@dataclass(frozen=True, slots=True)
class RoundsResult:
    """What the rounds of one run did: counts of this run's task attempts, and how often the stage had to start."""

    counts: Counts
    num_rounds: int


def extract_pending(
    plan: DataFrame,
    stage: Stage,
    journal: Storage,
    *,
    pending: Pending,
    again: Again | None = None,
    watch: Watch | None = None,
) -> RoundsResult:
    """Work until every key of the plan has an outcome in the journal.

    A round that fails because an engine died is followed by another one, until
    :data:`MAX_FRUITLESS_ROUNDS` rounds in a row brought nothing; what the journal holds is not done again.

    Raises:
        EngineError: the engine does not start, or dies without anything getting done.
        PipelineError: whatever else a task raised.
    """
    spark = plan.sparkSession
    run_id = uuid.uuid4().hex[:8]
    journal.delete(PROGRESS)
    journal.delete(STARTED)  # what a killed driver's tasks left says nothing about documents
    num_rounds = fruitless = 0
    num_good: int | None = None
    while pending.num_keys:
        num_rounds += 1
        round_id = f"{run_id}r{num_rounds}"
        try:
            with _watching(journal, watch):
                _run_round(plan, stage, journal, round_id=round_id, pending=pending, again=again)
            break
        except Exception as error:
            fault = fault_of(error)
            if not isinstance(fault, EngineError) or isinstance(fault, EngineStartError):
                if fault is None:
                    raise
                raise fault from None
            _wait_for_tasks(spark)
            if stage.config.engine.kind != "openai":  # a server's outage says nothing about documents
                _judge(journal, round_id, failed_partition(error))
            pending = count_pending(_left(plan, stage, journal, again))
            num_before, num_good = num_good, _count_good(read_outcomes(spark, journal))
            fruitless = fruitless + 1 if num_good == (num_before or 0) else 0
            if fruitless >= MAX_FRUITLESS_ROUNDS:
                raise fault from None
            logger.warning("round %d ended: %s; %d texts are left", num_rounds, fault, pending.num_keys)
    journal.delete(STARTED)
    return RoundsResult(read_counts(journal), num_rounds)


def read_counts(journal: Storage) -> Counts:
    """Sum of what the task attempts of this run reported."""
    data = [journal.read(file.path) for file in journal.files(PROGRESS)]
    return total(Counts.from_json(item) for item in data if item)


def _run_round(
    plan: DataFrame,
    stage: Stage,
    journal: Storage,
    *,
    round_id: str,
    pending: Pending,
    again: Again | None,
) -> None:
    spark = plan.sparkSession
    chunks = partitioned(
        plan,
        read_outcomes(spark, journal),
        pending,
        num_partitions=num_partitions(spark, stage.config, pending),
        again=again,
        with_confidence=stage.config.output.confidence,
    )
    speculative = spark.conf.get("spark.speculation", "false") == "true"
    task = ExtractTask(
        stage=stage,
        journal_root=journal.root,
        round_id=round_id,
        suspects=load_suspects(journal),
        judge_attempts=not speculative and stage.config.engine.kind != "openai",
    )
    with engine_pool(spark, key_variable=stage.config.engine.api_key_env):
        profile = engine_profile(spark, stage.config)
        chunks.mapInArrow(extract_function(task), RESULT_COLUMNS, profile=profile).collect()


def _left(plan: DataFrame, stage: Stage, journal: Storage, again: Again | None) -> DataFrame:
    outcomes = read_outcomes(plan.sparkSession, journal)
    return pending_chunks(plan, outcomes, again=again, with_confidence=stage.config.output.confidence)


def _count_good(outcomes: DataFrame) -> int:
    """Outcomes that a living engine gave."""
    return int(outcomes.where("json is not null or reason <> 'REFUSED_BY_ENGINE'").count())


def _wait_for_tasks(spark: SparkSession) -> None:
    """Tasks of a failed round end a little later, and what they journal until then must not be done again.

    Other work of the same application may keep executors busy, so the wait is bounded.
    """
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    deadline = time.monotonic() + _TASKS_END_WITHIN_S
    while time.monotonic() < deadline and any(info.numRunningTasks() for info in tracker.getExecutorInfos()):
        time.sleep(0.05)


def _judge(journal: Storage, round_id: str, partition: int | None) -> None:
    """Write down whom the failed task's markers name; markers of tasks that only were cancelled say nothing."""
    prefix = round_id if partition is None else f"{round_id}-p{partition:05d}-"
    save_suspects(journal, combine(load_suspects(journal), read_markers(journal, prefix=prefix)))


@contextmanager
def _watching(journal: Storage, watch: Watch | None) -> Iterator[None]:
    """Tell the counts to ``watch`` every second, from a thread, while the block runs."""
    if watch is None:
        yield
        return
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(_POLL_S):
            try:
                watch(read_counts(journal))
            except (PipelineError, OSError, ValueError) as error:
                logger.debug("no progress to show: %s", error)

    thread = threading.Thread(target=poll, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    watch(read_counts(journal))
