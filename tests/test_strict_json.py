"""Strict parsing: every disputed text has one defined result, and no digit is lost."""

import json
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.strict_json import JsonTextError, dumps, loads


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"a":1,"a":2}', "twice"),
        ('{"a":{"b":1,"b":1}}', "twice"),
        ("NaN", "NaN"),
        ('{"a":-Infinity}', "Infinity"),
        ('{"t":"\\ud83d"}', "surrogate"),
        ('{"t":"\\ude00x"}', "surrogate"),
        ('{"\\ud83d":1}', "surrogate"),
        ('{"t":"\ud83d"}', "surrogate"),
        ('{"t":"a\tb"}', "control character"),
        ('{"t":"a\nb"}', "control character"),
        ('{"t":"a\x00b"}', "control character"),
        ('{"a":1} and more', "follows"),
        ('```json\n{"a":1}\n```', "character 0"),
        ("", "empty"),
        ("  \n", "empty"),
        ('{"a":1', "character"),
        ('{"a":-}', "character"),
        ('{"a":01}', "character"),
        ('{"a":1.}', "character"),
        ('{"a":+1}', "character"),
        ("{'a':1}", "character"),
        ("\ufeff{}", "byte order mark"),
        ("[" * 129 + "]" * 129, "deeper"),
        ("[" * 100000, "deeper"),
    ],
)
def test_text_that_parsers_dispute_is_refused_with_its_reason(text: str, part: str) -> None:
    with pytest.raises(JsonTextError, match=part):
        loads(text)


def test_brackets_inside_strings_are_no_nesting() -> None:
    assert loads(json.dumps({"a": "[" * 500})) == {"a": "[" * 500}


def test_a_surrogate_pair_is_one_character() -> None:
    assert loads('"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize("text", ["9" * 500, "1e999999999", "1" + "0" * 399 + "1.5", "-1e-99999"])
def test_a_number_beyond_every_range_is_marked_as_such(text: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        loads(text)
    assert caught.value.number


@pytest.mark.parametrize("text", ["0.1", "12.5", "1e-1", "-0.5", "1.5e10"])
def test_a_fraction_that_a_double_holds_is_a_float(text: str) -> None:
    assert loads(text) == float(text)
    assert isinstance(loads(text), float)


@pytest.mark.parametrize("text", ["0.1111111111111111111111111", "12345678901234567890.5", "1e400"])
def test_a_fraction_that_a_double_would_round_keeps_every_digit(text: str) -> None:
    assert loads(text) == Decimal(text)
    assert Decimal(dumps(loads(text))) == Decimal(text)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_what_is_written_reads_back_equal_and_as_any_json_parser_reads_it(value: object) -> None:
    assert loads(dumps(value)) == value
    assert json.loads(dumps(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12))
def test_decimals_survive_writing_and_reading(number: Decimal) -> None:
    assert Decimal(dumps(number)) == number
    assert math.isclose(float(dumps(loads(dumps(number)))), float(number), abs_tol=1e-300)
