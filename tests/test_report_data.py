"""Report data: a sample with the documents' own text, on a real local Spark."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.plan import (
    count_pending,
    documents_with_outcomes,
    pending_chunks,
    plan_step,
    read_outcomes,
    write_plan,
)
from pipeline.readers import apply_step
from pipeline.report import render_report
from pipeline.report_data import collect_report_data, read_timeline
from pipeline.rounds import extract_pending
from pipeline.schema import load_schema
from pipeline.storage import Storage
from pipeline.udf.arrow import DOCUMENT_COLUMNS
from pipeline.udf.output import RESULT_COLUMNS, output_function
from pipeline.udf.stage import build_stage
from pipeline.writers import RECORDS, REJECTS
from tests.scripts import PEOPLE_SCHEMA


@pytest.mark.spark
@pytest.mark.parametrize("grounding", [True, False])
def test_a_run_is_sampled_with_texts_spans_and_times(spark: SparkSession, tmp_path: Path, grounding: bool) -> None:
    texts = {f"p{i:03}": f"Person{i} {i}" for i in range(60)}
    texts |= {"wrong": "bad", "long": "Lena 44. " + "lorem ipsum dolor sit. " * 120}
    rows = [(i, name, text, {}, None, None) for i, (name, text) in enumerate(texts.items())]
    rows.append((99, "latin", None, {}, "UNDECODABLE_INPUT", "not UTF-8 text"))  # type: ignore[arg-type]
    documents = spark.createDataFrame(rows, DOCUMENT_COLUMNS)
    config = load_config(
        {"engine": {"kind": "scripted", "script": "tests.scripts:people"},
         "output": {"path": str(tmp_path), "grounding": grounding}, "chunking": {"max_tokens": 600}}
    )  # fmt: skip
    stage = build_stage(config, schema=load_schema(PEOPLE_SCHEMA))
    journal = Storage(str(tmp_path)).child("_journal")
    since = time.time()
    plan = write_plan(apply_step(documents, plan_step(stage)), journal, folder="plan/x")
    extract_pending(plan, stage, journal, pending=count_pending(pending_chunks(plan, read_outcomes(spark, journal))))
    outcomes = read_outcomes(spark, journal)
    merged = documents_with_outcomes(plan, outcomes, num_partitions=2, with_text=grounding)
    write = output_function(stage, root=str(tmp_path), round_id="r", datasets=[RECORDS, REJECTS], num_tasks=2)
    samples = [row["sample"] for row in merged.mapInArrow(write, RESULT_COLUMNS).collect()]
    data = collect_report_data(samples, plan=plan, timeline=read_timeline(outcomes, since_s=since), with_text=grounding)
    assert len(data["records"]) == 30
    for record in data["records"]:
        assert record.text.rstrip() == texts[record.doc_id].rstrip()
        for span in record.spans:
            if span.kind == "exact":
                assert record.text[span.start : span.end] == str(record.value[span.path[1:]])
    assert {span.kind for record in data["records"] for span in record.spans} == {"exact"}
    assert {reject.doc_id: reject.reason for reject in data["rejects"]} == {
        "wrong": "SCHEMA_MISMATCH", "latin": "UNDECODABLE_INPUT"
    }  # fmt: skip
    wrong = next(reject for reject in data["rejects"] if reject.doc_id == "wrong")
    assert (wrong.raw_output, wrong.text) == ('{"name": 3}', "bad")
    assert "age" in wrong.errors[0].message
    assert data["timeline"][-1].num_documents >= 62
    assert data["timeline"][-1].num_tokens > 0
    assert len(data["latencies_ms"]) == 62
    page = render_report({"documents": 63}, **data)
    assert "Person" in page
