"""A disk that is full or read-only: one clear error, an intact journal, and a later run that goes on."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.errors import OutputError
from pipeline.run import run
from tests.kill_trial import NUM_DOCUMENTS, Trial

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    """A trial whose output folder is a small file system of its own."""
    trial = Trial(tmp_path)
    trial.prepare()
    trial.reset()
    trial.output.mkdir()
    if not _mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", str(trial.output)):
        pytest.skip("a disk that fills up needs a small file system, and only root may mount one")
    yield trial
    subprocess.run(["umount", "--lazy", str(trial.output)], check=True)


def _mount(*arguments: str) -> bool:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _fill(trial: Trial) -> None:
    """Take all space that is left."""
    with (trial.output / "_filler").open("wb", buffering=0) as stream:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    stream.write(b"x" * size)
            except OSError:
                continue


def _when(trial: Trial, pattern: str, act: threading.Thread, stop: threading.Event) -> threading.Thread:
    """A started thread that starts ``act`` as soon as the output folder has such a file."""

    def wait() -> None:
        while not stop.wait(0.005):
            if next(trial.output.glob(pattern), None) is not None:
                act.start()
                act.join()
                return

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("pattern", ["_journal/run.json", "_journal/outcomes/*.parquet", "_staging/*/*"])
def test_a_disk_that_fills_up_ends_the_run_and_keeps_what_is_done(
    spark: SparkSession, trial: Trial, pattern: str
) -> None:
    """It fills while the plan, the journal or the output is written."""
    stop = threading.Event()
    watcher = _when(trial, pattern, threading.Thread(target=_fill, args=(trial,)), stop)
    with pytest.raises(OutputError, match=r"No space left on device.*run the same command again") as caught:
        run(load_config(trial.settings), spark=spark)
    stop.set()
    watcher.join()
    assert "\n" not in str(caught.value)
    assert not (trial.output / "manifest.json").exists()
    done = _keys(trial)
    (trial.output / "_filler").unlink()
    result = run(load_config(trial.settings), spark=spark)
    assert result.manifest["resumed_documents"] == len(done)
    assert result.manifest["records"] + result.manifest["rejects"] == NUM_DOCUMENTS


def _keys(trial: Trial) -> set[str]:
    """Keys of the journal; every file can be read."""
    files = list(trial.journal.glob("outcomes/*.parquet"))
    return {key for file in files for key in pq.read_table(file, columns=["key"]).column("key").to_pylist()}


def test_a_folder_that_is_read_only_is_one_clear_error_and_the_finished_run_in_it_stays(
    spark: SparkSession, trial: Trial
) -> None:
    run(load_config(trial.settings), spark=spark)
    before = trial.results()
    assert _mount("-o", "remount,ro", str(trial.output))
    with pytest.raises(OutputError, match=r"Read-only file system"):
        run(load_config(trial.settings), spark=spark)
    assert trial.results() == before
    assert _mount("-o", "remount,rw", str(trial.output))
    again = run(load_config(trial.settings), spark=spark)
    assert again.manifest["engine"]["loads"] == 0
    assert json.loads((trial.output / "manifest.json").read_text())["resumed_documents"] == NUM_DOCUMENTS
