"""Raw outputs become values or errors that a model can act on."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from pipeline.data import RejectReason
from pipeline.schema import load_schema, to_arrow_value
from pipeline.validation import Invalid, Valid, Validator, error_message
from tests.schema_classes import Everything, Tree
from tests.test_schema import EVERYTHING


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _value(document: Any, raw: str) -> Any:
    verdict = Validator(load_schema(document)).validate(raw)
    assert isinstance(verdict, Valid), verdict
    return verdict.value


def _errors(document: Any, raw: str) -> str:
    verdict = Validator(load_schema(document)).validate(raw)
    assert isinstance(verdict, Invalid)
    assert verdict.reason is RejectReason.SCHEMA_MISMATCH
    return error_message(verdict.errors)


@pytest.mark.parametrize(
    ("raw", "number"), [("3.0", 3), ("1e3", 1000), ("-0", 0), ("1.5e1", 15), ("9223372036854775807", 2**63 - 1)]
)
def test_whole_numbers_in_integer_fields_become_integers(raw: str, number: int) -> None:
    verdict = Validator(load_schema(_object(n={"type": "integer"}))).validate(f'{{"n":{raw}}}')
    assert isinstance(verdict, Valid)
    assert verdict.json == f'{{"n":{number}}}'
    assert isinstance(verdict.value["n"], int)


@pytest.mark.parametrize(
    "raw", ["9223372036854775808", "-9223372036854775809", "1e19", "1e300", "3.5", '"3"', "true", "null"]
)
def test_what_is_no_int64_is_refused_in_integer_fields(raw: str) -> None:
    assert "/n: expected" in _errors(_object(n={"type": "integer"}), f'{{"n":{raw}}}')


def test_a_larger_integer_needs_an_explicit_choice() -> None:
    document = _object(n={"type": "integer", "x-arrow": "decimal128(38, 0)"})
    assert _value(document, '{"n":123456789012345678901234567890}') == {"n": 123456789012345678901234567890}
    schema = load_schema(document)
    assert to_arrow_value(schema, {"n": 10**30}) == {"n": Decimal(10**30)}
    assert "digits" in _errors(document, '{"n":' + "9" * 39 + "}")


def test_numbers_keep_every_digit_and_a_double_its_range() -> None:
    document = _object(x={"type": "number"})
    verdict = Validator(load_schema(document)).validate('{"x":0.12345678901234567890123}')
    assert isinstance(verdict, Valid)
    assert verdict.json == '{"x":0.12345678901234567890123}'
    assert "range of a double" in _errors(document, '{"x":1e400}')
    assert "out of every range" in _errors(document, '{"x":1e99999}')


def test_decimals_are_exact_from_a_number_or_a_text() -> None:
    class Bill(BaseModel):
        total: Decimal

    for raw in ("12.345678901234567", '"12.345678901234567"', "12345678901234567890.12"):
        verdict = Validator(load_schema(Bill)).validate(f'{{"total":{raw}}}')
        assert isinstance(verdict, Valid)
        assert to_arrow_value(load_schema(Bill), verdict.value) == {"total": Decimal(raw.strip('"'))}


@pytest.mark.parametrize(
    ("document", "raw", "message"),
    [
        (_object(a={"enum": ["x", "y"]}), '{"a":"z"}', '/a: expected one of "x", "y", got "z"'),
        (_object(a={"type": "string"}), "{}", 'the whole answer: the required field "a" is missing'),
        (_object(a={"type": "string"}), '{"a":"b","c":1}', 'the whole answer: expected no other fields, got "c"'),
        (_object(a={"type": "string", "format": "date"}), '{"a":"2024-02-30"}',
         '/a: expected a date that exists, as 2024-02-29, got "2024-02-30"'),
        (_object(a={"anyOf": [{"type": "integer"}, {"type": "null"}]}), '{"a":"x"}',
         '/a: expected a whole number without quotes or null, got "x"'),
        (_object(a={"type": "array", "items": _object(b={"type": "integer"})}), '{"a":[{"b":1},{"b":"x"}]}',
         '/a/1/b: expected a whole number without quotes, got "x"'),
    ],
)  # fmt: skip
def test_errors_say_the_place_what_was_expected_and_what_came(document: Any, raw: str, message: str) -> None:
    assert message in _errors(document, raw)


def test_errors_of_a_union_are_those_of_the_branch_that_was_meant() -> None:
    verdict = Validator(load_schema(Everything)).validate(
        json.dumps(EVERYTHING | {"pet": {"kind": "cat", "lives": "x"}})
    )
    assert isinstance(verdict, Invalid)
    assert [error.path for error in verdict.errors] == ["/pet/lives"]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"text": "forbidden"}, "this word is not allowed"),
        ({"level": "high", "count": -1}, "a high level needs"),
        ({"count": "3"}, "whole number"),
        ({"price": 1.234}, "multiple of|decimal|digits"),
        ({"moment": "2024-02-29T13:45:00"}, "zone"),
        ({"local": "2024-02-29T13:45:00Z"}, "without zone"),
        ({"local": "2024-02-30T13:45:00"}, "without zone"),
        ({"clock": "24:00:00"}, "time"),
        ({"tags": ["a", "a"]}, "twice"),
        ({"pair": [1]}, "at least 2"),
        ({"ident": "x"}, "UUID"),
        ({"shout": "HI"}, "no other fields"),
    ],
)
def test_a_class_checks_its_schema_and_its_own_validators(change: dict[str, Any], part: str) -> None:
    verdict = Validator(load_schema(Everything)).validate(json.dumps(EVERYTHING | change))
    assert isinstance(verdict, Invalid)
    assert any(word in error_message(verdict.errors) for word in part.split("|"))


def test_a_value_of_a_class_is_its_dump_by_alias_and_satisfies_the_schema_again() -> None:
    validator = Validator(load_schema(Everything))
    first = validator.validate(json.dumps(EVERYTHING))
    assert isinstance(first, Valid)
    assert first.value["given-name"] == "Anna"
    assert first.value["price"] == "12.5"
    assert first.value["note"] is None  # a default is written out
    again = validator.validate(first.json)
    assert isinstance(again, Valid)
    assert again.value | {"tags": 0} == first.value | {"tags": 0}  # a set has no order


def test_a_default_that_does_not_fit_its_own_field_is_left_out() -> None:
    class Odd(BaseModel):
        a: int
        b: int = None  # type: ignore[assignment]

    assert _value(Odd, '{"a":1}') == {"a": 1}


def test_a_validator_that_breaks_is_an_error_of_the_row() -> None:
    class Broken(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def _fail(cls, value: int) -> int:
            raise KeyError("lost")

    assert "KeyError" in _errors(Broken, '{"a":1}')


def test_recursion_is_bounded_by_depth() -> None:
    def nested(depth: int) -> str:
        return '{"name":"a","children":[' * depth + "]}" * depth

    validator = Validator(load_schema(Tree), max_depth=10)
    assert isinstance(validator.validate(nested(5)), Valid)
    assert isinstance(validator.validate(nested(6)), Invalid)


def test_missing_stays_missing_and_null_is_only_where_allowed() -> None:
    document = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
    assert _value(document, '{"a":1}') == {"a": 1}
    assert "/b" in _errors(document, '{"a":1,"b":null}')


_ANYTHING = load_schema(_object(a={"type": ["string", "integer", "null"]}, b={"type": "number", "multipleOf": 0.01}))


@given(st.text() | st.text('{}[]",:ab01.eE-+\\u dD8'))
def test_no_text_makes_validation_raise(raw: str) -> None:
    verdict = Validator(_ANYTHING).validate(raw)
    assert isinstance(verdict, Valid) or verdict.errors
