"""GPU scheduling on a real standalone cluster on this machine: a master and two workers with a pretended GPU each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.scripts import PEOPLE_SCHEMA

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
SPARK_HOME = Path(pyspark.__file__).parent


def _wait_for(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found.group(0)
        time.sleep(0.2)
    raise AssertionError(f"{pattern} did not come: {log.read_text(errors='replace')[-2000:]}")


def _start(folder: Path, name: str, *arguments: str, **environment: str) -> tuple[subprocess.Popen[bytes], Path]:
    log = folder / f"{name}.log"
    command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
    variables = os.environ | {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable} | environment
    with log.open("wb") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=stream, env=variables), log


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two workers, with GPU 0 and GPU 1."""
    processes = []
    process, log = _start(
        tmp_path, "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0",
        "--webui-port", "0",
    )  # fmt: skip
    processes.append(process)
    try:
        address = _wait_for(log, r"spark://127\.0\.0\.1:\d+")
        for number in range(2):
            script = tmp_path / f"gpu{number}.sh"
            script.write_text(f'#!/bin/sh\necho \'{{"name": "gpu", "addresses": ["{number}"]}}\'\n')
            script.chmod(0o755)
            options = f"-Dspark.worker.resource.gpu.amount=1 -Dspark.worker.resource.gpu.discoveryScript={script}"
            process, log = _start(
                tmp_path, f"worker{number}", "org.apache.spark.deploy.worker.Worker", address, "--host", "127.0.0.1",
                "--cores", "2", "--memory", "1g", "--webui-port", "0", "--work-dir", str(tmp_path / f"work{number}"),
                SPARK_WORKER_OPTS=options,
            )  # fmt: skip
            processes.append(process)
            _wait_for(log, "Successfully registered with master")
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def test_every_engine_has_a_gpu_of_its_own_and_serves_several_tasks(master: str, tmp_path: Path) -> None:
    (tmp_path / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    lines = [json.dumps({"id": f"d{n}", "text": f"Ann{n} {n}"}) for n in range(400)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    (tmp_path / "run.yaml").write_text("engine: {kind: scripted, script: 'tests.scripts:slow_people'}\n")
    command = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", master, "--executor-memory", "512m",
        "--conf", "spark.executor.resource.gpu.amount=1", "--conf", "spark.executor.cores=2",
        "--conf", "spark.executor.instances=2", "--conf", "spark.driver.host=127.0.0.1",
        str(ROOT / "jobs" / "extract.py"), "--config", str(tmp_path / "run.yaml"), "--input",
        str(tmp_path / "in.jsonl"), "--schema", str(tmp_path / "people.json"), "--output", str(tmp_path / "out"),
    ]  # fmt: skip
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["records"] == 400
    tasks = [json.loads(path.read_text()) for path in (tmp_path / "out" / "_journal" / "progress").iterdir()]
    engines = {(task["engine_id"], task["device"]) for task in tasks}
    assert len(tasks) == 8
    assert sorted(device for _, device in engines) == ["gpu-0", "gpu-1"]  # one engine on each, reused by its tasks
