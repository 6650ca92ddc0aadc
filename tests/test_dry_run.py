"""A dry run: work counted, a sample decoded by the run's own stage, the whole estimated, nothing written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.dry_run import dry_run
from pipeline.errors import EngineStartError
from pipeline.estimate import Estimate, Sample
from tests.scripts import PEOPLE_SCHEMA


def _rows(spark: SparkSession, folder: Path, *, script: str = "people", **options: Any) -> dict[str, str]:
    (folder / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    texts = [f"Ann{n} {n}" + (" bad" if n % 4 == 0 else " retry" if n % 4 == 1 else "") for n in range(100)]
    (folder / "in.jsonl").write_text(
        "".join(json.dumps({"id": f"d{n}", "text": t}) + "\n" for n, t in enumerate(texts))
    )
    config = load_config({
        "input": {"path": str(folder / "in.jsonl")}, "schema_spec": str(folder / "people.json"),
        "output": {"path": str(folder / "out")},
        "engine": {"kind": "scripted", "script": f"tests.scripts:{script}", "args": {"device": "dry"}},
    })  # fmt: skip
    lines = list(dry_run(config, spark=spark, **options))
    assert not (folder / "out").exists()
    return {line[:19].strip(): line[19:] for line in lines}


@pytest.mark.spark
def test_a_sample_goes_through_the_engine_and_the_whole_is_estimated(spark: SparkSession, tmp_path: Path) -> None:
    rows = _rows(spark, tmp_path, num_documents=40)
    assert rows["documents"] == "100"
    assert rows["left to do"].startswith("100 texts")
    assert rows["sampled"] == "40 documents, 40 texts"
    num_valid = int(rows["valid"].split()[0])
    assert 20 < num_valid < 40
    assert f"{num_valid} ({num_valid / 40:.0%})" in rows["valid"]
    assert f"{40 - num_valid} SCHEMA_MISMATCH" in rows["valid"]
    assert rows["all left: tokens"].startswith("about ")
    assert "on 1 engine" in rows["all left: time"]
    assert rows == _rows(spark, tmp_path, num_documents=40) | {name: rows[name] for name in rows if "time" in name}


@pytest.mark.spark
def test_without_a_sample_no_engine_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    rows = _rows(spark, tmp_path, script="unstartable", num_documents=0)
    assert rows["left to do"].startswith("100 texts")
    assert "sampled" not in rows
    with pytest.raises(EngineStartError, match="no memory"):
        _rows(spark, tmp_path, script="unstartable", num_documents=1)


def _outcome(json_text: str | None, *tokens: tuple[int, int]) -> dict[str, Any]:
    attempts = [{"prompt_tokens": prompt, "output_tokens": output} for prompt, output in tokens]
    return {"json": json_text, "reason": None if json_text else "TRUNCATED", "detail": "cut", "attempts": attempts}


def test_an_estimate_is_the_one_worked_out_by_hand() -> None:
    rows = [_outcome("{}", (110, 20)), _outcome("{}", (130, 20), (150, 20)), _outcome(None, (110, 40))]
    sample = Sample.of(rows, num_documents=2, num_tokens=50, busy_s=6.0, load_s=9.0)
    assert (sample.num_texts, sample.num_valid, sample.num_valid_at_once, sample.num_attempts) == (3, 2, 1, 4)
    assert sample.reasons == Counter(TRUNCATED=1)
    estimate = Estimate.of(sample, num_texts=3_000_000, num_tokens=50_000_000, num_fixed_tokens=100, num_engines=4)
    # (500 - 4 * 100) / 50 = 2 tokens for each estimated one; 4 / 3 attempts a text with 100 fixed tokens each
    assert estimate.prompt_tokens == 2 * 50_000_000 + 400_000_000
    assert estimate.output_tokens == 100_000_000
    assert estimate.hours == pytest.approx(2 * 3_000_000 / 4 / 3600)
    assert "500.0 million prompt, 100.0 million output" in next(estimate.lines())
