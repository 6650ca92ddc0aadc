"""A real standalone cluster on this machine: a master and two workers, each with a GPU if asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two names for this machine: Spark starts a second attempt of a task only on another host than the first's."""


@dataclass
class Cluster:
    """``master`` is its address, ``workers`` the process ids of its workers."""

    master: str
    workers: list[int] = field(default_factory=list)


@contextmanager
def standalone_cluster(folder: Path, *, cores: int = 2, with_gpus: bool = False) -> Iterator[Cluster]:
    """A cluster for the length of the block; logs and work folders go to ``folder``. GPU 0 and GPU 1 are pretended."""
    processes = []
    arguments = ["--host", HOSTS[0], "--port", "0", "--webui-port", "0"]
    process, log = _start(folder, "master", "org.apache.spark.deploy.master.Master", *arguments)
    processes.append(process)
    try:
        cluster = Cluster(_wait_for(log, r"spark://127\.0\.0\.1:\d+"))
        logs = []
        for number, host in enumerate(HOSTS):
            script = folder / f"gpu{number}.sh"
            script.write_text(f'#!/bin/sh\necho \'{{"name": "gpu", "addresses": ["{number}"]}}\'\n')
            script.chmod(0o755)
            options = f"-Dspark.worker.resource.gpu.amount=1 -Dspark.worker.resource.gpu.discoveryScript={script}"
            process, log = _start(
                folder, f"worker{number}", "org.apache.spark.deploy.worker.Worker", cluster.master, "--host", host,
                "--cores", str(cores), "--memory", "1g", "--webui-port", "0", "--work-dir",
                str(folder / f"work{number}"), SPARK_WORKER_OPTS=options if with_gpus else "",
            )  # fmt: skip
            processes.append(process)
            logs.append(log)
            cluster.workers.append(process.pid)
        for log in logs:
            _wait_for(log, "Successfully registered with master")
        yield cluster
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def _wait_for(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found.group(0)
        time.sleep(0.1)
    raise AssertionError(f"{pattern} did not come: {log.read_text(errors='replace')[-2000:]}")


def _start(folder: Path, name: str, *arguments: str, **environment: str) -> tuple[subprocess.Popen[bytes], Path]:
    log = folder / f"{name}.log"
    command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
    variables = os.environ | {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable} | environment
    with log.open("wb") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=stream, env=variables), log
