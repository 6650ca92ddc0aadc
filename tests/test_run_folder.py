"""A run's output folder belongs to one run at a time, and what is kept in it serves from any folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.config import RunConfig, load_config
from pipeline.errors import ConfigError, OutputError
from pipeline.run_folder import check_folder, claim_folder, from_anywhere, load_run, only_run
from pipeline.storage import Storage
from pipeline.udf.stage import build_stage
from tests.scripts import PEOPLE_SCHEMA

_HOLDER = """
import os, sys
from pipeline.run_folder import check_folder, claim_folder, from_anywhere, load_run, only_run
from pipeline.storage import Storage
with only_run(Storage(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_kept_out_until_the_first_ends(tmp_path: Path) -> None:
    output = Storage(str(tmp_path / "out"))
    with only_run(output), pytest.raises(OutputError, match="another run is writing to"), only_run(output):
        pytest.fail("two runs in one folder")
    with only_run(output), only_run(Storage(str(tmp_path / "other"))):
        assert output.child("_journal").files() == []  # the lock is no file of the journal


def test_a_killed_driver_keeps_nobody_out(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match="another run"), only_run(Storage(str(tmp_path))):
            pytest.fail("two runs in one folder")
        driver.kill()
        driver.wait()
        with only_run(Storage(str(tmp_path))):
            pass


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"), only_run(Storage(str(tmp_path / "file" / "out"))):
        pytest.fail("no folder")


def _settings(folder: Path, **options: str) -> RunConfig:
    (folder / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    (folder / "in.jsonl").write_text("")
    paths = {"input": "in.jsonl", "output": "out", "schema": "people.json"} | options
    return load_config(
        {
            "engine": {"kind": "scripted", "script": "tests.scripts:people"},
            "input": {"path": paths["input"]},
            "output": {"path": paths["output"]},
            "schema_spec": paths["schema"],
        }
    )


def test_the_settings_of_a_run_serve_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = _settings(tmp_path)
    claim_folder(Storage("out"), build_stage(config))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    loaded = load_run(str(tmp_path / "out"))
    assert (loaded.input.path, loaded.schema_spec) == (str(tmp_path / "in.jsonl"), str(tmp_path / "people.json"))
    check_folder(Storage(str(loaded.output.path)), build_stage(loaded))  # it is the same run
    monkeypatch.chdir(tmp_path)
    check_folder(Storage("out"), build_stage(config))
    other = config.model_copy(update={"input": config.input.model_copy(update={"path": "people.json"})})
    with pytest.raises(ConfigError, match="other settings: input"):
        check_folder(Storage("out"), build_stage(other))


def test_a_folder_that_was_only_locked_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stage, output = build_stage(_settings(tmp_path)), Storage("out")
    with only_run(output):
        pass  # it ended before it began to work
    check_folder(output, stage)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty and holds no run"):
        check_folder(output, stage)


def test_a_run_whose_file_has_a_relative_input_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stage = build_stage(_settings(tmp_path))
    claim_folder(Storage("out"), stage)
    file = tmp_path / "out" / "_journal" / "run.json"
    known = json.loads(file.read_text())
    known["identity"]["input"] = "in.jsonl"
    file.write_text(json.dumps(known))
    check_folder(Storage("out"), stage)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input", "s3a://bucket/in.jsonl"), ("input", "sales.orders"), ("input", "file:///data/in.jsonl"),
        ("output", "s3://bucket/out"), ("schema", "schemas.orders:Order"),
        ("schema", "id BIGINT NOT NULL, tags ARRAY<STRING>"),
    ],
)  # fmt: skip
def test_what_is_no_path_of_this_machine_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    config = from_anywhere(_settings(tmp_path, **{name: value}))
    assert {"input": config.input.path, "output": config.output.path, "schema": config.schema_spec}[name] == value


def test_patterns_and_classes_in_files_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.py").write_text("")
    config = from_anywhere(_settings(tmp_path, input="days/*.jsonl", schema="order.py:Order"))
    assert config.input.path == str(tmp_path / "days" / "*.jsonl")
    assert config.schema_spec == f"{tmp_path / 'order.py'}:Order"
