"""The lint command: a table a person reads, facts a program reads, exit codes."""

import json

import pytest
from click.testing import CliRunner

from jobs.lint_schema import main
from tests.conftest import ROOT


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


def test_the_table_shows_fields_columns_rules_and_risks() -> None:
    code, text = _run(f"{ROOT}/schemas/orders.py:CustomerOrders", "--no-compile")
    assert code == 0
    assert "orders[].timestamp" in text
    assert "TIMESTAMP" in text
    assert "invention" in text
    assert "exclusiveMinimum 0" in text
    assert "no bound" in text
    assert "Traps (" in text


def test_the_facts_are_json_and_the_grammar_can_be_shown() -> None:
    code, text = _run("id BIGINT NOT NULL, tags ARRAY<STRING>", "--no-compile", "--json")
    assert code == 0
    facts = json.loads(text)
    assert [field["path"] for field in facts["fields"]] == ["id", "tags", "tags[]"]
    assert {"path": "#/properties/id", "keyword": "type", "by": "grammar", "note": ""} in facts["keywords"]
    assert "root ::= " in _run("id BIGINT", "--no-compile", "--grammar")[1]


@pytest.mark.parametrize("spec", ["missing.json", "id BIGGINT", '{"type":"object","properties":{"a":{"enum":[]}}}'])
def test_an_unusable_schema_ends_with_two_and_one_line(spec: str) -> None:
    code, text = _run(spec, "--no-compile")
    assert code == 2
    assert text.startswith("error: ")
    assert text.count("\n") == 1


def test_help_shows_examples() -> None:
    code, text = _run("--help")
    assert code == 0
    assert "python jobs/lint_schema.py schemas/orders.py:CustomerOrders" in text


@pytest.mark.slow
def test_compiling_and_masks_are_measured() -> None:
    code, text = _run("id BIGINT NOT NULL, name VARCHAR(10)", "--json")
    assert code == 0
    measured = json.loads(text)["compiled"]
    assert measured["compile_ms"] > 0
    assert measured["mask_mean_us"] > 0
    assert measured["num_tokens"] >= 400
