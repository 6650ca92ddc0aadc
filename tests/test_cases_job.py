"""The public failure cases that concern the job's plan, its engine and its resumption, on a real local Spark."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import pipeline
from pipeline.config import load_config
from pipeline.session import BATCH_BYTES
from pipeline.udf import extract_udf
from tests.case_job import Job
from tests.cases import about, given
from tests.scripts import PEOPLE_SCHEMA

pytestmark = pytest.mark.spark


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


@about("056", "057")
def test_a_document_beyond_the_context_is_split_or_rejected_and_the_job_ends_with_a_count(
    case_id: str, job: Job
) -> None:
    words = "Zed " * given("bug-056")["rows"][1]["tokens"]
    manifest = job.run(["Ann 3", words, "Bob 4"] + ["Cy 5"] * 50, engine={
        "kind": "scripted", "script": "tests.scripts:people",
        "args": {"max_model_len": given("bug-056")["max_model_len"]},
    })  # fmt: skip
    assert (manifest["documents"], manifest["records"] + manifest["rejects"]) == (53, 53)
    assert job.metas()["d1"]["num_chunks"] > 10
    assert job.records()["d0"] == {"name": "Ann", "age": 3}


@about("053")
def test_a_long_document_is_split_its_fields_merged_and_the_result_says_so(case_id: str, job: Job) -> None:
    case = given(case_id)
    lines = [f"k{n % case['fields']}=word{n:05d} and some more words of the contract" for n in range(5000)]
    text = "\n".join(lines)[: case["document_chars"]]
    lists = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {f"f{n}": lists for n in range(case["fields"])}}
    schema["required"] = list(schema["properties"])  # type: ignore[call-overload]
    manifest = job.run([text], schema=schema, script="case_scripts:numbered_fields")
    record = job.records()["d0"]
    words = sorted(word for field in record.values() for word in field)
    assert words == sorted(set(re.findall(r"k\d+=(\w+)", text)))
    assert len(json.dumps(record)) > case["output_chars"]
    assert job.metas()["d0"]["num_chunks"] > 5
    assert manifest["chunks"] == job.metas()["d0"]["num_chunks"]


@about("054")
def test_documents_in_are_records_and_rejects_out(case_id: str, job: Job) -> None:
    texts = [f"bad {n}" if n % 7 == 0 else f"{'cut ' * 30}{n}" if n % 11 == 0 else f"Ann {n}" for n in range(400)]
    manifest = job.run(texts)
    assert manifest["documents"] == len(texts) == manifest["records"] + manifest["rejects"]
    assert set(job.records()) | set(job.rejects()) == {f"d{n}" for n in range(400)}
    assert set(job.rejects().values()) == {"SCHEMA_MISMATCH", "TRUNCATED"}


@pytest.fixture(scope="module")
def survived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A run whose first engine died of a document: its manifest, and a file with a byte for each request."""
    job = Job(spark, tmp_path_factory.mktemp("survived"))
    counter = job.folder / "requests"
    texts = [f"{counter} {'special' if n == 150 else 'row'}{n}" for n in range(200)]
    manifest = job.run(
        texts, script="case_scripts:dies_once", journal={"flush_outcomes": 1}, partition={"minutes": 1e9},
        engine={"kind": "scripted", "script": "tests.case_scripts:dies_once", "max_in_flight": 4},
    )  # fmt: skip
    return manifest, counter


@about("059", "082", "044")
def test_a_dead_engine_is_replaced_and_only_its_unfinished_rows_are_done_again(
    case_id: str, survived: tuple[dict[str, Any], Path]
) -> None:
    manifest, counter = survived
    assert counter.with_suffix(".died").exists()
    assert (manifest["records"], manifest["rejects"]) == (200, 0)
    assert counter.stat().st_size <= 220  # what was in flight, and what the other core did until it was stopped


@about("061")
def test_a_changed_schema_uses_nothing_of_an_earlier_run(case_id: str, job: Job) -> None:
    job.run(["Ann 3", "Bob 4"])
    other = {**PEOPLE_SCHEMA, "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    manifest = job.run(["Ann 3", "Bob 4"], schema=other, overwrite=True)
    assert manifest["resumed_documents"] == 0
    assert manifest["engine"]["loads"] > 0


@about("063")
def test_the_result_does_not_depend_on_how_many_rows_there_are(
    case_id: str, spark: SparkSession, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}
    for size in given(case_id)["batch_sizes"]:
        job = Job(spark, tmp_path / str(size))
        job.folder.mkdir()
        job.run([f"Ann{n} {n}" + (" retry" if n % 9 == 0 else "") for n in range(size)])
        records = job.records()
        assert len(records) == size
        assert all(seen.setdefault(doc_id, record) == record for doc_id, record in records.items())


@about("108")
def test_the_engine_is_made_on_the_worker_once_and_serves_its_tasks(case_id: str, job: Job) -> None:
    manifest = job.run([f"Ann{n} {n}" for n in range(64)])
    assert 1 <= manifest["engine"]["loads"] <= 2  # two cores, two workers
    assert manifest["records"] == 64


@pytest.fixture
def few_rows_a_batch(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@about("110")
def test_select_filter_and_select_on_a_result_end(case_id: str, spark: SparkSession, few_rows_a_batch: None) -> None:
    engine = {"kind": "scripted", "script": "tests.scripts:people", "args": {"device": "case-110"}}
    config = load_config({"engine": engine})
    documents = spark.range(40).selectExpr("cast(id as string) as id", "concat('Ann', id, ' ', id) as text")
    first = pipeline.extract(documents, schema=PEOPLE_SCHEMA, config=config)
    again = first.where("record.age >= 10").selectExpr("doc_id as id", "record.name as text")
    second = pipeline.extract(again, schema=PEOPLE_SCHEMA, config=config)
    assert within(60, second.where("error is null").count) == 30
    column = extract_udf(PEOPLE_SCHEMA, config=config)
    frame = documents.repartition(1).select("id", column("text")["record"].alias("r")).where("r.age >= 10")
    assert within(60, frame.select("r.name").count) == 30


def within(seconds: float, work: Callable[[], int]) -> int:
    """The result of ``work``; fails where it does not end in time."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, f"no result within {seconds} s"
    return found[0]


@about("020")
def test_null_elements_survive_the_pandas_path(case_id: str, spark: SparkSession) -> None:
    config = load_config({"engine": {"kind": "scripted", "script": "tests.case_scripts:answer_is_text"}})
    scores = given(case_id)["rows"][0]
    frame = spark.createDataFrame([(json.dumps({"scores": scores}),)], "text string")
    rows = frame.select(extract_udf(given(case_id)["column"], config=config)("text")["record"].alias("r")).collect()
    assert [row["r"]["scores"] for row in rows] == [scores]


@about("111")
def test_large_rows_do_not_travel_in_one_batch(case_id: str, spark: SparkSession) -> None:
    """Of a table too, whose batches Spark makes: a session of ours bounds them in bytes."""
    size = given(case_id)["bytes_per_row"]
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", BATCH_BYTES)
    rows = spark.range(0, 400, 1, 1).selectExpr("id", f"repeat('x', {size}) as text")
    try:
        sizes = [row["bytes"] for row in _batch_sizes(rows)]
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxBytesPerBatch")
    assert len(sizes) > 1
    assert max(sizes) <= BATCH_BYTES + 2 * size


def _batch_sizes(frame: DataFrame) -> list[Any]:
    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"bytes": [batch.nbytes]})

    return frame.mapInArrow(sizes, "bytes long").collect()
