"""Processes of this machine by what they are to one another; Linux only, as the tests that kill are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path


def descendants(root: int) -> set[int]:
    """Processes that ``root`` started, and those that they started."""
    children: dict[int, list[int]] = {}
    for pid in _all():
        children.setdefault(_parent(pid), []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        new = [child for child in children.get(waiting.pop(), []) if child not in found]
        found.update(new)
        waiting.extend(new)
    return found


def python_workers(root: int) -> list[int]:
    """Spark's Python workers below ``root``: what its daemons have forked."""
    below = descendants(root)
    return sorted(pid for pid in below if "pyspark.daemon" in command_of(_parent(pid)) and _parent(pid) in below)


def executors(root: int) -> list[int]:
    """JVMs below ``root`` that run tasks of a standalone cluster."""
    return sorted(pid for pid in descendants(root) if "CoarseGrainedExecutorBackend" in command_of(pid))


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def resident_mb(pid: int) -> float:
    """Memory in use; 0 for a process that has gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, IndexError):
        return 0.0


def cpu_s(pid: int) -> float:
    """Seconds of CPU time so far; 0 for a process that has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def kill(pid: int) -> bool:
    """``kill -9``; False where the process has gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _all() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0
