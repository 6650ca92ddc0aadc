"""The Spark session of the jobs: quiet, and the one that ``spark-submit`` configured where there is one."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ENGINE_POOL_VARIABLE = "SPARK_EXTRACT_POOL"
"""Spark keeps Python workers apart by their environment, so a variable of its own gives a stage its own workers."""

THREADS_VARIABLE = "SPARK_EXTRACT_THREADS"
"""How many cores a local engine may use: all, where Spark gives a task one."""


def make_session(*, app_name: str = "extract", quiet: bool = True) -> SparkSession:
    """The running session, or a new one on ``local[*]`` (or the master that ``spark-submit`` set)."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR" if quiet else "WARN",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
        "spark.sql.shuffle.partitions": "32",
    }.items():
        if not _is_set(name):
            builder = builder.config(name, value)
    return with_package(builder.getOrCreate())


def with_package(spark: SparkSession) -> SparkSession:
    """Let workers import this package from where the driver has it; an installed package needs nothing."""
    root = str(Path(__file__).resolve().parents[1])
    environment = spark.sparkContext.environment
    if "site-packages" not in root and root not in environment.get("PYTHONPATH", ""):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    return spark


def is_local(spark: SparkSession) -> bool:
    """Whether driver and executor are one process on this machine."""
    return str(spark.sparkContext.master).startswith("local")


@contextmanager
def engine_pool(spark: SparkSession) -> Iterator[None]:
    """Functions made in this block run in Python workers of their own, which keep an engine between tasks."""
    environment = spark.sparkContext.environment
    environment[ENGINE_POOL_VARIABLE] = "1"
    if is_local(spark):
        environment[THREADS_VARIABLE] = str(len(os.sched_getaffinity(0)))
    try:
        yield
    finally:
        environment.pop(ENGINE_POOL_VARIABLE, None)
        environment.pop(THREADS_VARIABLE, None)


def _is_set(name: str) -> bool:
    """Whether spark-submit was given a setting: it starts this program behind a gateway that knows it."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return False
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return bool(SparkConf().contains(name))
