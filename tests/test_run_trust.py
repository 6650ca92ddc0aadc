"""What a run says about its own values: places in the document, pages, the rule against invented ones, the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.config import load_config
from pipeline.run import RunResult, run
from pipeline.schema import load_schema
from pipeline.udf.stage import build_stage
from tests.browser import chromium
from tests.test_documents import make_docx, make_pdf
from tests.test_report import assert_well_formed

pytestmark = pytest.mark.spark

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": ["integer", "null"]},
        "city": {"type": ["string", "null"]},
        "words": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
    },
    "required": ["name", "age", "city", "words"],
    "additionalProperties": False,
}
LONG = "Ann 31 lives here. " + "lorem ipsum dolor sit amet. " * 60 + "Zed Quux at the end."
TEXTS = {
    "ann": "Ann 31 Paris",
    "bob": "Bob 44 invents",
    "long": LONG,
    "wide": "Ｚｏｅ １２ Oslo",
}

Start = Callable[..., RunResult]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Start:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in TEXTS.items()))

    def call(
        *,
        path: Path = source,
        schema: dict[str, Any] = SCHEMA,
        chunk: int | None = None,
        passes: int = 1,
        **output: Any,
    ) -> Any:
        values = {
            "input": {"path": str(path)}, "output": {"path": str(tmp_path / "out"), **output},
            "engine": {"kind": "scripted", "script": "tests.scripts:described_people"},
            "chunking": {"max_tokens": chunk, "overlap_tokens": 8}, "decoding": {"passes": passes},
        }  # fmt: skip
        return run(load_config(values), spark=spark, schema=load_schema(schema))

    return call


def _records(tmp_path: Path) -> dict[str, dict[str, Any]]:
    return {row["doc_id"]: row for row in pq.read_table(tmp_path / "out" / "records.parquet").to_pylist()}


def test_every_value_has_its_place_in_the_document(start: Start, tmp_path: Path) -> None:
    result = start(chunk=600)
    records = _records(tmp_path)
    assert records["long"]["meta"]["num_chunks"] > 1
    kinds = {}
    for name, row in records.items():
        for span in row["meta"]["spans"]:
            kinds[name, span["path"]] = span["kind"]
            if span["kind"] == "exact":
                value = row["record"]
                for step in span["path"].split("/")[1:]:
                    value = value[int(step) if isinstance(value, list) else step]
                assert TEXTS[name][span["start"] : span["end"]] == str(value)
    assert kinds["ann", "/name"] == kinds["ann", "/age"] == kinds["long", "/words/0"] == "exact"
    assert kinds["wide", "/age"] == "normalised"
    assert kinds["bob", "/city"] == "none"
    counted = result.manifest["grounding"]
    assert counted == {kind: list(kinds.values()).count(kind) for kind in ("exact", "normalised", "fuzzy", "none")} | {
        "nulled": 0
    }


def test_without_grounding_nothing_is_said_and_no_text_is_moved(start: Start, tmp_path: Path) -> None:
    result = start(grounding=False)
    assert {row["meta"]["spans"] for row in _records(tmp_path).values()} == {None}
    assert "grounding" not in result.manifest


def test_an_invented_value_is_a_reject_or_null_where_its_field_must_be_grounded(start: Start, tmp_path: Path) -> None:
    first = start(require_grounding=["city"])
    assert first.manifest["rejects_by_reason"] == {"UNGROUNDED": 1}
    (reject,) = pq.read_table(tmp_path / "out" / "rejects.parquet").to_pylist()
    assert (reject["doc_id"], reject["detail"]) == ("bob", "/city: stands nowhere in the document")
    assert json.loads(reject["raw_output"])["city"] == "Atlantis"
    second = start(require_grounding=["/city"], ungrounded="null")
    assert second.manifest["engine"]["loads"] == 0
    assert (second.manifest["rejects"], second.manifest["grounding"]["nulled"]) == (0, 1)
    assert _records(tmp_path)["bob"]["record"]["city"] is None
    third = start(require_grounding=["/"], ungrounded="null", grounding=False)
    assert third.manifest["rejects"] == 0
    assert third.manifest["grounding"]["nulled"] == 1
    assert _records(tmp_path)["bob"]["meta"]["spans"] is None


def test_a_value_that_may_not_be_null_is_a_reject(start: Start, tmp_path: Path) -> None:
    schema = json.loads(json.dumps(SCHEMA))
    schema["properties"]["city"]["type"] = "string"
    start(schema=schema, require_grounding=["city"], ungrounded="null")
    rejects = pq.read_table(tmp_path / "out" / "rejects.parquet").to_pylist()
    assert {row["doc_id"] for row in rejects if row["reason"] == "UNGROUNDED"} == {"bob"}
    assert all("cannot be null" in row["detail"] for row in rejects if row["reason"] == "UNGROUNDED")


def test_another_merge_policy_needs_no_model(start: Start, tmp_path: Path) -> None:
    start(chunk=600)
    before = _records(tmp_path)["long"]
    assert before["record"]["name"] == "Ann"
    schema = json.loads(json.dumps(SCHEMA))
    schema["properties"]["name"]["merge"] = "last"
    again = start(schema=schema, chunk=600)
    assert again.manifest["engine"]["loads"] == 0
    after = _records(tmp_path)["long"]
    assert after["record"]["name"] != "Ann"
    assert after["meta"]["key"] == before["meta"]["key"]


def test_further_passes_fill_lists_and_count_as_tokens_but_not_as_retries(start: Start, tmp_path: Path) -> None:
    result = start(passes=3)
    row = _records(tmp_path)["bob"]
    assert row["record"] == {"name": "Bob", "age": 44, "city": "Atlantis", "words": ["invents", "44", "Bob"]}
    assert row["meta"]["attempts"] == 3
    assert [span["kind"] for span in row["meta"]["spans"]] == ["exact", "exact", "none", "exact", "exact", "exact"]
    manifest = result.manifest
    assert (manifest["retried_documents"], manifest["settings"]["decoding"]["passes"]) == (0, 3)
    assert manifest["tokens"] == {kind: manifest["engine"][f"{kind}_tokens"] for kind in ("prompt", "output")}
    assert start(passes=3).manifest["engine"]["loads"] == 0
    once = build_stage(load_config({**manifest["settings"], "decoding": {}}), schema=load_schema(SCHEMA))
    assert once.fingerprint != manifest["hashes"]["run"]


def test_files_keep_their_pages_and_broken_ones_are_rejects(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "two.pdf").write_bytes(make_pdf("Ann lives in", "Paris 31"))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnot really")
    (folder / "empty.pdf").write_bytes(b"")
    result = start(path=folder)
    row = _records(tmp_path)["two.pdf"]
    pages = {span["path"]: span["page"] for span in row["meta"]["spans"]}
    assert (pages["/name"], pages["/age"], pages["/city"]) == (1, 2, 2)
    assert row["meta"]["page_starts"] == [0, 14]
    assert result.manifest["rejects_by_reason"] == {"EMPTY_INPUT": 1, "UNDECODABLE_INPUT": 1}


@pytest.mark.parametrize("kind", ["html", "docx"])
def test_web_pages_and_word_files_are_documents(start: Start, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"page.{kind}"
    path.write_bytes(make_docx() if kind == "docx" else b"<h1>Ann</h1><p>31 Paris</p>")
    start(path=path)
    row = _records(tmp_path)[path.name]
    assert row["record"]["name"] == ("Orders" if kind == "docx" else "Ann")
    assert row["meta"]["page_starts"] is None


def test_the_report_is_of_this_run_and_can_be_left_out(start: Start, tmp_path: Path) -> None:
    result = start(require_grounding=["city"])
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert_well_formed(page)
    assert result.manifest["run_id"] in page
    assert "Atlantis" in page
    assert "UNGROUNDED" in page
    start(report=False)
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.slow
def test_in_a_browser_the_report_of_a_run_marks_values_and_loads_nothing(start: Start, tmp_path: Path) -> None:
    start(require_grounding=["city"], confidence=True)
    file = tmp_path / "out" / "report.html"
    with chromium(tmp_path / "profile") as browser:
        browser.open(file)
        browser.run("[].forEach.call(document.querySelectorAll('details'),function(d){d.open=true})")
        ann = "[].filter.call(document.querySelectorAll('.doc'),function(d){return /^ann /.test(d.textContent)})[0]"
        assert browser.run(f"{ann}.querySelector('.text').textContent") == TEXTS["ann"]
        browser.run(f"{ann}.id='ann'")
        browser.click('#ann button.leaf[title^="/city"]')
        marked = "[].map.call(document.querySelectorAll('.on'),function(e){return e.tagName+':'+e.textContent})"
        assert browser.run(marked) == ["MARK:Paris", 'BUTTON:"Paris"']
        assert "100%" in browser.run(f"{ann}.querySelector('.value').textContent")
        assert "UNGROUNDED" in browser.run("document.querySelector('.reject').textContent")
        assert browser.run("document.documentElement.scrollWidth") <= 1280
        browser.screenshot(tmp_path / "report.png")
        assert (browser.requests, browser.problems) == ([file.as_uri()], [])
