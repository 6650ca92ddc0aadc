"""kill -9 of workers, drivers and executors at random moments: nothing lost, nothing twice, the same bytes.

``EXTRACT_KILL_TRIALS`` sets the number of trials, most of them of workers.
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
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.errors import EngineError
from pipeline.run import run
from tests.kill_trial import NUM_DOCUMENTS, Results, Trial
from tests.processes import executors, kill, python_workers
from tests.standalone import Cluster, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
TRIALS = int(os.environ.get("EXTRACT_KILL_TRIALS", "3"))
DRIVER_TRIALS = max(1, TRIALS // 10)
EXECUTOR_TRIALS = max(1, TRIALS // 10)
WORKER_TRIALS = max(1, TRIALS - DRIVER_TRIALS - EXECUTOR_TRIALS)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    trial = Trial(tmp_path_factory.mktemp("kill"))
    trial.prepare()
    return trial


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, trial: Trial) -> Results:
    trial.reset()
    run(load_config(trial.settings), spark=spark)
    results = trial.results()
    assert len(results.records) + len(results.rejects) == NUM_DOCUMENTS
    return results


def _wait_for_work(trial: Trial, stop: threading.Event) -> bool:
    """Until an engine has given its first outcome; False where the run ended before."""
    while not stop.wait(0.02):
        if list(trial.journal.glob("progress/*.json")):
            return True
    return False


def _kill_a_worker(trial: Trial, rng: random.Random, stop: threading.Event, killed: list[int]) -> None:
    """Most at a moment of the engine's work, others at any moment of the run."""
    if rng.random() < 0.75:
        delay_s = rng.uniform(0.0, 0.8) if _wait_for_work(trial, stop) else 0.0
    else:
        delay_s = rng.uniform(0.0, 3.0)
    stop.wait(delay_s)
    while not stop.is_set():
        workers = python_workers(os.getpid())
        if workers and kill(rng.choice(workers)):
            killed.append(1)
            return
        time.sleep(0.02)


@pytest.mark.parametrize("seed", range(WORKER_TRIALS))
def test_a_killed_worker_loses_no_document(spark: SparkSession, trial: Trial, undisturbed: Results, seed: int) -> None:
    rng, stop = random.Random(seed), threading.Event()
    killed: list[int] = []
    trial.reset()
    killer = threading.Thread(target=_kill_a_worker, args=(trial, rng, stop, killed))
    killer.start()
    try:
        run(load_config(trial.settings), spark=spark)
    except EngineError:  # killed outside the engine's work: the same command again goes on
        assert not (trial.output / "manifest.json").exists()
        run(load_config(trial.settings), spark=spark)
    finally:
        stop.set()
        killer.join()
    lost = trial.check(undisturbed, num_workers_lost=2)  # Spark ends the other worker of a failed local job too
    print(f"worker trial {seed}: {len(killed)} killed, {lost} requests in vain")


@pytest.mark.parametrize("seed", range(DRIVER_TRIALS))
def test_a_killed_driver_leaves_a_journal_that_the_next_run_finishes(
    spark: SparkSession, trial: Trial, undisturbed: Results, seed: int
) -> None:
    rng = random.Random(1000 + seed)
    trial.reset()
    command = [sys.executable, str(ROOT / "jobs" / "extract.py"), "--config", str(trial.folder / "run.yaml")]
    with (trial.folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        while not trial.journal.exists() and process.poll() is None:
            time.sleep(0.02)
        at_work = rng.random() < 0.75
        while at_work and not list(trial.journal.glob("progress/*")) and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 1.2))
        workers = python_workers(process.pid)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the driver and its JVM
        assert process.wait() in (0, -signal.SIGKILL), (trial.folder / "log").read_text()
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.02)  # workers notice that their JVM is gone
    finished = (trial.output / "manifest.json").exists()
    said: list[str] = []
    result = run(load_config(trial.settings), spark=spark, say=said.append)
    lost = trial.check(undisturbed, num_workers_lost=2)
    print(f"driver trial {seed}: {said}, {lost} requests in vain")
    assert finished or result.manifest["resumed_documents"] < NUM_DOCUMENTS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), cores=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A driver with two executors of one core, speculative execution on."""
    settings = {
        "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR",
        "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.2",
        "spark.speculation.minTaskRuntime": "2s", "spark.speculation.efficiency.enabled": "false",
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.run_loop", cluster.master]
    command += [f"{name}={value}" for name, value in settings.items()]
    with (
        (tmp_path_factory.mktemp("driver") / "log").open("wb") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        yield process
        process.kill()


def _run_in(driver: subprocess.Popen[str], trial: Trial) -> str:
    assert driver.stdin is not None
    assert driver.stdout is not None
    driver.stdin.write(json.dumps(trial.settings) + "\n")
    driver.stdin.flush()
    return driver.stdout.readline().strip()


@pytest.mark.parametrize("seed", range(EXECUTOR_TRIALS))
def test_a_killed_executor_loses_no_document(
    cluster: Cluster, driver: subprocess.Popen[str], trial: Trial, undisturbed: Results, seed: int
) -> None:
    rng, stop = random.Random(2000 + seed), threading.Event()
    killed: list[int] = []

    def kill_one() -> None:
        if _wait_for_work(trial, stop) and not stop.wait(rng.uniform(0.0, 0.8)):
            found = [pid for worker in cluster.workers for pid in executors(worker)]
            if found and kill(rng.choice(found)):
                killed.append(1)

    trial.reset()
    killer = threading.Thread(target=kill_one)
    killer.start()
    answer = _run_in(driver, trial)
    stop.set()
    killer.join()
    if answer != "done":
        assert answer.startswith("error: ")
        assert _run_in(driver, trial) == "done"
    lost = trial.check(undisturbed, num_workers_lost=2)
    print(f"executor trial {seed}: {len(killed)} killed, {answer}, {lost} requests in vain")


def test_two_attempts_of_one_task_give_one_record_each(
    cluster: Cluster, driver: subprocess.Popen[str], trial: Trial, undisturbed: Results
) -> None:
    """A worker that is stopped for a while makes Spark start a second attempt; both end."""
    stop = threading.Event()

    def freeze_one() -> None:
        if not _wait_for_work(trial, stop):
            return
        pid = next(pid for worker in cluster.workers for pid in _engine_workers(worker, trial))
        os.kill(pid, signal.SIGSTOP)
        while not stop.wait(0.05) and not _num_second_attempts(trial):
            pass
        os.kill(pid, signal.SIGCONT)

    trial.reset()
    freezer = threading.Thread(target=freeze_one)
    freezer.start()
    answer = _run_in(driver, trial)
    stop.set()
    freezer.join()
    assert answer == "done"
    assert _num_second_attempts(trial) > 0
    lost = trial.check(undisturbed, num_workers_lost=2)  # no more than the stopped task's texts
    print(f"speculation: {_num_second_attempts(trial)} second attempts, {lost} requests twice")


def _num_second_attempts(trial: Trial) -> int:
    tasks = [path.name.rpartition("-t")[0] for path in trial.journal.glob("progress/*.json")]
    return len(tasks) - len(set(tasks))


def _engine_workers(worker: int, trial: Trial) -> list[int]:
    engines = {
        int(json.loads(path.read_text())["engine_id"].partition("-")[0])
        for path in trial.journal.glob("progress/*.json")
    }
    return [pid for pid in python_workers(worker) if pid in engines]
