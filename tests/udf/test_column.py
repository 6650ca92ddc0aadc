"""Extraction as a column and from SQL, on a real local Spark with the scripted engine."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pipeline
from pipeline.config import RunConfig, load_config
from pipeline.errors import ConfigError
from pipeline.udf import extract_udf
from tests.scripts import PEOPLE_SCHEMA

pytestmark = pytest.mark.spark

BORN = date(1066, 10, 14)
SCHEMA: dict[str, Any] = PEOPLE_SCHEMA | {
    "properties": {
        **PEOPLE_SCHEMA["properties"],
        "born": {"type": ["string", "null"], "format": "date"},
        "marks": {"type": "array", "items": {"type": ["integer", "null"]}},
    }
}


@pytest.fixture
def config() -> RunConfig:
    return load_config({"engine": {"kind": "scripted", "script": "tests.scripts:shuffled_people"}})


@pytest.fixture
def documents(spark: SparkSession) -> DataFrame:
    rows = [(f"d{i}", f"Ann{i} {i}") for i in range(50)]
    rows[3], rows[7] = ("d3", None), ("d7", "bad")  # type: ignore[assignment]
    return spark.createDataFrame(rows, "id string, text string").repartition(2)


def test_rows_keep_their_order_and_types(documents: DataFrame, config: RunConfig) -> None:
    frame = documents.select("id", extract_udf(SCHEMA, config=config)("text").alias("r"))
    rows = {row["id"]: row["r"] for row in frame.collect()}
    assert rows["d3"].record is None
    assert rows["d3"].error.reason == "EMPTY_INPUT"
    assert rows["d7"].error.reason == "SCHEMA_MISMATCH"
    good = {doc_id: row for doc_id, row in rows.items() if row.error is None}
    assert len(good) == 48
    assert all(row.record.name == f"Ann{doc_id[1:]}" for doc_id, row in good.items())
    assert rows["d9"].record.asDict() == {"name": "Ann9", "age": 9, "born": BORN, "marks": [2**60 + 1, None]}
    assert rows["d9"].meta.attempts == 1
    assert [span.kind for span in rows["d9"].meta.spans] == ["exact", "exact", "none", "none"]


def test_batches_smaller_than_what_is_in_flight_keep_order(
    spark: SparkSession, documents: DataFrame, config: RunConfig
) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")
    try:
        name = extract_udf(SCHEMA, config=config)("text")["record"]["name"]
        frame = documents.repartition(1).select("id", name.alias("n"))
        rows = frame.where("n is not null").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert len(rows) == 48
    assert all(row["n"] == f"Ann{row['id'][1:]}" for row in rows)


def test_sql_finds_the_registered_function(spark: SparkSession, documents: DataFrame, config: RunConfig) -> None:
    function = extract_udf(SCHEMA, config=config)
    function.register(spark, "extract_people")
    spark.udf.register("extract_people_too", function)
    documents.createOrReplaceTempView("letters")
    for name in ("extract_people", "extract_people_too"):
        rows = spark.sql(f"select {name}(text).record.age as age from letters where id = 'd5'").collect()
        assert [row["age"] for row in rows] == [5]


def test_two_extractions_in_one_plan_are_refused_while_the_first_still_works(spark: SparkSession) -> None:
    """Names of 20 kB fill Spark's buffers, so that the second extraction starts while the first waits at its gate."""
    engine = {"kind": "scripted", "script": "tests.scripts:gated_people", "args": {"device": "test-chain"}}
    changes = {"engine": engine, "output": {"grounding": False}, "decoding": {"max_output_tokens": 30_000}}
    engine["args"]["max_model_len"] = 100_000  # type: ignore[index]
    function = extract_udf(PEOPLE_SCHEMA, config=load_config(changes))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    try:
        long = "concat('Ann', repeat('x', 20000), ' ', id, if(id = 80, ' gate', '')) as text"
        texts = spark.range(100).selectExpr(long).repartition(1)
        first = texts.select(function("text")["record"]["name"].alias("name"))
        second = first.where("name is not null").select(function("name")["record"]["name"].alias("name"))
        with pytest.raises(Exception, match="two extractions in one query plan"):
            second.collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_extract_works_once_however_often_its_result_is_used(
    documents: DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> None:
    counter = tmp_path_factory.mktemp("count") / "requests"
    config = load_config({"engine": {"kind": "scripted", "script": "tests.scripts:counted_people"}})
    prompts = documents.selectExpr("id", f"concat('{counter} ', text) as text")
    result = pipeline.extract(prompts, schema=PEOPLE_SCHEMA, config=config)
    num_requests = counter.stat().st_size
    assert num_requests == 50  # 48 good, one invalid twice, one null
    result.cache()
    assert result.count() == 50
    assert result.where("error is not null").count() == 2
    assert result.join(result.select("doc_id"), "doc_id").count() == 50
    assert counter.stat().st_size == num_requests
    assert result.columns == ["doc_id", "record", "error", "meta"]


def test_wrong_settings_are_found_where_the_function_is_made(documents: DataFrame) -> None:
    with pytest.raises(ConfigError, match="unknown setting 'modle'"):
        extract_udf(PEOPLE_SCHEMA, modle="demo")
    with pytest.raises(ConfigError, match=r"no id column 'id'"):
        pipeline.extract(documents.select("text"), schema=PEOPLE_SCHEMA, id_column="id")
