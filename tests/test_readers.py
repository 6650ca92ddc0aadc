"""Readers on a real local Spark: formats, limits, faults of a whole source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import sources
from pipeline.config import InputConfig
from pipeline.errors import ConfigError, InputError
from pipeline.readers import documents_of, read_documents

pytestmark = pytest.mark.spark


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [(row["doc_id"], row["text"], row["reason"]) for row in frame.orderBy("position").collect()]


def test_a_large_file_is_split_and_keeps_order_and_line_numbers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SPLIT_BYTES", 1000)
    path = tmp_path / "in.jsonl"
    lines = [json.dumps({"id": f"d{n}", "text": "x" * (n % 40)}) if n != 70 else "{broken" for n in range(100)]
    path.write_text("\n".join(lines))
    rows = _rows(read_documents(spark, InputConfig(path=str(path))))
    assert [row[0] for row in rows] == [f"d{n}" if n != 70 else "in.jsonl:71" for n in range(100)]
    limited = _rows(read_documents(spark, InputConfig(path=str(path), limit=7)))
    assert [row[0] for row in limited] == [f"d{n}" for n in range(7)]


def test_parquet_and_tables_give_bytes_that_are_no_text_a_reason(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "select * from values (1, 'fine'), (2, cast(X'636166E9' as string)), (3, null), (null, 'no id') as t(nr, body)"
    ).coalesce(1)
    config = InputConfig(id_column="nr", text_column="body")
    expected = [
        ("1", "fine", None), ("2", None, "UNDECODABLE_INPUT"), ("3", None, None),
        ("row:3", None, "UNDECODABLE_INPUT"),
    ]  # fmt: skip
    frame.write.parquet(str(tmp_path / "docs.parquet"))
    frame.createOrReplaceTempView("some_documents")
    assert _rows(documents_of(frame, config)) == expected
    parquet = config.model_copy(update={"path": str(tmp_path / "docs.parquet")})
    assert _rows(read_documents(spark, parquet)) == expected
    assert _rows(read_documents(spark, config.model_copy(update={"path": "some_documents"}))) == expected
    assert len(_rows(read_documents(spark, parquet.model_copy(update={"limit": 2})))) == 2


def test_csv_and_text_folders_are_told_by_their_suffix(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text('id,text\n1,"two\nlines"\n')
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "b.txt").write_text("Dear all")
    (tmp_path / "letters" / "a.txt").write_text("Hello")
    assert _rows(read_documents(spark, InputConfig(path=str(tmp_path / "csv")))) == [("1", "two\nlines", None)]
    letters = read_documents(spark, InputConfig(path=str(tmp_path / "letters")))
    assert _rows(letters) == [("a.txt", "Hello", None), ("b.txt", "Dear all", None)]


def test_what_is_wrong_with_a_source_is_said_on_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    (tmp_path / "x.dat").write_text("?")
    (tmp_path / "x.jsonl").write_text('{"id": "a", "body": "x"}')
    numbers = spark.range(3).selectExpr("id", "id as text")
    for error, config in [
        (ConfigError, InputConfig()),
        (InputError, InputConfig(path="no_such_table")),
        (InputError, InputConfig(path=str(tmp_path / "gone"), format="text")),
        (InputError, InputConfig(path=str(tmp_path / "x.parquet"))),
        (ConfigError, InputConfig(path=str(tmp_path / "x.dat"))),
        (ConfigError, InputConfig(path=str(tmp_path / "x.jsonl"))),
    ]:
        with pytest.raises(error):
            read_documents(spark, config)
    with pytest.raises(InputError, match="is bigint, expected string or binary"):
        documents_of(numbers, InputConfig())
    with pytest.raises(ConfigError, match="no column names the documents; the columns are text"):
        documents_of(numbers.select("text"), InputConfig())
