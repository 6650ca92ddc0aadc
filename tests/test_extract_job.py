"""The job as a person starts it: one line per mistake, exit codes, files that are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.extract import main
from jobs.replay_rejects import main as replay
from jobs.settings import engine_args, nest, read_examples, text_or_file
from pipeline.errors import ConfigError
from tests.scripts import PEOPLE_SCHEMA

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "Ann 3"}\n{"id": "b", "text": "bad"}\n')
    (tmp_path / "run.yaml").write_text("engine: {kind: scripted, script: 'tests.scripts:people'}\n")
    return tmp_path


def _arguments(folder: Path, **changes: str | None) -> list[str]:
    options: dict[str, str | None] = {
        "--config": str(folder / "run.yaml"),
        "--input": str(folder / "in.jsonl"),
        "--schema": str(folder / "people.json"),
        "--output": str(folder / "out"),
    } | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return [part for name, value in options.items() if value is not None for part in (name, value)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input": None}, "missing --input"),
        ({"schema": "no/such.py:Class"}, "no/such.py"),
        ({"schema": "no.such.module:Class"}, "no.such.module"),
        ({"schema": "schemas/orders.py:Nothing"}, "Nothing"),
        ({"config": "gone.yaml"}, "gone.yaml"),
        ({"profile": "cobol"}, "cobol"),
        ({"format": "xml"}, "formats"),
        ({"limit": "0"}, "limit"),
        ({"max_reject_rate": "7"}, "max_reject_rate"),
        ({"engine_arg": "tensor_parallel_size"}, "key=value"),
        ({"engine_arg": "max_model_len=0"}, "max_model_len must be a whole number of at least 1, got 0"),
        ({"engine_arg": "max_model_len=abc"}, "max_model_len must be a whole number of at least 1, got 'abc'"),
        ({"examples": "gone.jsonl"}, "gone.jsonl"),
        ({"instructions": "@gone.txt"}, "gone.txt"),
        ({"id_field": "name"}, "--id-field"),
        ({"limit": "x"}, "not a valid integer"),
        ({"output": __file__}, "is a file"),
        ({"input": "tests", "output": "tests/out"}, "lies in the input folder tests"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(folder: Path, changes: dict[str, str], message: str) -> None:
    result = CliRunner().invoke(main, _arguments(folder, **changes))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.strip().splitlines()[-1].lower().startswith("error: ")
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("properties", "message"),
    [({}, "without fields"), ({"a": {"type": "object", "properties": {}}}, "without fields"),
     ({"a": {"type": "string"}, "A": {"type": "string"}}, "differ only in case")],
)  # fmt: skip
def test_a_schema_without_columns_is_found_before_any_work(
    folder: Path, properties: dict[str, object], message: str
) -> None:
    (folder / "people.json").write_text(json.dumps({"type": "object", "properties": properties}))
    result = CliRunner().invoke(main, _arguments(folder))
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert not (folder / "out").exists()


def test_an_unknown_model_is_found_before_spark_starts(folder: Path) -> None:
    (folder / "run.yaml").write_text("quiet: true\n")
    result = CliRunner().invoke(main, _arguments(folder, model="/no/such/model"))
    assert (result.exit_code, "unknown model" in result.stderr) == (2, True)


def test_an_unknown_key_of_the_file_is_named(folder: Path) -> None:
    (folder / "run.yaml").write_text("engine: {kind: scripted, skript: x}\n")
    result = CliRunner().invoke(main, _arguments(folder))
    assert (result.exit_code, "engine.skript" in result.stderr) == (2, True)


def test_help_has_examples_and_exit_codes() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    assert "spark-submit jobs/extract.py --input" in text
    assert "Exit codes" in text


def test_replaying_a_folder_without_a_run_is_a_mistake(tmp_path: Path) -> None:
    result = CliRunner().invoke(replay, [str(tmp_path)])
    assert (result.exit_code, "holds no run" in result.stderr) == (2, True)


@pytest.mark.parametrize("text", ["{broken", "[]", "{}", '{"identity": 1, "settings": {}}'])
def test_a_damaged_run_file_is_named(folder: Path, text: str) -> None:
    (folder / "out" / "_journal").mkdir(parents=True)
    (folder / "out" / "_journal" / "run.json").write_text(text)
    for command, arguments in ((replay, [str(folder / "out")]), (main, _arguments(folder))):
        result = CliRunner().invoke(command, arguments)
        assert (result.exit_code, "run.json is damaged" in result.stderr) == (2, True)


def test_option_values_become_settings(tmp_path: Path) -> None:
    assert nest({"a.b": 1, "a.c": None, "d": "x"}) == {"a": {"b": 1}, "d": "x"}
    assert engine_args(["tensor-parallel-size=2", "dtype=bfloat16", "x=true", 'y={"a": 1}']) == {
        "tensor_parallel_size": 2, "dtype": "bfloat16", "x": True, "y": {"a": 1},
    }  # fmt: skip
    assert engine_args([]) is None
    (tmp_path / "e.jsonl").write_text('{"id": "x", "text": "a\u2028", "output": {"b": 1}, "note": ""}\n\n')
    assert read_examples(str(tmp_path / "e.jsonl")) == [{"text": "a\u2028", "output": {"b": 1}}]
    (tmp_path / "e.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(ConfigError, match="line 1"):
        read_examples(str(tmp_path / "e.jsonl"))
    (tmp_path / "i.txt").write_text("Do it.")
    assert text_or_file(f"@{tmp_path / 'i.txt'}") == "Do it."


@pytest.mark.spark
@pytest.mark.slow
def test_spark_submit_and_plain_python_run_the_job(folder: Path) -> None:
    """One folder through: a run with too many rejects, a look at the work, a replay, another profile."""
    submit = str(Path(sys.executable).with_name("spark-submit"))
    job = [str(ROOT / "jobs" / "extract.py"), *_arguments(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYSPARK_PYTHON"] = sys.executable

    def call(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)

    first = call(submit, *job, "--max-reject-rate", "0.2")
    assert first.returncode == 3, first.stderr
    assert "50.0% of the documents were rejected" in first.stdout  # spark-submit sends both streams there
    assert '{"doc_id":"a","name":"Ann","age":3}' in first.stdout
    dry = call(sys.executable, *job, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "left to do         0 texts" in dry.stdout
    assert "Ann 3" in dry.stdout
    again = call(sys.executable, str(ROOT / "jobs" / "replay_rejects.py"), str(folder / "out"))
    assert again.returncode == 3, again.stderr  # the run's own limit still holds, and half of it is rejected again
    assert "[resumed] 1 of 2" in again.stderr
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert (manifest["documents"], manifest["records"], manifest["rejects"]) == (2, 1, 1)
