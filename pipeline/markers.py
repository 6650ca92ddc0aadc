"""Markers of work handed to an engine, so that a document that kills engines is found and kept from them.

A worker writes the keys of a group of chunks *before* it submits any of them, and removes the marker when all of the
group have an outcome. A marker that a failed task attempt left behind names the suspects of that failure. Suspects run
last and alone; one that ends its worker when it ran alone, after an earlier failure, is rejected instead of run again.

Only failures that a living driver saw are counted: a killed driver says nothing about documents. With speculative
execution two attempts of one task live at the same time, so attempts do not judge each other's markers then; the
driver still does when a job has failed.

On paper, 1,000 GPUs at 100 documents/s write and delete 3,000 markers a second (32 texts each), which HDFS takes and
one prefix of an object store just about does not: put ``--output`` of such a run on a file system, or lower the rate
with :data:`pipeline.udf.extract.GROUP_SIZE`. Larger groups mean more suspects, each of which runs alone once after a
failure, so a group is no larger than what an engine has in flight.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pipeline.storage import Storage

FOLDER = "started"
SUSPECTS = "suspects.json"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How many failures a chunk was part of, and how many of them it met alone."""

    num_failures: int = 0
    num_alone: int = 0

    @property
    def is_guilty(self) -> bool:
        return self.num_failures >= 2 and self.num_alone >= 1

    def __add__(self, other: Suspicion) -> Suspicion:
        return Suspicion(self.num_failures + other.num_failures, self.num_alone + other.num_alone)


class Marker:
    """The markers of one task attempt, at most ``group_size`` keys a file."""

    def __init__(self, storage: Storage, *, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self._open: dict[int, set[str]] = {}
        self._group_of: dict[str, int] = {}
        self._num_groups = 0
        self._deleting = None if storage.is_local else ThreadPoolExecutor(1)  # at a store a deletion takes its time

    def start(self, keys: Iterable[str], *, alone: bool = False) -> None:
        """Write the marker of a group; must come before its first submission."""
        group, self._num_groups = self._num_groups, self._num_groups + 1
        self._open[group] = set(keys)
        self._group_of.update((key, group) for key in self._open[group])
        text = json.dumps({"keys": sorted(self._open[group]), "alone": alone})
        self._storage.write(self._path(group), text.encode(), durable=False)

    def finish(self, key: str) -> None:
        """A chunk has its outcome; the marker goes when its group is done."""
        group = self._group_of.pop(key, None)
        if group is None:
            return
        waiting = self._open[group]
        waiting.discard(key)
        if not waiting:
            del self._open[group]
            if self._deleting is None:
                self._storage.delete(self._path(group))
            else:
                self._deleting.submit(self._storage.delete, self._path(group))

    def close(self) -> None:
        """Wait for deletions; groups that are not done keep their markers."""
        if self._deleting is not None:
            self._deleting.shutdown()

    def _path(self, group: int) -> str:
        return f"{FOLDER}/{self._prefix}-{group:06d}.json"


def read_markers(storage: Storage, *, prefix: str = "") -> dict[str, Suspicion]:
    """Suspects by key from the markers left by attempts whose names begin with ``prefix``."""
    found: dict[str, Suspicion] = {}
    for file in storage.files(FOLDER):
        data = storage.read(file.path) if file.name.startswith(prefix) else None
        if data is not None:
            marker = json.loads(data)
            for key in marker["keys"]:
                found[key] = found.get(key, Suspicion()) + Suspicion(1, int(marker["alone"]))
    return found


def load_suspects(storage: Storage) -> dict[str, Suspicion]:
    """Suspects that the driver wrote down after earlier failures."""
    data = storage.read(SUSPECTS)
    return {key: Suspicion(*counts) for key, counts in json.loads(data).items()} if data else {}


def save_suspects(storage: Storage, suspects: Mapping[str, Suspicion]) -> None:
    """Write them down and drop the markers they came from, in this order."""
    counts = {key: (s.num_failures, s.num_alone) for key, s in sorted(suspects.items())}
    storage.write(SUSPECTS, json.dumps(counts).encode())
    storage.delete(FOLDER)


def combine(*sources: Mapping[str, Suspicion]) -> dict[str, Suspicion]:
    """Sum of several sources."""
    total: dict[str, Suspicion] = {}
    for source in sources:
        for key, suspicion in source.items():
            total[key] = total.get(key, Suspicion()) + suspicion
    return total
