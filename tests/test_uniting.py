"""Uniting the values of two passes: lists grow, everything else stays."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.folding import fold
from pipeline.schema import load_schema
from pipeline.uniting import Uniter
from pipeline.validation import Validator

ORDER = {
    "type": "object",
    "properties": {
        "no": {"type": ["string", "null"]},
        "sum": {"type": ["integer", "null"]},
        "tags": {"$ref": "#/$defs/tags"},
    },
    "required": ["no", "sum"],
}
SCHEMA = load_schema(
    {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"]},
            "best": {"type": ["integer", "null"], "merge": "max"},
            "strict": {"type": "string", "merge": "error"},
            "tags": {"$ref": "#/$defs/tags"},
            "few": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
            "fixed": {"type": "array", "items": {"type": "integer"}, "merge": "first"},
            "orders": {"type": "array", "items": ORDER, "key": "no"},
            "notes": {"type": ["array", "null"], "items": ORDER},
            "inner": {
                "type": ["object", "null"],
                "properties": {"list": {"$ref": "#/$defs/tags"}, "x": {"type": "string"}},
            },
        },
        "$defs": {"tags": {"type": "array", "items": {"type": "string"}}},
    }
)
UNITE = Uniter(SCHEMA.json_schema, validator=Validator(SCHEMA))


def united(found: dict[str, Any], later: dict[str, Any]) -> dict[str, Any] | None:
    result = UNITE(found, later)
    return None if result is None else result[0]


@pytest.mark.parametrize(
    ("found", "later", "right"),
    [
        pytest.param(
            {"name": "a", "tags": ["x"]}, {"name": "b", "tags": ["y"]}, {"name": "a", "tags": ["x", "y"]}, id="scalar"
        ),
        pytest.param(
            {"name": None, "tags": []}, {"name": "b", "tags": ["y"]}, {"name": None, "tags": ["y"]}, id="null stays"
        ),
        pytest.param(
            {"best": 1, "tags": []}, {"best": 9, "tags": ["y"]}, {"best": 1, "tags": ["y"]}, id="max is of chunks"
        ),
        pytest.param(
            {"strict": "a", "tags": []},
            {"strict": "b", "tags": ["y"]},
            {"strict": "a", "tags": ["y"]},
            id="no conflict",
        ),
        pytest.param({"tags": ["A b", "c"]}, {"tags": ["c", "a  B"]}, None, id="other spelling"),
        pytest.param(
            {"tags": ["x", "x"]}, {"tags": ["x", "x", "x"]}, {"tags": ["x", "x", "x"]}, id="as often as one pass says"
        ),
        pytest.param({"few": [1]}, {"few": [2, 3, 4]}, {"few": [1, 2]}, id="maxItems"),
        pytest.param({"fixed": [1]}, {"fixed": [2]}, None, id="list with another policy"),
        pytest.param(
            {"orders": [{"no": "A1", "sum": 5, "tags": ["x"]}]},
            {"orders": [{"no": "a1", "sum": 6, "tags": ["y"]}, {"no": "B2", "sum": 7}]},
            {"orders": [{"no": "A1", "sum": 5, "tags": ["x", "y"]}, {"no": "B2", "sum": 7}]},
            id="items by key",
        ),
        pytest.param(
            {"notes": [{"no": "A", "sum": 5}]}, {"notes": [{"no": "A", "sum": None}]}, None, id="a part of an item"
        ),
        pytest.param(
            {"notes": None}, {"notes": [{"no": "A", "sum": 5}]}, {"notes": [{"no": "A", "sum": 5}]}, id="no list before"
        ),
        pytest.param(
            {"inner": {"list": ["x"]}},
            {"inner": {"list": ["y"], "x": "z"}},
            {"inner": {"list": ["x", "y"]}},
            id="nested",
        ),
        pytest.param({"inner": None}, {"inner": {"list": ["y"]}}, None, id="no object before"),
        pytest.param(
            {"name": "a"}, {"name": "a", "tags": ["y"]}, {"name": "a", "tags": ["y"]}, id="list that was left out"
        ),
    ],
)
def test_a_later_pass_adds_to_lists_and_changes_nothing_else(
    found: dict[str, Any], later: dict[str, Any], right: dict[str, Any] | None
) -> None:
    assert united(found, later) == right


def test_a_union_that_is_not_valid_is_none() -> None:
    schema = load_schema(
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
            "not": {"properties": {"a": {"minItems": 2}}, "required": ["a"]},
        }
    )
    unite = Uniter(schema.json_schema, validator=Validator(schema))
    assert unite({"a": [1]}, {"a": [2]}) is None
    assert unite({"a": []}, {"a": [2]}) == ({"a": [2]}, '{"a":[2]}')


@pytest.mark.parametrize(
    ("field", "has_lists"),
    [
        ({"type": "string"}, False),
        ({"type": "array", "items": {"type": "string"}}, True),
        ({"type": ["array", "null"], "items": {"type": "string"}}, True),
        ({"type": "array", "items": {"type": "string"}, "merge": "first"}, False),
        ({"type": "object", "properties": {"b": {"type": "array", "items": {"type": "string"}}}}, True),
    ],
)
def test_a_schema_has_lists_where_one_can_grow(field: dict[str, Any], has_lists: bool) -> None:
    schema = load_schema({"type": "object", "properties": {"a": field}})
    assert Uniter(schema.json_schema, validator=Validator(schema)).has_lists is has_lists


TEXT = st.sampled_from(["", "a", "A", "b c", "b  C", "d"])
ITEM = st.fixed_dictionaries(
    {"no": st.none() | TEXT, "sum": st.none() | st.integers(0, 2)}, optional={"tags": st.lists(TEXT, max_size=3)}
)
VALUE = st.fixed_dictionaries(
    {},
    optional={
        "name": st.none() | TEXT,
        "tags": st.lists(TEXT, max_size=4),
        "few": st.lists(st.integers(0, 3), max_size=2),
        "orders": st.lists(ITEM, max_size=4),
        "notes": st.none() | st.lists(ITEM, max_size=3),
        "inner": st.none() | st.fixed_dictionaries({}, optional={"list": st.lists(TEXT, max_size=3)}),
    },
)


@example(found={"orders": [{"no": "a", "sum": None}, {"no": "a", "sum": None, "tags": []}]}, later={})
@settings(max_examples=400)
@given(found=VALUE, later=VALUE)
def test_what_was_found_stays_in_its_order_and_a_second_union_adds_nothing(
    found: dict[str, Any], later: dict[str, Any]
) -> None:
    before = copy.deepcopy((found, later))
    result = UNITE(found, later)
    assert (found, later) == before
    assert UNITE(found, found) is None
    if result is None:
        return
    value, text = result
    assert json.loads(text) == value
    assert value.get("name") == found.get("name")
    for name in ("tags", "few", "notes"):
        assert (value.get(name) or [])[: len(found.get(name) or [])] == (found.get(name) or [])
    assert UNITE(value, later) is None


@pytest.mark.parametrize("name", ["crosswoz_zh", "fewfc_events_zh", "skillspan_jobads_en"])
def test_what_a_pass_missed_of_real_records_is_added_by_the_next(shared: Path, name: str) -> None:
    schema = load_schema(str(shared / "data" / name / "schema.json"))
    unite = Uniter(schema.json_schema, validator=Validator(schema))
    num_added = 0
    for line in (shared / "data" / name / "documents.jsonl").read_text(encoding="utf-8").splitlines():
        gold = json.loads(line)["gold"]
        found = {key: value[::2] if isinstance(value, list) else value for key, value in gold.items()}
        result = unite(found, gold)
        whole = found if result is None else result[0]
        for key, value in gold.items():
            if isinstance(value, list):
                assert {json.dumps(item) for item in whole[key]} <= {json.dumps(item) for item in value}
                assert {fold(json.dumps(item)) for item in whole[key]} == {fold(json.dumps(item)) for item in value}
                num_added += len(whole[key]) - len(found[key])
    assert num_added > 20
