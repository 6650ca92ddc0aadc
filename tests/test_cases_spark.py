"""The public failure cases that concern readers and consumers of records, on a real local Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.config import InputConfig
from pipeline.profiles import load_profile
from pipeline.readers import read_documents
from pipeline.schema import load_schema
from tests.case_job import TEXT, Job
from tests.cases import CASES, about, given

pytestmark = pytest.mark.spark


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


@about("058")
def test_null_empty_and_non_text_documents_are_rejects_and_the_others_records(case_id: str, job: Job) -> None:
    manifest = job.run(given(case_id)["rows"])
    assert job.rejects() == {"1": "EMPTY_INPUT", "2": "EMPTY_INPUT", "3": "EMPTY_INPUT", "4": "UNDECODABLE_INPUT"}
    assert job.records() == {"5": {"name": "ok", "age": None}}
    assert (manifest["documents"], manifest["records"], manifest["rejects"]) == (5, 1, 4)


@about("078")
def test_bytes_that_are_no_utf8_are_refused_row_by_row(case_id: str, job: Job) -> None:
    wrong = bytes.fromhex(given(case_id)["hex"])
    job.run(b'{"id": "good", "text": "Ann 3"}\n{"id": "bad", "text": "' + wrong + b'"}\n')
    assert (job.rejects(), list(job.records())) == ({"bad": "UNDECODABLE_INPUT"}, ["good"])
    for kind, write in {"parquet": _parquet, "csv": _csv, "text": _folder}.items():
        (job.folder / kind).mkdir()
        config = InputConfig(path=str(write(job.folder / kind, wrong)), format=kind)  # type: ignore[arg-type]
        rows = {row["doc_id"].removesuffix(".txt"): row for row in read_documents(job.spark, config).collect()}
        assert (rows["good"]["text"], rows["good"]["reason"]) == ("Ann 3", None), kind
        assert (rows["bad"]["text"], rows["bad"]["reason"]) == (None, "UNDECODABLE_INPUT"), kind


def _parquet(folder: Path, wrong: bytes) -> Path:
    pq.write_table(pa.table({"id": ["good", "bad"], "text": pa.array([b"Ann 3", wrong], pa.binary())}), folder / "in")
    return folder / "in"


def _csv(folder: Path, wrong: bytes) -> Path:
    (folder / "in.csv").write_bytes(b"id,text\ngood,Ann 3\nbad," + wrong + b"\n")
    return folder / "in.csv"


def _folder(folder: Path, wrong: bytes) -> Path:
    (folder / "in").mkdir()
    (folder / "in" / "good.txt").write_text("Ann 3")
    (folder / "in" / "bad.txt").write_bytes(wrong)
    return folder / "in"


@about("075", "072")
def test_half_a_surrogate_is_refused_in_input_and_output_and_never_replaced(case_id: str, job: Job) -> None:
    lone = '{"t":"\\\\ud83d"}' if case_id == "bug-072" else '{"t":"\\\\ud800"}'
    pair = '{"t":"\\\\ud83d\\\\ude00"}'
    lines = [f'{{"id":"in","text":"{lone[6:-2]}"}}'.replace("\\\\", "\\")]
    lines += [
        json.dumps({"id": name, "text": raw.replace("\\\\", "\\")}) for name, raw in (("out", lone), ("ok", pair))
    ]
    job.run("\n".join(lines).encode(), schema=TEXT, script="case_scripts:answer_is_text")
    assert job.rejects() == {"in": "UNDECODABLE_INPUT", "out": "INVALID_JSON"}
    assert job.records() == {"ok": {"t": "\U0001f600"}}
    assert "\ufffd" not in "".join(row["t"] for row in job.read_lines(TEXT))


@about("022", "113")
def test_lines_always_fit_the_derived_spark_schema(case_id: str, job: Job) -> None:
    """A wrong type is a reject; Spark reads what is written with its types, FAILFAST, and sees no null."""
    case = CASES[case_id]
    job.run([*case["accept"], *case["reject"]], schema=case["schema"], script="case_scripts:answer_is_text")
    num_good = len(case["accept"])
    assert sorted(job.rejects()) == [f"d{num_good + n}" for n in range(len(case["reject"]))]
    for mode in ("FAILFAST", "PERMISSIVE"):
        rows = [row.asDict() for row in job.read_lines(case["schema"], mode)]
        assert [{**row, "doc_id": ""} for row in rows] == [{"doc_id": "", **json.loads(raw)} for raw in case["accept"]]


@about("069")
def test_what_is_missing_stays_missing_and_spark_reads_both(case_id: str, job: Job) -> None:
    case = CASES[case_id]
    job.run([*case["accept"], *case["reject"]], schema=case["schema"], script="case_scripts:answer_is_text")
    lines = [
        line for file in (job.folder / "out" / "records.jsonl").iterdir() for line in file.read_text().splitlines()
    ]
    assert lines == ['{"doc_id":"d0","a":1}', '{"doc_id":"d1","a":1,"b":2}']
    assert [(row["a"], row["b"]) for row in job.read_lines(case["schema"])] == [(1, None), (1, 2)]
    assert set(job.rejects()) == {"d2", "d3"}


@about("021", "070", "073", "077", "083")
def test_values_come_back_from_both_outputs_as_they_were(case_id: str, job: Job) -> None:
    """Integers beyond 2^53, Chinese text, emoji, U+0000, dates: one JSON decode, Spark's reader and Parquet agree."""
    schema = CASES[case_id].get("schema", TEXT)
    raws = CASES[case_id].get("accept") or [json.dumps({"t": given(case_id)["document"]})]
    job.run(raws, schema=schema, script="case_scripts:answer_is_text")
    wanted = [json.loads(raw) for raw in raws]
    (name,) = load_schema(schema).json_schema["properties"]
    assert [str(row[name]) for row in job.read_lines(schema)] == [str(value[name]) for value in wanted]
    assert [str(value[name]) for value in job.records().values()] == [str(value[name]) for value in wanted]


@about("116")
def test_a_text_beyond_jacksons_limit_needs_an_option_in_spark_and_is_refused_by_the_java_profile(
    case_id: str, job: Job
) -> None:
    size = given(case_id)["string_chars"]
    schema = load_schema(TEXT)
    record = {"t": "x" * size}
    lines = job.folder / "out" / "records.jsonl"
    lines.mkdir(parents=True)
    (lines / "part-0.jsonl").write_text(str(load_profile("spark", schema.json_schema).to_line("d", "doc_id", record)))
    reader = job.spark.read.schema("doc_id STRING, t STRING").option("mode", "FAILFAST")
    with pytest.raises(Exception, match="MALFORMED_RECORD"):  # Jackson's own limit, 20 million
        reader.json(str(lines)).collect()
    assert [len(row["t"]) for row in reader.option("maxStringLen", size).json(str(lines)).collect()] == [size]
    loss = load_profile("java", schema.json_schema).to_line("d", "doc_id", record)
    assert "Jackson reads at most" in str(loss)
    assert str(loss).startswith("/t: ")
