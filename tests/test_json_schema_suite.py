"""JSON-Schema-Test-Suite, draft 2020-12: verdicts, and valid instances within reach of the grammar."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.canonical import Formats
from pipeline.coverage import narrower_than
from pipeline.errors import SchemaError
from pipeline.grammar import build_grammar
from pipeline.layout import render
from pipeline.schema import Schema, load_schema
from pipeline.strict_json import whole_numbers
from pipeline.validation import Valid, Validator
from tests.json_schema_remotes import REMOTES
from tests.matching import accepts

KNOWN_WRONG = {"vocabulary.json#0: no validation: invalid number, but it still validates"}
"""A custom meta-schema that switches validation off is not followed."""
REFUSED = {"enum.json#14", "optional/cross-draft.json#0"}
"""An empty enum (all its tests are invalid instances) and a reference to another draft's remote document."""
OUT_OF_REACH = {
    "optional/bignum.json#0": "integers: within int64",
    "optional/bignum.json#1": "numbers: at most 40 digits",
    "optional/float-overflow.json#0": "integers: within int64",
    "optional/format/date-time.json#0": "date-time: with a zone, capital T and Z",
    "optional/format/time.json#0": "time: with a zone, capital Z",
}
"""Valid instances that the grammar does not take, and what lint says of them."""
WRONG_FORMATS: set[str] = set()
"""Optional tests of formats whose verdict differs: none of them is a format that a column has a type for."""


def _groups(shared: Path) -> Iterator[dict[str, Any]]:
    for line in (shared / "schemas" / "jsts_draft2020-12.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _load(group: dict[str, Any]) -> Schema:
    document = group["schema"]
    wrapped = document if isinstance(document, dict) and document else {"allOf": [document]}
    formats: Formats = "assert" if group["id"].startswith("optional/format") else "annotate"
    return load_schema(wrapped, close_objects=False, require_object=False, resources=REMOTES, formats=formats)


def _verdicts(shared: Path, *, of: Callable[[dict[str, Any]], bool]) -> tuple[int, int, set[str], set[str]]:
    """(right, all, wrong ones by name, refused schemas) of the suite's groups."""
    num_right, num_tests = 0, 0
    wrong: set[str] = set()
    refused: set[str] = set()
    for group in filter(of, _groups(shared)):
        num_tests += len(group["tests"])
        try:
            validator = Validator(_load(group))
        except SchemaError:
            refused.add(group["id"])
            continue
        for test in group["tests"]:
            if isinstance(validator.validate(json.dumps(test["data"])), Valid) == test["valid"]:
                num_right += 1
            else:
                wrong.add(f"{group['id']}: {test['description']}")
    return num_right, num_tests, wrong, refused


def test_99_percent_of_the_required_verdicts_are_right_and_the_rest_is_named(shared: Path) -> None:
    """``format`` is an annotation here, as these tests want it; 6 tests of a refused schema count as not right."""
    num_right, num_tests, wrong, refused = _verdicts(shared, of=lambda group: not group["optional"])
    assert num_tests == 1299
    assert num_right >= 0.99 * num_tests
    assert wrong == KNOWN_WRONG
    assert refused == {"enum.json#14"}


def test_formats_are_checked_as_the_optional_tests_want_it(shared: Path) -> None:
    num_right, num_tests, wrong, refused = _verdicts(shared, of=lambda group: group["id"].startswith("optional/format"))
    assert wrong == WRONG_FORMATS
    assert not refused
    assert num_right == num_tests - len(wrong)


def test_every_valid_instance_is_within_reach_or_lint_says_why_not(shared: Path) -> None:
    missed: dict[str, list[str]] = {}
    num_reached = 0
    for group in _groups(shared):
        if group["id"] in REFUSED or not any(test["valid"] for test in group["tests"]):
            continue
        schema = _load(group)
        grammar = build_grammar(schema).text
        for test in group["tests"]:
            if not test["valid"]:
                continue
            if accepts(grammar, render(schema, whole_numbers(test["data"]))):
                num_reached += 1
            else:
                missed.setdefault(group["id"], []).append(test["description"])
            if group["id"] in missed:
                said = "; ".join(narrower_than(schema.json_schema))
                assert OUT_OF_REACH[group["id"]] in said
    assert set(missed) == set(OUT_OF_REACH)
    assert num_reached >= 1200


def test_what_the_grammar_takes_of_invalid_instances_validation_catches(shared: Path) -> None:
    num_taken = 0
    for group in _groups(shared):
        if group["id"] in REFUSED:
            continue
        schema = _load(group)
        try:
            grammar = build_grammar(schema).text
        except SchemaError:
            assert not any(test["valid"] for test in group["tests"]), f"{group['id']} has valid instances"
            continue
        validator = Validator(schema)
        for test in group["tests"]:
            text = render(schema, test["data"])
            if not test["valid"] and accepts(grammar, text):
                num_taken += 1
                assert not isinstance(validator.validate(text), Valid), f"{group['id']}: {test['description']}"
    assert num_taken > 300  # the grammar is looser in places; a count of none would mean that nothing was tried


@pytest.mark.parametrize("address", ["http://localhost:1234/draft2020-12/integer.json", "other.json", "../x.json"])
def test_a_reference_out_of_the_document_is_never_fetched(address: str) -> None:
    with pytest.raises(SchemaError, match=r"leaves this document"):
        load_schema({"type": "object", "properties": {"a": {"$ref": address}}})
