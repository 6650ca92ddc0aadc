"""Engines that die, stall or dawdle, and people who stop a run: end to end with the scripted engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline import rounds
from pipeline.config import load_config
from pipeline.errors import EngineStalledError, OutputError
from pipeline.faults import fault_of, first_line
from pipeline.run import RunResult, run
from pipeline.schema import load_schema
from tests.kill_trial import NUM_DOCUMENTS, Trial
from tests.processes import python_workers
from tests.scripts import PEOPLE_SCHEMA

ROOT = Path(__file__).resolve().parents[1]
Start = Callable[..., RunResult]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Start:
    """Run on texts by id; the output is ``tmp_path/out``."""

    def call(texts: dict[str, str], *, script: str, engine: dict[str, Any] | None = None) -> RunResult:
        source = tmp_path / "in.jsonl"
        source.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()))
        config = load_config(
            {
                "input": {"path": str(source)},
                "output": {"path": str(tmp_path / "out")},
                "engine": {"kind": "scripted", "script": f"tests.scripts:{script}", **(engine or {})},
                "journal": {"flush_outcomes": 2},
            }
        )
        return run(config, spark=spark, schema=load_schema(PEOPLE_SCHEMA))

    return call


def _reasons(folder: Path) -> dict[str, str]:
    return {r["doc_id"]: r["reason"] for r in pq.read_table(folder / "out" / "rejects.parquet").to_pylist()}


@pytest.mark.spark
def test_a_document_over_its_time_limit_is_a_reject_and_the_others_are_records(start: Start, tmp_path: Path) -> None:
    texts = {"late": "stall"} | {f"d{n}": f"Ann{n} {n}" for n in range(5)}
    result = start(texts, script="stalling_people", engine={"document_timeout_s": 0.3})
    assert _reasons(tmp_path) == {"late": "TIMEOUT"}
    assert result.manifest["records"] == 5


@pytest.mark.spark
def test_an_engine_that_makes_no_progress_ends_the_run_with_its_reason(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MAX_FRUITLESS_ROUNDS", 1)
    with pytest.raises(EngineStalledError, match="no token came for"):
        start({"a": "stall", "b": "stall"}, script="stalling_people", engine={"stall_timeout_s": 0.3})


@pytest.mark.spark
@pytest.mark.slow
def test_a_document_that_stalls_engines_is_found_and_costs_nobody_else_a_record(start: Start, tmp_path: Path) -> None:
    texts = {"stuck": "stall"} | {f"d{n}": f"Ann{n} {n}" for n in range(20)}
    result = start(texts, script="stalling_people", engine={"stall_timeout_s": 0.3})
    assert _reasons(tmp_path) == {"stuck": "REFUSED_BY_ENGINE"}
    assert result.manifest["records"] == 20


@pytest.mark.spark
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_no_setting_of_spark_makes_the_stage_run_twice(
    spark: SparkSession, start: Start, tmp_path: Path, adaptive: str
) -> None:
    counter = tmp_path / "requests"
    settings = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1k"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        result = start({f"d{n}": f"{counter} Ann{n} {n}" for n in range(60)}, script="counted_people")
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert counter.stat().st_size == result.manifest["records"] == 60


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_what_is_kept_and_goes_on_from_there(
    spark: SparkSession, tmp_path: Path, number: signal.Signals
) -> None:
    trial = Trial(tmp_path)
    trial.prepare()
    trial.reset()
    command = [sys.executable, str(ROOT / "jobs" / "extract.py"), "--config", str(tmp_path / "run.yaml")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(trial.journal.glob("outcomes/*.parquet")) and process.poll() is None:
        time.sleep(0.02)
    workers = python_workers(process.pid)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    told = re.findall(r"stopped: (\d+) texts are done and kept; run the same command again to go on", said)
    assert len(told) == 1, said
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.02)
    kept = pq.read_table(trial.journal / "outcomes").num_rows
    assert 0 < int(told[0]) <= kept <= NUM_DOCUMENTS  # on a busy machine tasks may end before they are stopped
    assert not (trial.output / "manifest.json").exists()
    result = run(load_config(trial.settings), spark=spark)
    assert result.manifest["resumed_documents"] == kept
    assert result.manifest["records"] + result.manifest["rejects"] == NUM_DOCUMENTS


def test_a_full_disk_in_sparks_own_words_is_an_output_error() -> None:
    fault = fault_of(RuntimeError("An error occurred: java.io.IOException: No space left on device\n at java.base/x"))
    assert isinstance(fault, OutputError)
    assert "No space left on device" in str(fault)


def test_the_first_line_of_a_java_exception_is_not_the_one_that_py4j_puts_before_it() -> None:
    said = "An error occurred while calling o85.parquet.\n: org.apache.spark.SparkException: no such file\n\tat x.Y"
    assert first_line(RuntimeError(said)) == "org.apache.spark.SparkException: no such file"
    assert first_line(RuntimeError("one\ntwo")) == "one"
    assert first_line(RuntimeError()) == "RuntimeError"
