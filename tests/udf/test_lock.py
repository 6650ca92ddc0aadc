"""One engine per device: real processes that want the same lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.udf.lock import DeviceLock, load_place

HOLD = """
import sys, time
from pathlib import Path
from pipeline.udf.lock import DeviceLock
lock = DeviceLock("cpu", folder=Path(sys.argv[1]))
lock.acquire(attempt=sys.argv[2])
print("held", flush=True)
time.sleep(float(sys.argv[3]))
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock for task attempt "7" until it is killed."""
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), "7", "60"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_device_is_free_as_soon_as_its_holder_is_killed(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    lock = DeviceLock("cpu", folder=tmp_path)
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            holder.kill()
            holder.wait()
        time.sleep(0.01)

    lock.acquire(attempt="8", sleep=sleep)
    assert lock.is_held
    assert len(waits) >= 3
    lock.release()


def test_a_second_extraction_of_the_same_task_is_told_instead_of_waiting_for_ever(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(ConfigError, match="two extractions in one query plan"):
        DeviceLock("cpu", folder=tmp_path).acquire(attempt="7")


def test_an_idle_holder_sees_that_somebody_waits(tmp_path: Path) -> None:
    lock = DeviceLock("cpu", folder=tmp_path)
    lock.acquire(attempt="1")
    assert not lock.is_wanted()
    other = DeviceLock("cpu", folder=tmp_path)
    seen = []

    def sleep(seconds: float) -> None:
        seen.append(lock.is_wanted())
        lock.release()

    other.acquire(attempt="2", sleep=sleep)
    assert seen == [True]
    assert not other.is_wanted()
    other.release()


def test_devices_do_not_share_a_lock(tmp_path: Path) -> None:
    first, second = DeviceLock("0", folder=tmp_path), DeviceLock("1", folder=tmp_path)
    first.acquire(attempt="1")
    second.acquire(attempt="1")
    assert (first.is_held, second.is_held) == (True, True)
    first.acquire(attempt="3")  # relabelled, not taken twice
    first.release()
    assert (first.is_held, second.is_held) == (False, True)
    second.release()


def test_two_engines_of_a_host_load_at_a_time_and_all_get_their_turn(tmp_path: Path) -> None:
    loading: list[int] = []
    seen: list[int] = []

    def load() -> None:
        with load_place(folder=tmp_path):
            loading.append(1)
            seen.append(len(loading))
            time.sleep(0.15)
            loading.pop()

    threads = [threading.Thread(target=load) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(seen) == 5
    assert max(seen) == 2
