"""A run's output folder belongs to one run at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import OutputError
from pipeline.run_folder import only_run
from pipeline.storage import Storage

_HOLDER = """
import os, sys
from pipeline.run_folder import only_run
from pipeline.storage import Storage
with only_run(Storage(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_kept_out_until_the_first_ends(tmp_path: Path) -> None:
    output = Storage(str(tmp_path / "out"))
    with only_run(output), pytest.raises(OutputError, match="another run is writing to"), only_run(output):
        pytest.fail("two runs in one folder")
    with only_run(output), only_run(Storage(str(tmp_path / "other"))):
        assert output.child("_journal").files() == []  # the lock is no file of the journal


def test_a_killed_driver_keeps_nobody_out(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match="another run"), only_run(Storage(str(tmp_path))):
            pytest.fail("two runs in one folder")
        driver.kill()
        driver.wait()
        with only_run(Storage(str(tmp_path))):
            pass


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"), only_run(Storage(str(tmp_path / "file" / "out"))):
        pytest.fail("no folder")
