"""The Spark session of the jobs: quiet, and the one that ``spark-submit`` configured where there is one."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.preload import preload_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

ENGINE_POOL_VARIABLE = "SPARK_EXTRACT_POOL"
"""Spark keeps Python workers apart by their environment, so a variable of its own gives a stage its own workers."""

_SQL_VARIABLE = "SPARK_SIMPLIFIED_TRACEBACK"
"""Spark SQL sets it for its workers and an RDD does not: set for both, they share workers."""

BATCH_BYTES = 64 << 20
"""Most bytes of a batch that Spark sends to a Python worker: 2,000 long documents would be half a gigabyte."""

THREADS_VARIABLE = "SPARK_EXTRACT_THREADS"
"""How many cores a local engine may use: all, where Spark gives a task one."""


def make_session(*, app_name: str = "extract") -> SparkSession:
    """The running session, or a new one on ``local[*]`` (or the master that ``spark-submit`` set).

    What a new JVM and its workers say goes to :func:`log_file`, unless this program logs at INFO itself.

    Raises:
        ConfigError: Spark does not start; says why.
    """
    from pyspark.sql import SparkSession

    verbose = logger.isEnabledFor(logging.INFO)
    builder = SparkSession.builder.appName(app_name)
    is_new = SparkSession.getActiveSession() is None
    for name, value in _jvm_settings().items() if is_new else ():
        builder = builder.config(name, value)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN" if verbose else "ERROR",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": str(32 << 20),  # so much a task needs no sort
        "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
        "spark.sql.shuffle.partitions": "32",
    }.items():
        if not _is_set(name):
            builder = builder.config(name, value)
    if verbose or _is_submitted() or not is_new:
        return with_package(builder.getOrCreate())
    with _stderr_to(log_file()), _uninterrupted():
        try:
            return with_package(builder.getOrCreate())
        except Exception as error:  # PySpark raises several classes here; all of them mean: no JVM
            said = log_file().read_text(errors="replace").strip().splitlines()
            reason = said[0] if said else str(error).strip().splitlines()[0]
            raise ConfigError(f"Spark does not start: {reason}", hint="Spark needs Java 17 or newer") from None


def _jvm_settings() -> dict[str, str]:
    """Memory and collector of a JVM that this program starts; none where somebody has configured Spark.

    Spark's own 1 GB makes sorts of a million documents spill to disk, again and again.
    """
    if _is_submitted() or "SPARK_CONF_DIR" in os.environ or "SPARK_HOME" in os.environ:
        return {}
    total_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {
        "spark.driver.memory": f"{min(4, max(1, total_gb // 6))}g",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    }


def log_file() -> Path:
    """Where Spark's own log of this process goes."""
    folder = Path(tempfile.gettempdir()) / f"spark-extract-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"spark-{os.getpid()}.log"


def with_package(spark: SparkSession) -> SparkSession:
    """Let workers import this package from where the driver has it; an installed package needs nothing.

    On this machine workers run the driver's Python, unless another one was asked for.
    """
    root = str(Path(__file__).resolve().parents[1])
    context = spark.sparkContext
    if is_local(spark) and "PYSPARK_PYTHON" not in os.environ and context.getConf().get("spark.pyspark.python") is None:
        context.pythonExec = sys.executable  # `python3` on the path may be another one, without the packages
    environment = context.environment
    if "site-packages" not in root and root not in environment.get("PYTHONPATH", ""):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    return spark


def is_local(spark: SparkSession) -> bool:
    """Whether driver and executor are one process on this machine."""
    return str(spark.sparkContext.master).startswith("local")


@contextmanager
def engine_pool(spark: SparkSession, *, key_variable: str | None = None) -> Iterator[None]:
    """Functions made in this block run in Python workers of their own, which keep an engine between tasks.

    ``key_variable`` names the environment variable with a server's key. Locally its value of now reaches the workers,
    which otherwise have what was set when Spark started; on a cluster every machine has its own.
    """
    environment = spark.sparkContext.environment
    added = {ENGINE_POOL_VARIABLE: "1", _SQL_VARIABLE: "1"}
    if is_local(spark):
        added |= {THREADS_VARIABLE: str(len(os.sched_getaffinity(0))), **preload_environment()}
        if key_variable is not None and key_variable in os.environ:
            added[key_variable] = os.environ[key_variable]
    before = {name: environment.get(name) for name in added}
    environment.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Programs started in this block write their errors to a file; this process goes on as before."""
    kept = os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(target)
        os.close(kept)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait for the end of the block: a PySpark that is stopped in its start leaves Java behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    seen: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda caught, _: seen.append(caught)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if seen:
            signal.raise_signal(seen[0])


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _is_set(name: str) -> bool:
    """Whether spark-submit was given a setting: it starts this program behind a gateway that knows it."""
    if not _is_submitted():
        return False
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return bool(SparkConf().contains(name))
