"""Many documents through the scripted engine: throughput, memory of the driver, number of files, planning of a resume.

``EXTRACT_SCALE_DOCUMENTS=1000000 pytest tests/test_scale.py -s`` is the measurement; by default it is a small run that
checks what does not depend on the machine.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.run import DOCUMENTS_PER_FILE
from tests.scripts import PEOPLE_SCHEMA

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
NUM_DOCUMENTS = int(os.environ.get("EXTRACT_SCALE_DOCUMENTS", "20000"))


def _write_documents(path: Path) -> None:
    """About 1 KB each, all different."""
    rng = random.Random(0)
    words = ["".join(rng.choices("ehilmnorstu", k=rng.randint(3, 9))) for _ in range(2000)]
    with path.open("w") as stream:
        for number in range(NUM_DOCUMENTS):
            text = f"Ann{number} {number} " + " ".join(rng.choices(words, k=140))
            stream.write(f'{{"id": "d{number}", "text": "{text}"}}\n')


def _tree_mb(root: int) -> dict[str, float]:
    """Resident memory in MB of the driver's Python and of its JVM."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
            parent = int(re.findall(r"^PPid:\s+(\d+)", status, re.MULTILINE)[0])
            rss_mb = int((re.findall(r"^VmRSS:\s+(\d+)", status, re.MULTILINE) or ["0"])[0]) / 1024
        except (OSError, IndexError):
            continue
        if int(folder.name) == root:
            found["driver"] = rss_mb
        elif parent == root and "Name:\tjava" in status:
            found["jvm"] = rss_mb
    return found


def _run(folder: Path) -> tuple[float, list[tuple[float, dict[str, float]]]]:
    """Seconds, and the memory every two seconds."""
    command = [
        sys.executable, str(ROOT / "jobs" / "extract.py"), "--config", str(folder / "run.yaml"), "--input",
        str(folder / "in.jsonl"), "--schema", str(folder / "people.json"), "--output", str(folder / "out"),
    ]  # fmt: skip
    samples: list[tuple[float, dict[str, float]]] = []
    started = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        stop = threading.Event()

        def sample() -> None:
            while not stop.wait(2.0):
                samples.append((time.monotonic() - started, _tree_mb(process.pid)))

        thread = threading.Thread(target=sample)
        thread.start()
        code = process.wait()
        stop.set()
        thread.join()
    assert code == 0, (folder / "log").read_text()
    return time.monotonic() - started, samples


def test_many_documents_need_few_files_and_little_memory(tmp_path: Path) -> None:
    _write_documents(tmp_path / "in.jsonl")
    (tmp_path / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    engine = {"kind": "scripted", "script": "tests.scripts:people", "max_in_flight": 64}
    (tmp_path / "run.yaml").write_text(json.dumps({"engine": engine}))
    seconds, samples = _run(tmp_path)
    out = tmp_path / "out"
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["records"] == manifest["documents"] == NUM_DOCUMENTS
    journal = sorted((out / "_journal" / "outcomes").iterdir())
    assert len(journal) <= 4 * seconds + 4
    assert len(list((out / "records.parquet").iterdir())) == -(-NUM_DOCUMENTS // DOCUMENTS_PER_FILE)
    driver = [memory["driver"] for _, memory in samples if "driver" in memory]
    assert max(driver) < 400, "the driver's Python must hold no documents"
    rate = NUM_DOCUMENTS / manifest["timings_s"]["total"]
    print(f"\n{NUM_DOCUMENTS} documents, {seconds:.0f} s, {rate:.0f} documents/s, stages {manifest['timings_s']}")
    print(
        "memory in MB at s:",
        ", ".join(f"{at:.0f}: {m.get('driver', 0):.0f}+{m.get('jvm', 0):.0f}" for at, m in samples),
    )

    for file in journal[::2]:
        file.unlink()
    left = NUM_DOCUMENTS - sum(pq.read_metadata(file).num_rows for file in journal[1::2])
    seconds, _ = _run(tmp_path)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["records"] == NUM_DOCUMENTS
    assert manifest["resumed_documents"] == NUM_DOCUMENTS - left
    planning_s = manifest["timings_s"]["plan"] + manifest["timings_s"]["compare"]
    print(f"resumed with {left} left: planning {planning_s:.0f} s of {seconds:.0f} s, {manifest['timings_s']}")
