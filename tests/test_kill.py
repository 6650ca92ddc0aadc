"""kill -9 of workers and drivers at random moments: nothing lost, nothing twice, the same bytes as undisturbed.

``EXTRACT_KILL_TRIALS`` sets the number of trials of each kind.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.run import run
from pipeline.schema import load_schema
from tests.scripts import PEOPLE_SCHEMA

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
TRIALS = int(os.environ.get("EXTRACT_KILL_TRIALS", "1"))
NUM_DOCUMENTS = 600
FLUSH_OUTCOMES = 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    lines = [
        {"id": f"d{n:04d}", "text": f"Ann{n} {n}" + (" retry" if n % 50 == 0 else "")} for n in range(NUM_DOCUMENTS)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _expected() -> bytes:
    rows = ({"doc_id": f"d{n:04d}", "name": f"Ann{n}", "age": n} for n in range(NUM_DOCUMENTS))
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()


def _check(output: Path) -> None:
    """Every document once, the bytes of an undisturbed run, and little work done twice."""
    assert b"".join(p.read_bytes() for p in sorted((output / "records.jsonl").iterdir())) == _expected()
    assert pq.read_table(output / "rejects.parquet").num_rows == 0
    assert json.loads((output / "manifest.json").read_text())["records"] == NUM_DOCUMENTS


def _num_done_twice(output: Path) -> int:
    keys = pq.read_table(output / "_journal" / "outcomes").column("key").to_pylist()
    return len(keys) - len(set(keys))


def _kill_a_worker(journal: Path, stop: threading.Event, rng: random.Random) -> int:
    """Wait until an engine works, then kill -9 its process a random time later; its id, 0 where none was seen."""
    seen = {path.name for path in journal.glob("progress/*.json")}
    while not stop.wait(0.05):
        for path in journal.glob("progress/*.json"):
            try:
                pid = int(json.loads(path.read_text())["engine_id"].partition("-")[0])
            except (ValueError, OSError):
                continue
            if path.name not in seen and not stop.wait(rng.uniform(0.0, 1.0)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    seen.add(path.name)
                    continue
                return pid
    return 0


@pytest.mark.parametrize("seed", range(TRIALS))
def test_a_killed_worker_loses_no_document(spark: SparkSession, source: Path, tmp_path: Path, seed: int) -> None:
    output, stop, rng = tmp_path / "out", threading.Event(), random.Random(seed)
    config = load_config(
        {
            "input": {"path": str(source)},
            "output": {"path": str(output)},
            "engine": {"kind": "scripted", "script": "tests.scripts:slow_people"},
            "journal": {"flush_outcomes": FLUSH_OUTCOMES},
        }
    )
    killed: list[int] = []

    def kill() -> None:
        for _ in range(2):
            killed.append(_kill_a_worker(output / "_journal", stop, rng))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        run(config, spark=spark, schema=load_schema(PEOPLE_SCHEMA))
    finally:
        stop.set()
        killer.join()
    assert any(killed)
    _check(output)
    assert _num_done_twice(output) == 0  # what was in the journal was not done again


@pytest.mark.parametrize("seed", range(TRIALS))
def test_a_killed_driver_leaves_a_journal_that_the_next_run_finishes(source: Path, tmp_path: Path, seed: int) -> None:
    output, rng = tmp_path / "out", random.Random(1000 + seed)
    (tmp_path / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    (tmp_path / "run.yaml").write_text(
        json.dumps(
            {
                "engine": {"kind": "scripted", "script": "tests.scripts:slow_people"},
                "journal": {"flush_outcomes": FLUSH_OUTCOMES},
            }
        )
    )
    command = [
        sys.executable, str(ROOT / "jobs" / "extract.py"), "--config", str(tmp_path / "run.yaml"), "--input",
        str(source), "--schema", str(tmp_path / "people.json"), "--output", str(output),
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        while not list(output.glob("_journal/outcomes/*.parquet")) and process.poll() is None:
            time.sleep(0.1)
        time.sleep(rng.uniform(0.0, 1.5))
        os.killpg(process.pid, signal.SIGKILL)  # driver, JVM and what they started in this group
        process.wait()
        finished = (output / "manifest.json").exists()
        time.sleep(1.0)  # workers notice that their JVM is gone
        done = len(set(pq.read_table(output / "_journal" / "outcomes").column("key").to_pylist()))
        again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert f"[resumed] {done} of {NUM_DOCUMENTS}" in again.stderr
    assert finished or done < NUM_DOCUMENTS
    _check(output)
    assert _num_done_twice(output) == 0
