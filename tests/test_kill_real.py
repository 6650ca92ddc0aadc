"""kill -9 with the real engine: vLLM on the CPU and the demo model give the records of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.demo_model import ensure_demo_model
from pipeline.run import run
from tests.processes import kill, python_workers

pytestmark = [pytest.mark.spark, pytest.mark.vllm, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
NUM_DOCUMENTS = 8
IN_FLIGHT = 3
FLUSH_OUTCOMES = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ensure_demo_model()
    folder = tmp_path_factory.mktemp("kill")
    lines = (ROOT / "pipeline" / "samples" / "receipts.jsonl").read_text().splitlines()[:NUM_DOCUMENTS]
    (folder / "in.jsonl").write_text("\n".join(lines))
    return folder


def _settings(folder: Path, name: str) -> dict[str, Any]:
    return {
        "input": {"path": str(folder / "in.jsonl"), "id_column": "id"},
        "output": {"path": str(folder / name), "report": False},
        "schema_spec": str(ROOT / "schemas" / "receipts.py") + ":Receipt",
        "engine": {
            "args": {"dtype": "float32", "max_model_len": 1024},  # in bfloat16 near-ties flip with the batch's shape
            "max_in_flight": IN_FLIGHT,
        },
        "decoding": {"max_output_tokens": 200, "truncation_factor": 1},
        "journal": {"flush_outcomes": FLUSH_OUTCOMES, "flush_interval_s": 1.0},
        "quiet": True,
    }


def _results(output: Path) -> tuple[bytes, list[tuple[str, str, str]]]:
    lines = b"".join(path.read_bytes() for path in sorted((output / "records.jsonl").iterdir()))
    rejects = pq.read_table(output / "rejects.parquet").to_pylist()
    return lines, [(row["doc_id"], row["reason"], row["raw_output"]) for row in rejects]


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, folder: Path) -> tuple[bytes, list[tuple[str, str, str]]]:
    run(load_config(_settings(folder, "undisturbed")), spark=spark)
    return _results(folder / "undisturbed")


def _wait(condition: Callable[[], bool], stop: threading.Event) -> bool:
    while not stop.wait(0.05):
        if condition():
            return True
    return False


def _check(output: Path, undisturbed: tuple[bytes, list[tuple[str, str, str]]], num_loads: int) -> None:
    lines, rejects = _results(output)
    assert (lines, rejects) == undisturbed
    assert lines.count(b"\n") + len(rejects) == NUM_DOCUMENTS
    keys = pq.read_table(output / "_journal" / "outcomes").column("key").to_pylist()
    assert len(keys) == len(set(keys)) == NUM_DOCUMENTS  # what was in the journal was not done again
    print(f"{lines.count(bytes([10]))} records, {len(rejects)} rejects, {num_loads} engine loads")


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_worker_changes_no_byte(
    spark: SparkSession, folder: Path, undisturbed: tuple[bytes, list[tuple[str, str, str]]], seed: int
) -> None:
    output, stop, rng = folder / f"worker{seed}", threading.Event(), random.Random(seed)
    killed: list[int] = []

    def kill_engine() -> None:
        progress = output / "_journal" / "progress"
        if _wait(lambda: any(progress.glob("*.json")), stop) and not stop.wait(rng.uniform(0.0, 3.0)):
            text = next(progress.glob("*.json")).read_text()
            killed.append(int(kill(int(json.loads(text)["engine_id"].partition("-")[0]))))

    killer = threading.Thread(target=kill_engine)
    killer.start()
    try:
        result = run(load_config(_settings(folder, output.name)), spark=spark)
    finally:
        stop.set()
        killer.join()
    assert killed == [1]
    _check(output, undisturbed, result.manifest["engine"]["loads"])


def test_a_killed_driver_changes_no_byte(
    spark: SparkSession, folder: Path, undisturbed: tuple[bytes, list[tuple[str, str, str]]]
) -> None:
    output = folder / "driver"
    (folder / "run.yaml").write_text(json.dumps(_settings(folder, output.name)))
    command = [sys.executable, str(ROOT / "jobs" / "extract.py"), "--config", str(folder / "run.yaml")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        while not list(output.glob("_journal/outcomes/*.parquet")):
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        workers = python_workers(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.05)
    result = run(load_config(_settings(folder, output.name)), spark=spark)
    assert 0 < result.manifest["resumed_documents"] < NUM_DOCUMENTS
    _check(output, undisturbed, result.manifest["engine"]["loads"])
