"""A run on a real local Spark with the scripted engine: every document out once, resume, output, folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline import rounds
from pipeline.config import RunConfig, load_config
from pipeline.errors import ConfigError, EngineError, EngineStartError, InputError
from pipeline.run import RunResult, run
from pipeline.schema import load_schema
from tests.scripts import PEOPLE_SCHEMA

pytestmark = pytest.mark.spark

DOCUMENTS: list[dict[str, Any]] = [
    {"id": "ann", "text": "Ann 31"},
    {"id": "bob", "text": "Bob"},
    {"id": "twin", "text": "Ann 31"},
    {"id": "again", "text": "Retried, retry 5"},
    {"id": "wrong", "text": "bad"},
    {"id": "refused", "text": "refused"},
    {"id": "blank", "text": " \n"},
    {"id": "null", "text": None},
    {"id": "nul", "text": "Nul\x00 7"},
    {"id": "long", "text": "Lena 44 " + "lorem ipsum dolor. " * 3000},
    {"id": "zoë", "text": "Zoë 8"},
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    lines = [json.dumps(document, ensure_ascii=False) for document in DOCUMENTS]
    path.write_bytes("\n".join([*lines, "{broken"]).encode() + b'\n{"id": "latin", "text": "caf\xe9"}\n')
    return path


Start = Callable[..., RunResult]


@pytest.fixture
def start(spark: SparkSession, source: Path, tmp_path: Path) -> Start:
    """Run on the sample documents with changed settings; the output is ``tmp_path/out``."""

    def call(script: str = "people", schema: Any = PEOPLE_SCHEMA, **changes: Any) -> RunResult:
        options = {name: changes.pop(name) for name in ("overwrite", "say", "retry_reasons") if name in changes}
        config = _config(source, tmp_path / "out", script, **changes)
        return run(config, spark=spark, schema=load_schema(schema), **options)

    return call


def _config(source: Path, folder: Path, script: str, **changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "input": {"path": str(source)},
        "output": {"path": str(folder)},
        "engine": {"kind": "scripted", "script": f"tests.scripts:{script}"},
        "journal": {"flush_outcomes": 2},
    }
    for section, content in changes.items():
        values[section] = {**values.get(section, {}), **content}
    return load_config(values)


def _lines(output: Path) -> list[dict[str, Any]]:
    files = sorted((output / "records.jsonl").glob("part-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_every_document_comes_out_once_as_a_record_or_as_a_reject(start: Start, tmp_path: Path) -> None:
    result = start()
    out = tmp_path / "out"
    records = pq.read_table(out / "records.parquet").to_pylist()
    rejects = pq.read_table(out / "rejects.parquet").to_pylist()
    assert {row["doc_id"]: row["record"] for row in records} == {
        "ann": {"name": "Ann", "age": 31},
        "bob": {"name": "Bob", "age": None},
        "twin": {"name": "Ann", "age": 31},
        "again": {"name": "Retried", "age": 5},
        "nul": {"name": "Nul", "age": 7},
        "long": {"name": "Lena", "age": 44},
        "zoë": {"name": "Zoë", "age": 8},
    }
    assert {row["doc_id"]: row["reason"] for row in rejects} == {
        "wrong": "SCHEMA_MISMATCH", "refused": "REFUSED_BY_ENGINE", "blank": "EMPTY_INPUT", "null": "EMPTY_INPUT",
        "in.jsonl:12": "UNDECODABLE_INPUT", "latin": "UNDECODABLE_INPUT",
    }  # fmt: skip
    assert [line["doc_id"] for line in _lines(out)] == ["ann", "bob", "twin", "again", "nul", "long", "zoë"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest == result.manifest | {"settings": manifest["settings"]}
    assert (manifest["documents"], manifest["records"], manifest["rejects"]) == (13, 7, 6)
    assert sum(manifest["rejects_by_reason"].values()) == 6
    metas = [row["meta"] for row in records + rejects]
    assert manifest["tokens"]["output"] == sum(meta["output_tokens"] for meta in metas)
    assert sorted(path.name for path in out.iterdir()) == [
        "_journal", "manifest.json", "records.jsonl", "records.parquet", "rejects.parquet", "report.html",
    ]  # fmt: skip


def test_a_finished_run_loads_no_model_again_and_gives_the_same_bytes(start: Start, tmp_path: Path) -> None:
    start()
    out = tmp_path / "out"
    before = {path.name: path.read_bytes() for path in (out / "records.jsonl").iterdir()}
    said: list[str] = []
    again = start(say=said.append)
    assert said == ["[resumed] 9 of 13"]
    assert again.manifest["engine"]["loads"] == 0
    assert {path.name: path.read_bytes() for path in (out / "records.jsonl").iterdir()} == before


def test_another_profile_and_format_rewrite_the_output_without_the_model(start: Start, tmp_path: Path) -> None:
    start()
    again = start(output={"profile": "ascii", "formats": ["jsonl"], "id_field": ""})
    assert again.manifest["engine"]["loads"] == 0
    assert not (tmp_path / "out" / "records.parquet").exists()
    text = "".join(path.read_text() for path in (tmp_path / "out" / "records.jsonl").iterdir())
    assert '{"name":"Zo\\u00eb","age":8}' in text


def test_a_limit_is_raised_by_running_again(start: Start) -> None:
    first = start(input={"limit": 2})
    assert first.manifest["documents"] == 2
    second = start()
    assert (second.manifest["documents"], second.manifest["resumed_documents"]) == (
        13,
        3,
    )  # "twin" is known by its text


def test_equal_texts_are_decoded_once(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(script="people")
    journal = pq.read_table(tmp_path / "out" / "_journal" / "outcomes")
    keys = journal.column("key").to_pylist()
    assert len(keys) == len(set(keys))
    twins = {r["doc_id"]: r["meta"]["key"] for r in pq.read_table(tmp_path / "out" / "records.parquet").to_pylist()}
    assert twins["ann"] == twins["twin"]


def test_rejects_are_done_again_when_asked(start: Start) -> None:
    start()
    again = start(journal={"retry_rejects": True})
    assert again.manifest["engine"]["loads"] > 0
    assert again.manifest["resumed_documents"] == 7
    only = start(retry_reasons=["REFUSED_BY_ENGINE"])
    assert only.manifest["resumed_documents"] == 8
    assert only.manifest["rejects"] == 6  # done again, and again a reject


def test_changed_settings_need_another_folder_or_a_word(start: Start) -> None:
    start()
    with pytest.raises(ConfigError, match=r"other settings: prompt.*--overwrite"):
        start(prompt={"instructions": "Something else."})
    changed = start(prompt={"instructions": "Something else."}, overwrite=True)
    assert changed.manifest["resumed_documents"] == 0


def test_a_folder_of_somebody_else_is_left_alone(start: Start, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        start()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_documents_with_one_id_are_an_error_before_the_model_loads(start: Start, source: Path) -> None:
    source.write_text('{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n{"id": "a", "text": "z"}\n')
    with pytest.raises(InputError, match=r"'a' \(2 times\)"):
        start()


def test_an_empty_input_is_a_finished_run(start: Start, source: Path, tmp_path: Path) -> None:
    source.write_text("\n")
    assert start().manifest["documents"] == 0
    assert pq.read_table(tmp_path / "out" / "records.parquet").num_rows == 0


def test_an_id_field_that_the_schema_has_is_refused(start: Start) -> None:
    with pytest.raises(ConfigError, match="--id-field"):
        start(output={"id_field": "name"})


def test_an_engine_that_does_not_start_ends_the_run_with_its_reason(start: Start) -> None:
    with pytest.raises(EngineStartError, match="no memory"):
        start(script="unstartable")


def test_an_engine_that_always_dies_ends_the_run_instead_of_refusing_everything(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MAX_FRUITLESS_ROUNDS", 2)
    with pytest.raises(EngineError, match="CUDA error"):
        start(script="doomed", journal={"flush_outcomes": 1})
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not (tmp_path / "out" / "_journal" / "plan").exists()


@pytest.mark.slow
def test_a_document_that_kills_engines_is_found_and_costs_nobody_else_a_record(
    start: Start, source: Path, tmp_path: Path
) -> None:
    texts = {f"d{number}": f"Ann{number} {number}" for number in range(60)} | {"k": "kill it", "c": "crash it"}
    source.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()))
    result = start(script="deadly_people")
    rejects = {r["doc_id"]: r for r in pq.read_table(tmp_path / "out" / "rejects.parquet").to_pylist()}
    assert {name: row["reason"] for name, row in rejects.items()} == {
        "k": "REFUSED_BY_ENGINE", "c": "REFUSED_BY_ENGINE",
    }  # fmt: skip
    assert rejects["k"]["detail"] == "the engine died 2 times while it worked on this text"
    assert result.manifest["records"] == 60
