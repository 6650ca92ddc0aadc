"""A driver on a cluster that does one run after another: settings as a line of JSON in, "done" or an error out.

``python -m tests.run_loop MASTER [NAME=VALUE ...]``, with Spark's settings as names and values.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.errors import PipelineError
from pipeline.run import run


def main(master: str, *settings: str) -> None:
    builder = SparkSession.builder.master(master).appName("runs")
    for setting in settings:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            run(load_config(json.loads(line)), spark=spark)
            print("done", flush=True)
        except PipelineError as error:
            print(f"error: {error}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
