"""The engine's start beside the plan: a local run loads its model while Spark SQL starts, reads and counts.

Only for a run that has nothing to resume (a finished one must load nothing), and only where Spark has a core to spare
for it. On a cluster the plan keeps every core busy, so nothing is done there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pipeline.journal import OUTCOMES
from pipeline.scheduling import num_slots
from pipeline.session import engine_pool, is_local
from pipeline.storage import Storage
from pipeline.udf.stage import Stage
from pipeline.udf.worker import engine_of

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_GROUP = "start of the engine"


@contextmanager
def warming(spark: SparkSession, stage: Stage, journal: Storage) -> Iterator[Callable[[], None]]:
    """Load the engine in the background while the block runs; gives a function that waits until it is there.

    A model that does not load is no fault here: the stage that needs it meets the same and says so. Where the block
    fails the start is cancelled.
    """
    if not _is_useful(spark, stage, journal):
        yield lambda: None
        return
    thread = threading.Thread(target=_collect, args=(spark, _warm_task(spark, stage)), name="warming", daemon=True)
    thread.start()
    try:
        yield thread.join
    finally:
        if thread.is_alive():
            with suppress(Exception):  # the JVM may be gone
                spark.sparkContext.cancelJobGroup(_GROUP)


def _is_useful(spark: SparkSession, stage: Stage, journal: Storage) -> bool:
    config = stage.config
    return (
        config.engine.kind == "vllm"
        and is_local(spark)
        and num_slots(spark, config) == 1
        and spark.sparkContext.defaultParallelism > 1
        and not journal.files(OUTCOMES)
    )


def _warm_task(spark: SparkSession, stage: Stage) -> RDD[int]:
    """A task that loads the engine: an RDD's, because Spark SQL itself takes seconds to start."""

    def run(rows: Iterable[int]) -> list[int]:
        with suppress(Exception), engine_of(stage):
            pass
        return list(rows)  # a worker whose input is left unread is not used again

    with engine_pool(spark):  # the worker that loads it is the one that the stage's task will find
        task = spark.sparkContext.parallelize([0], 1).mapPartitions(run)
        _ = task._jrdd  # made now, as it holds the environment of now
    return task


def _collect(spark: SparkSession, task: RDD[int]) -> None:
    try:
        spark.sparkContext.setJobGroup(_GROUP, _GROUP, interruptOnCancel=True)
        task.collect()
    except Exception as error:  # cancelled, or the worker died: the stage starts a new one
        logger.debug("the engine was not started ahead: %s", type(error).__name__)
