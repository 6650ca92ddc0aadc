"""Confidence through a whole run: asked of the engine, journaled, merged, written, shown; no part of a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.run import RunResult, run
from pipeline.schema import load_schema
from tests.scripts import PEOPLE_SCHEMA

pytestmark = pytest.mark.spark

TEXTS = {"sure": "Ann 31", "doubt": "Bo 7 doubt", "bad": "bad", "long": "Lena 44 " + "lorem ipsum dolor. " * 60}


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Any:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in TEXTS.items()))

    def call(**output: Any) -> RunResult:
        values = {
            "input": {"path": str(source)}, "output": {"path": str(tmp_path / "out"), **output},
            "engine": {"kind": "scripted", "script": "tests.scripts:unsure_people"},
            "chunking": {"max_tokens": 600, "overlap_tokens": 8},
        }  # fmt: skip
        return run(load_config(values), spark=spark, schema=load_schema(PEOPLE_SCHEMA))

    return call


def _confidence(tmp_path: Path) -> dict[str, dict[str, float] | None]:
    rows = pq.read_table(tmp_path / "out" / "records.parquet").to_pylist()
    return {
        row["doc_id"]: row["meta"]["confidence"] and {c["path"]: c["confidence"] for c in row["meta"]["confidence"]}
        for row in rows
    }


def test_each_value_has_the_probability_of_its_tokens(start: Any, tmp_path: Path) -> None:
    plain = start()
    assert set(_confidence(tmp_path).values()) == {None}
    result = start(confidence=True)
    assert result.manifest["hashes"] == plain.manifest["hashes"]
    assert result.manifest["resumed_documents"] == 1  # the reject; records lack what is asked for now
    found = _confidence(tmp_path)
    assert found["sure"] == {"/name": 1.0, "/age": 1.0}
    assert found["doubt"] == {"/name": pytest.approx(0.25), "/age": pytest.approx(0.5)}
    assert found["long"] == {"/name": 1.0, "/age": 1.0}
    assert "25%" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    again = start(confidence=True)
    assert again.manifest["engine"]["loads"] == 0
    assert start().manifest["engine"]["loads"] == 0
    assert set(_confidence(tmp_path).values()) == {None}
