"""A kill trial: documents, settings, what an undisturbed run gives, and the check of a disturbed one."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.scripts import LOGGED_DELAY_S, PEOPLE_SCHEMA

NUM_DOCUMENTS = 300
FLUSH_INTERVAL_S = 0.2
IN_FLIGHT = 4
MAX_LOST = int(FLUSH_INTERVAL_S / LOGGED_DELAY_S) + IN_FLIGHT + 1
"""Requests that a killed worker can lose: those of one flush interval, and those in the engine."""


@dataclass(frozen=True)
class Results:
    """What must not depend on kills: lines byte for byte, rows without times."""

    lines: bytes
    records: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    num_submitted: int


@dataclass(frozen=True)
class Trial:
    """Runs in ``folder``; the engine logs every request in ``submitted`` there."""

    folder: Path

    @property
    def output(self) -> Path:
        return self.folder / "out"

    @property
    def journal(self) -> Path:
        return self.output / "_journal"

    @property
    def settings(self) -> dict[str, Any]:
        """For :func:`pipeline.config.load_config`."""
        return {
            "input": {"path": str(self.folder / "in.jsonl")},
            "output": {"path": str(self.output), "report": False},
            "schema_spec": str(self.folder / "people.json"),
            "engine": {"kind": "scripted", "script": "tests.scripts:logged_people", "max_in_flight": IN_FLIGHT},
            "journal": {"flush_outcomes": 20, "flush_interval_s": FLUSH_INTERVAL_S},
            "quiet": True,
        }

    def prepare(self) -> None:
        """Write the documents and the settings; some documents are rejects."""
        log = self.folder / "submitted"
        texts = {f"d{n:04d}": f"{log} Ann{n} {n}" + (" bad" if n % 40 == 0 else "") for n in range(NUM_DOCUMENTS)}
        lines = [json.dumps({"id": name, "text": text}) for name, text in texts.items()]
        (self.folder / "in.jsonl").write_text("\n".join(lines))
        (self.folder / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
        (self.folder / "run.yaml").write_text(json.dumps(self.settings))

    def reset(self) -> None:
        """Before a trial: no output, no request seen."""
        shutil.rmtree(self.output, ignore_errors=True)
        (self.folder / "submitted").write_bytes(b"")

    def results(self) -> Results:
        lines = b"".join(path.read_bytes() for path in sorted((self.output / "records.jsonl").iterdir()))
        records = pq.read_table(self.output / "records.parquet").to_pylist()
        rejects = pq.read_table(self.output / "rejects.parquet").to_pylist()
        for row in [*records, *rejects]:
            del row["meta"]["latency_ms"]
            row.pop("attempts", None)  # their latencies are in it
        return Results(lines, records, rejects, (self.folder / "submitted").read_bytes().count(b"\n"))

    def check(self, undisturbed: Results, *, num_workers_lost: int) -> int:
        """Compare with the undisturbed run; returns the number of requests that were made in vain."""
        found = self.results()
        assert len(found.records) + len(found.rejects) == NUM_DOCUMENTS
        assert found.lines == undisturbed.lines
        assert found.records == undisturbed.records
        assert found.rejects == undisturbed.rejects
        manifest = json.loads((self.output / "manifest.json").read_text())
        assert (manifest["documents"], manifest["rejects"]) == (NUM_DOCUMENTS, len(found.rejects))
        num_lost = found.num_submitted - undisturbed.num_submitted
        assert 0 <= num_lost <= num_workers_lost * MAX_LOST
        return num_lost
