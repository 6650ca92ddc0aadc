"""How the extraction stage takes its devices: one task per GPU, or per group of GPUs that one engine spans.

On a cluster whose executors have GPUs (``spark.executor.resource.gpu.amount``), the stage gets a resource profile of
its own: a task asks for one core and as many GPUs as an engine takes, so that Spark runs exactly one engine on each,
while reading, merging and writing use all cores. A task sees only its own addresses (:mod:`pipeline.udf.worker`).
Locally without Spark's GPU scheduling one engine works at a time, as one task.

On paper, 1,000 GPUs get at least 4,000 partitions: one that fails is done again from where its journal ends, so what
it costs is a model load and one flush interval, not the partition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pipeline.config import RunConfig
from pipeline.plan import Pending
from pipeline.session import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROUNDS_PER_SLOT = 4
_GPUS = "spark.executor.resource.gpu.amount"


def gpus_per_engine(config: RunConfig) -> int:
    """GPUs that one engine spans: tensor parallel times pipeline parallel."""
    args = config.engine.args
    return int(args.get("tensor_parallel_size") or 1) * int(args.get("pipeline_parallel_size") or 1)


def engine_profile(spark: SparkSession, config: RunConfig) -> Any:
    """The stage's resource profile, None where Spark schedules no GPUs, or where a server does the work."""
    if is_local(spark) or config.engine.kind == "openai" or not _gpus_per_executor(spark):
        return None
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    requests = TaskResourceRequests().cpus(1).resource("gpu", gpus_per_engine(config))
    return ResourceProfileBuilder().require(requests).build


def num_slots(spark: SparkSession, config: RunConfig) -> int:
    """How many engines can work at the same time, as far as the driver knows now."""
    context = spark.sparkContext
    if is_local(spark):
        takes_device = config.engine.kind == "vllm" or "device" in config.engine.args
        return 1 if takes_device else int(context.defaultParallelism)
    gpus = _gpus_per_executor(spark)
    if not gpus or config.engine.kind == "openai":
        return max(1, int(context.defaultParallelism))
    num_executors = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is among them
    asked = int(context.getConf().get("spark.executor.instances", "0"))
    return max(1, max(num_executors, asked) * (gpus // gpus_per_engine(config)))


def num_partitions(spark: SparkSession, config: RunConfig, pending: Pending) -> int:
    """Several partitions per slot, so that slots end together; never more than there are texts."""
    slots = num_slots(spark, config)
    if is_local(spark) and slots == 1:
        return 1  # a second task would wait for the device, and load the model again when it gets it
    target = config.partition
    tokens = target.minutes * 60 * target.tokens_per_s
    rounds = 1 if is_local(spark) else _ROUNDS_PER_SLOT
    wanted = max(slots * rounds, math.ceil(pending.num_tokens / tokens))
    return max(1, min(wanted, pending.num_keys))


def _gpus_per_executor(spark: SparkSession) -> int:
    return int(spark.sparkContext.getConf().get(_GPUS, "0"))
