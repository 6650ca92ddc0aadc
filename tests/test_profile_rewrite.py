"""Another profile on a finished run: the lines are written anew from the journal, and no engine is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.profiles import Loss, load_profile
from pipeline.schema import load_schema
from pipeline.validation import Valid, Validator
from tests.case_job import Job

pytestmark = pytest.mark.spark

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "born": {"type": ["string", "null"], "format": "date"},
        "number": {"type": "integer"},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"w": {"type": "number"}}}},
    },
    "required": ["name", "at", "born", "number", "parts"],
}
VALUES: list[dict[str, Any]] = [
    {
        "name": "Zoë 北京 \U0001f600",
        "at": "2026-01-02T03:04:05+08:00",
        "born": None,
        "number": 2**60,
        "parts": [{"w": 1.5}],
    },
    {"name": "nul \0 character", "at": "2026-01-02T03:04:05Z", "born": "1066-10-14", "number": -1, "parts": []},
]


def test_every_profile_is_written_from_the_journal_without_an_engine(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    schema = load_schema(SCHEMA)
    raws = [json.dumps(value) for value in VALUES]
    verdicts = [Validator(schema).validate(raw) for raw in raws]
    first = job.run(raws, schema=SCHEMA, script="case_scripts:answer_is_text")
    assert first["engine"]["loads"] > 0
    for name in ("java", "kettle:null=NULL", "java+ascii"):
        manifest = job.run(raws, schema=SCHEMA, script="case_scripts:answer_is_text", output={"profile": name})
        assert (manifest["engine"]["loads"], manifest["resumed_documents"]) == (0, 2)
        profile = load_profile(name, schema.json_schema)
        wanted = [
            profile.to_line(f"d{n}", "doc_id", verdict.value)
            for n, verdict in enumerate(verdicts)
            if isinstance(verdict, Valid)
        ]
        files = sorted((tmp_path / "out" / "records.jsonl").iterdir())
        lines = [line for file in files for line in file.read_text(encoding="utf-8").split("\n") if line]
        assert lines == [line for line in wanted if not isinstance(line, Loss)]
        losses = {f"d{n}": "PROFILE_LOSS" for n, line in enumerate(wanted) if isinstance(line, Loss)}
        assert job.rejects() == losses
        assert ("d1" in losses) is name.startswith("kettle")
