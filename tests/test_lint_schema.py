"""The lint command: a table a person reads, facts a program reads, exit codes."""

import json

import pytest
from click.testing import CliRunner

from jobs.lint_schema import as_text, main
from pipeline.compiling import CompileReport
from pipeline.field_rules import field_rules
from pipeline.lint import _mask_traps, lint
from pipeline.schema import load_schema
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


def test_a_misspelt_keyword_is_a_trap() -> None:
    spec = {"type": "object", "properties": {"a": {"type": "string", "maxlength": 3, "x-note": 1, "maxLength": 9}}}
    code, text = _run(json.dumps(spec), "--no-compile")
    assert code == 0
    assert [line.split()[:3] for line in text.splitlines() if "unknown keyword" in line] == [
        ["#/properties/a", "unknown", "keyword"]
    ]
    assert "maxlength is no keyword of JSON Schema" in text


def test_a_tokenizer_that_is_not_there_is_named() -> None:
    code, text = _run("id BIGINT", "--tokenizer", "no-such-folder")
    assert (code, text.count("\n")) == (2, 1)
    assert "no folder no-such-folder" in text


def test_help_shows_examples() -> None:
    code, text = _run("--help")
    assert code == 0
    assert "python jobs/lint_schema.py schemas/orders.py:CustomerOrders" in text


@pytest.mark.slow
def test_compiling_and_masks_are_measured() -> None:
    code, text = _run("id BIGINT NOT NULL, name VARCHAR(10)", "--json")
    assert code == 0
    facts = json.loads(text)
    for measured in (facts["compiled"], facts["compiled_large"]):
        assert measured["compile_ms"] > 0
        assert measured["mask_mean_us"] > 0
        assert measured["num_tokens"] >= 400
    assert facts["compiled_large"]["vocab_size"] > 100_000
    table = as_text(lint(load_schema("id BIGINT NOT NULL, name VARCHAR(10)")))
    assert "150001 tokens" in table
    assert "µs" in table


def test_slow_masks_are_blamed_on_lengths_that_the_grammar_counts() -> None:
    fields = tuple(field_rules(load_schema("id BIGINT NOT NULL, name VARCHAR(60)").json_schema))
    quick, slow = (CompileReport(1.0, 1.0, 150_001, mask_mean_us=us, num_tokens=400) for us in (20.0, 900.0))
    assert _mask_traps(fields, [quick, quick]) == []
    (trap,) = _mask_traps(fields, [quick, slow])
    assert trap.kind == "slow masks"
    assert "900 µs" in trap.message
    assert "maxLength of name is counted" in trap.message


def test_what_the_grammar_cannot_write_is_said() -> None:
    text = _run("id BIGINT NOT NULL, at TIMESTAMP", "--no-compile")[1]
    assert "integers: within int64" in text
    assert "date-time: with a zone, capital T and Z" in text
    assert "cannot write" not in _run("name STRING", "--no-compile")[1]


def test_a_tuple_is_warned_of_because_json_lines_hold_an_array() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2}
    report = lint(load_schema({"type": "object", "properties": {"pair": pair}}), compile_grammar=False)
    assert ("pair", "tuple") in {(trap.path, trap.kind) for trap in report.traps}
