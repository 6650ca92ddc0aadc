"""Many documents through the scripted engine: throughput, memory of the driver, number of files, planning of a resume.

``EXTRACT_SCALE_DOCUMENTS=1000000 pytest tests/test_scale.py -s`` is the measurement; by default it is a small run that
checks what does not depend on the machine.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.writers import num_files
from tests.processes import command_of, cpu_s, descendants, resident_mb
from tests.scripts import PEOPLE_SCHEMA

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
NUM_DOCUMENTS = int(os.environ.get("EXTRACT_SCALE_DOCUMENTS", "20000"))


def _write_documents(path: Path) -> None:
    """About 1 KB each, all different."""
    rng = random.Random(0)
    words = ["".join(rng.choices("ehilmnorstu", k=rng.randint(3, 9))) for _ in range(2000)]
    tails = [" ".join(rng.choices(words, k=140)) for _ in range(5000)]
    with path.open("w") as stream:
        for number in range(NUM_DOCUMENTS):
            text = f"Ann{number} {number} {tails[number % len(tails)]}"
            stream.write(f'{{"id": "d{number}", "text": "{text}"}}\n')


@dataclass
class Usage:
    """Memory of the driver's two processes over time (seconds, Python MB, JVM MB), and CPU seconds by kind."""

    memory_mb: list[tuple[float, float, float]] = field(default_factory=list)
    cpu: dict[tuple[str, int], float] = field(default_factory=dict)
    machine_s: float = 0.0

    def sample(self, root: int, at_s: float) -> None:
        jvm_mb = 0.0
        for pid in (root, *descendants(root)):
            command = command_of(pid)
            kind = "driver" if pid == root else "jvm" if "java" in command.partition(" ")[0] else "workers"
            jvm_mb += resident_mb(pid) if kind == "jvm" else 0.0
            self.cpu[kind, pid] = max(self.cpu.get((kind, pid), 0.0), cpu_s(pid))
        self.memory_mb.append((at_s, resident_mb(root), jvm_mb))

    def cpu_s(self) -> dict[str, int]:
        return {
            kind: round(sum(seconds for (found, _), seconds in self.cpu.items() if found == kind))
            for kind in ("driver", "jvm", "workers")
        }


def _machine_s() -> float:
    """CPU seconds of all processes so far: others slow a measurement down."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def _run(folder: Path) -> tuple[float, Usage]:
    """Seconds, and what was used, looked at every second."""
    command = [
        sys.executable, str(ROOT / "jobs" / "extract.py"), "--config", str(folder / "run.yaml"), "--input",
        str(folder / "in.jsonl"), "--schema", str(folder / "people.json"), "--output", str(folder / "out"),
    ]  # fmt: skip
    usage, before_s = Usage(), _machine_s()
    started = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        stop = threading.Event()

        def sample() -> None:
            while not stop.wait(1.0):
                usage.sample(process.pid, time.monotonic() - started)

        thread = threading.Thread(target=sample)
        thread.start()
        code = process.wait()
        stop.set()
        thread.join()
    usage.machine_s = _machine_s() - before_s
    assert code == 0, (folder / "log").read_text()
    return time.monotonic() - started, usage


def test_many_documents_need_few_files_and_little_memory(tmp_path: Path) -> None:
    _write_documents(tmp_path / "in.jsonl")
    (tmp_path / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    engine = {"kind": "scripted", "script": "tests.scripts:people", "max_in_flight": 64}
    speed = {"tokens_per_s": 20_000}  # of this engine, so that a task is long beside what it takes to start one
    (tmp_path / "run.yaml").write_text(json.dumps({"engine": engine, "partition": speed}))
    seconds, usage = _run(tmp_path)
    out = tmp_path / "out"
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["records"] == manifest["documents"] == NUM_DOCUMENTS
    journal = sorted((out / "_journal" / "outcomes").iterdir())
    num_tasks = len(list((out / "_journal" / "progress").iterdir()))
    assert len(journal) <= num_tasks + 4 * seconds
    num_parts = len(list((out / "records.parquet").iterdir()))
    assert num_parts == num_files(NUM_DOCUMENTS) <= 8 + NUM_DOCUMENTS // 50_000
    driver_mb = [driver for _, driver, _ in usage.memory_mb]
    assert max(driver_mb) < 400, "the driver's Python must hold no documents"
    rate = NUM_DOCUMENTS / manifest["timings_s"]["total"]
    print(f"\n{NUM_DOCUMENTS} documents in {seconds:.0f} s, {rate:.0f} documents/s, stages {_stages(manifest)}")
    print(f"CPU seconds {usage.cpu_s()} of {usage.machine_s:.0f} that the machine spent")
    print(f"{len(journal)} journal files of {num_tasks} tasks, {num_parts} parts")
    step = max(1, len(usage.memory_mb) // 20)
    print(
        "driver's Python + JVM in MB at s:",
        ", ".join(f"{t:.0f}: {d:.0f}+{j:.0f}" for t, d, j in usage.memory_mb[::step]),
    )

    for file in journal[::2]:
        file.unlink()
    left = NUM_DOCUMENTS - sum(pq.read_metadata(file).num_rows for file in journal[1::2])
    seconds, _ = _run(tmp_path)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["records"] == NUM_DOCUMENTS
    assert manifest["resumed_documents"] == NUM_DOCUMENTS - left
    planning_s = manifest["timings_s"]["plan"] + manifest["timings_s"]["compare"]
    print(f"resumed with {left} left: planning {planning_s:.0f} s of {seconds:.0f} s, stages {_stages(manifest)}")
    assert planning_s < 60


def _stages(manifest: dict[str, Any]) -> dict[str, float]:
    return {name: round(seconds, 1) for name, seconds in manifest["timings_s"].items()}
