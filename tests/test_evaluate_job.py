"""The evaluation job: files in, figures out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from jobs.evaluate import main
from pipeline.schema import load_schema, to_arrow_value
from pipeline.writers import REJECT_SCHEMA, record_schema

SCHEMA = load_schema("schemas.orders:CustomerOrders")
RIGHT = {
    "user_id": "U-1",
    "order_count": 1,
    "orders": [{"order_id": "A|1", "amount": 5.5, "timestamp": "2026-01-04T09:12:40Z"}],
    "address": {"city": "Bonn", "street": "Weg 1"},
}
WRONG = RIGHT | {"address": {"city": "Köln", "street": "Weg 1"}}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def write_run(
    folder: Path,
    records: dict[str, Any],
    *,
    lines: bool,
    profile: str = "spark",
    confidence: dict[str, float] | None = None,
) -> str:
    rows = [{"path": path, "confidence": value} for path, value in (confidence or {}).items()]
    meta = {"key": "k", "model": "m", "num_chunks": 1, "attempts": 1, "confidence": rows or None}
    table = [{"doc_id": i, "record": to_arrow_value(SCHEMA, value), "meta": meta} for i, value in records.items()]
    (folder / "records.parquet").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(table, schema=record_schema(SCHEMA)), folder / "records.parquet/part-0.parquet")
    (folder / "rejects.parquet").mkdir()
    reject = pa.Table.from_pylist([{"doc_id": "d3", "reason": "TOO_LONG", "detail": ""}], schema=REJECT_SCHEMA)
    pq.write_table(reject, folder / "rejects.parquet/part-0.parquet")
    if lines:
        (folder / "records.jsonl").mkdir()
        write_lines(folder / "records.jsonl/part-0.jsonl", [{"doc_id": i, **value} for i, value in records.items()])
    settings = {"output": {"id_field": "doc_id", "profile": profile}}
    (folder / "manifest.json").write_text(json.dumps({"settings": settings}))
    return str(folder)


def gold(folder: Path) -> str:
    return write_lines(folder / "gold.jsonl", [{"id": f"d{i}", "text": "t", "gold": RIGHT} for i in (1, 2, 3)])


def test_a_run_is_scored_and_compared(tmp_path: Path) -> None:
    new = write_run(tmp_path / "new", {"d1": RIGHT, "d2": RIGHT}, lines=True)
    old = write_run(tmp_path / "old", {"d1": RIGHT, "d2": WRONG}, lines=False)
    args = [new, "--against", old, "--gold", gold(tmp_path), "--schema", "schemas.orders:CustomerOrders"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "new/evaluation.json").read_text())
    assert figures["documents"] == 3
    assert figures["reject_rate"] == 1 / 3
    assert figures["rejects_by_reason"] == {"TOO_LONG": 1}
    assert figures["records_against_schema"] == 0
    assert figures["fields"]["/address/city"]["exact"] == {
        "tp": 2,
        "fp": 0,
        "fn": 1,
        "precision": 1,
        "recall": 2 / 3,
        "f1": 0.8,
    }
    assert figures["headline"]["record_exact_match"]["value"] == 2 / 3
    assert figures["comparison"]["differences"]["record_match"]["value"] == 2 / 3 - 1 / 3
    assert figures["comparison"]["num_better"] == 1
    assert "B minus A" in (tmp_path / "new/evaluation.html").read_text(encoding="utf-8")
    page = (tmp_path / "new/evaluation.md").read_text(encoding="utf-8")
    assert "| `/address/city` | 3 | 1.000 | 0.667 | 0.800 | 0.800 |" in page
    assert "B minus A" in page
    assert "A\\|1" in page


def test_a_run_with_confidence_gets_a_reliability_table(tmp_path: Path) -> None:
    confidence = {"/user_id": 0.95, "/address/city": 0.65, "/nowhere": 0.1}
    run = write_run(tmp_path / "run", {"d1": RIGHT, "d2": WRONG}, lines=True, confidence=confidence)
    result = CliRunner().invoke(main, [run, "--gold", gold(tmp_path)])
    assert result.exit_code == 0, result.output
    # four values: two of 0.95, both right; two of 0.65, one right: (2 * 0.05 + 2 * 0.15) / 4
    assert "Expected calibration error 0.100" in result.output
    assert "| 0.6 to 0.7 | 2 | 0.650 | 0.500 |" in (tmp_path / "run/evaluation.md").read_text(encoding="utf-8")
    found = json.loads((tmp_path / "run/evaluation.json").read_text())["calibration"]
    assert [(b["count"], b["accuracy"]) for b in found["bins"]] == [(2, 0.5), (2, 1.0)]
    assert "expected calibration error 0.100" in (tmp_path / "run/evaluation.html").read_text(encoding="utf-8")


def test_values_come_from_parquet_where_a_profile_changed_the_lines(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"d1": RIGHT}, lines=True, profile="kettle")
    result = CliRunner().invoke(main, [run, "--gold", gold(tmp_path), "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "out/evaluation.json").read_text())
    assert figures["fields"]["/orders/*/timestamp"]["normalised"]["tp"] == 1
    assert figures["missing_documents"] == 1


def test_a_file_of_records_is_scored_too(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "mine.jsonl", [{"doc_id": "d1", **RIGHT}, {"doc_id": "zz", **RIGHT}])
    result = CliRunner().invoke(main, [lines, "--gold", gold(tmp_path)])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "evaluation.json").read_text())["documents_without_gold"] == 1


def test_what_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    good = gold(tmp_path)
    (tmp_path / "bad.jsonl").write_text('{"id": 1}\n')
    for args, words in (
        ([str(tmp_path), "--gold", good], "no finished run"),
        ([good, "--gold", str(tmp_path / "none.jsonl")], "cannot read"),
        ([good, "--gold", str(tmp_path / "bad.jsonl")], "bad.jsonl:1 has no gold"),
        ([good, "--gold", good, "--schema", "nowhere:Class"], "nowhere"),
        (["s3://bucket/run", "--gold", good], "--output"),
    ):
        result = CliRunner().invoke(main, args)
        assert result.exit_code == 2
        assert words in result.output
        assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("golds", "message"),
    [
        ([{"id": "d1", "gold": RIGHT}, {"id": "d1", "gold": WRONG}], "two lines for 'd1'"),
        ([{"id": "d1", "gold": "Bonn"}], "gold of 'd1' is no object"),
        ([{"id": "elsewhere", "gold": RIGHT}], "no document of"),
    ],
)
def test_gold_that_would_score_silently_wrong_is_refused(
    tmp_path: Path, golds: list[dict[str, Any]], message: str
) -> None:
    records = write_lines(tmp_path / "records.jsonl", [{"doc_id": "d1", **RIGHT}])
    result = CliRunner().invoke(main, [records, "--gold", write_lines(tmp_path / "gold.jsonl", golds)])
    assert (result.exit_code, message in result.stderr) == (2, True)
