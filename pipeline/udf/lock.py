"""One engine per device on a host: a lock that its holder keeps while busy and gives away when idle and asked for."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import ConfigError

logger = logging.getLogger(__name__)

_POLL_S = 0.1


class DeviceLock:
    """A lock between processes, released by the system when its holder dies.

    The lock file tells who holds it and for which task attempt. Waiters hold a shared lock on a second file, so that
    an idle holder sees that somebody waits.
    """

    def __init__(self, device: str, *, folder: Path | None = None) -> None:
        base = _folder(folder)
        name = "".join(c if c.isalnum() else "-" for c in device)
        self._path = base / f"engine-{name}.lock"
        self._waiters = base / f"engine-{name}.waiters"
        self._fd: int | None = None

    @property
    def is_held(self) -> bool:
        return self._fd is not None

    def acquire(self, *, attempt: str, sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait until the device is free and take it for ``attempt``; one that is held already is only relabelled.

        Raises:
            ConfigError: the device is busy with the same task attempt, which would wait for itself for ever.
        """
        if self._fd is not None:
            self.label(attempt)
            return
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _try_lock(fd):
                self._wait(fd, attempt, sleep)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        self.label(attempt)

    def label(self, attempt: str) -> None:
        """Say for which task attempt the device works; "" says that it is idle."""
        assert self._fd is not None, "the lock is not held"
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps({"pid": os.getpid(), "attempt": attempt}).encode(), 0)

    def is_wanted(self) -> bool:
        """Whether another process waits."""
        fd = os.open(self._waiters, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            return not _try_lock(fd)
        finally:
            os.close(fd)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _wait(self, fd: int, attempt: str, sleep: Callable[[float], None]) -> None:
        waiting = os.open(self._waiters, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(waiting, fcntl.LOCK_SH)
            told = False
            while not _try_lock(fd):
                holder = self._holder()
                if attempt and holder.get("attempt") == attempt:
                    raise ConfigError(
                        "two extractions in one query plan would wait for each other's engine",
                        hint="write the first result before the second starts, or use pipeline.extract twice",
                    )
                if not told:
                    logger.info("waiting for the engine of process %s", holder.get("pid", "?"))
                    told = True
                sleep(_POLL_S)
        finally:
            os.close(waiting)

    def _holder(self) -> dict[str, object]:
        try:
            loaded = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return loaded if isinstance(loaded, dict) else {}


@contextmanager
def load_place(*, num_places: int = 2, folder: Path | None = None) -> Iterator[None]:
    """One of a host's places to load an engine in, for the length of the block.

    Eight processes that read weights and capture graphs at the same time fight for disk, memory and cores; two at a
    time are done sooner, and the first engine works while the last one loads.
    """
    paths = [_folder(folder) / f"load-{number}.lock" for number in range(num_places)]
    fds = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in paths]
    try:
        while not any(_try_lock(fd) for fd in fds):
            time.sleep(_POLL_S)
        yield
    finally:
        for fd in fds:
            os.close(fd)


def _folder(folder: Path | None) -> Path:
    base = folder or Path(tempfile.gettempdir()) / f"spark-extract-{os.getuid()}"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    return base


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
