"""Rows of ``pipeline.extract`` as a notebook shows them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.api import extract
from pipeline.config import load_config
from pipeline.display import ShownRow
from tests.scripts import PEOPLE_SCHEMA

TEXTS = {"p1": "Ann & Co <b> are 41", "p2": "bad <script>"}


@pytest.mark.spark
def test_records_show_their_places_and_rejects_their_reason(spark: SparkSession) -> None:
    documents = spark.createDataFrame(list(TEXTS.items()), "id string, text string")
    config = load_config({"engine": {"kind": "scripted", "script": "tests.scripts:unsure_people"}})
    rows = extract(documents, schema=PEOPLE_SCHEMA, config=config, confidence=True).collect()
    shown = {row["doc_id"]: ShownRow(row, text=TEXTS[row["doc_id"]])._repr_html_() for row in rows}
    assert 'title="/name (exact, confidence 100%)">Ann</mark> &amp; Co &lt;b&gt;' in shown["p1"]
    assert 'title="/age (exact, confidence 100%)">41</mark>' in shown["p1"]
    assert "SCHEMA_MISMATCH" in shown["p2"]
    assert "&lt;script&gt;" in shown["p2"]
    assert "<script" not in shown["p2"]


def test_without_spans_places_are_found_and_without_confidence_none_is_shown() -> None:
    row: dict[str, Any] = {"doc_id": "d", "record": {"name": "Ann", "age": None}, "error": None, "meta": None}
    assert 'title="/name (exact)">Ann</mark>' in ShownRow(row, text="Ann 41")._repr_html_()
