"""Grammar texts against the real xgrammar: layouts, reach, and what they refuse."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.grammar import build_grammar
from pipeline.layout import render
from pipeline.schema import load_schema
from pipeline.validation import Valid, Validator
from tests.matching import accepts
from tests.schema_classes import Endless, Everything, Tree
from tests.test_schema import EVERYTHING

LAYOUTS = ("spaced", "indented", "compact")


def _schema(**properties: Any) -> Any:
    return load_schema({"type": "object", "properties": properties, "required": list(properties)})


def _takes(raw: str, layout: Any = "spaced", **properties: Any) -> bool:
    return accepts(build_grammar(_schema(**properties), layout=layout).text, raw)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("spaced", '{"a": [1, 2], "b": {"c": "x"}}'),
        ("compact", '{"a":[1,2],"b":{"c":"x"}}'),
        ("indented", '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {\n    "c": "x"\n  }\n}'),
    ],
)
def test_each_layout_is_the_only_way_to_write_a_value(layout: Any, text: str) -> None:
    c = {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"]}
    schema = _schema(a={"type": "array", "items": {"type": "integer"}}, b=c)
    grammar = build_grammar(schema, layout=layout).text
    assert render(schema, {"b": {"c": "x"}, "a": [1, 2]}, layout=layout) == text
    for other in LAYOUTS:
        assert accepts(grammar, render(schema, json.loads(text), layout=other)) == (other == layout)
    assert not accepts(grammar, text + "\n")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "value", [{"name": "a"}, {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}]
)
def test_a_recursive_class_can_be_written_to_any_depth(layout: Any, value: Any) -> None:
    schema = load_schema(Tree)
    grammar = build_grammar(schema, layout=layout).text
    assert accepts(grammar, render(schema, value, layout=layout))


def test_every_type_of_a_class_can_be_written() -> None:
    schema = load_schema(Everything)
    value = EVERYTHING | {"count": 3}
    for layout in LAYOUTS:
        assert accepts(build_grammar(schema, layout=layout).text, render(schema, value, layout=layout))


@pytest.mark.parametrize(
    "text", ['say "x"', "back\\slash", "tab\t", "line\n", "北京", "\U0001f600", "", "\x01", "\u2028", "\x7f"]
)
@pytest.mark.parametrize("keywords", [{}, {"maxLength": 20}, {"minLength": 0, "maxLength": 64}, {"pattern": ""}])
def test_any_text_can_be_written_whatever_bounds_stand_beside(text: str, keywords: dict[str, Any]) -> None:
    assert _takes(json.dumps({"t": text}, ensure_ascii=False), t={"type": "string", **keywords})


@pytest.mark.parametrize("raw", ['"a\tb"', '"a\nb"', '"\x00"', '"\\ud83d"', '"\\ude00"', '"\\x"', '"', '"a'])
@pytest.mark.parametrize("keywords", [{}, {"maxLength": 20}, {"pattern": "^.*$"}, {"pattern": "[^z]"}])
def test_what_is_no_json_string_is_refused(raw: str, keywords: dict[str, Any]) -> None:
    assert not _takes(f'{{"t": {raw}}}', t={"type": "string", **keywords})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 8), st.integers(0, 8), st.text(st.characters(exclude_categories=["Cs"]), max_size=10))
def test_short_lengths_are_counted_exactly(one: int, other: int, text: str) -> None:
    low, high = sorted((one, other))
    taken = _takes(json.dumps({"t": text}), t={"type": "string", "minLength": low, "maxLength": high})
    assert taken == (low <= len(text) <= high)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4), st.none() | st.integers(0, 4), st.integers(0, 6), st.sampled_from(LAYOUTS))
def test_list_lengths_are_counted_exactly(low: int, high: int | None, length: int, layout: str) -> None:
    bounds = {"minItems": low} | ({} if high is None else {"maxItems": max(low, high)})
    schema = _schema(a={"type": "array", "items": {"type": "integer"}, **bounds})
    text = render(schema, {"a": list(range(length))}, layout=layout)
    wanted = length >= low and (high is None or length <= max(low, high))
    assert accepts(build_grammar(schema, layout=layout).text, text) == wanted  # type: ignore[arg-type]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_every_choice_of_optional_keys_can_be_written_in_order(required: list[bool], present: list[bool]) -> None:
    names = [f"k{i}" for i in range(len(required))]
    schema = load_schema({
        "type": "object", "properties": {name: {"type": "integer"} for name in names},
        "required": [name for name, needed in zip(names, required, strict=True) if needed],
    })  # fmt: skip
    value = {name: 1 for name, there in zip(names, present, strict=False) if there}
    for layout in LAYOUTS:
        text = render(schema, value, layout=layout)
        assert accepts(build_grammar(schema, layout=layout).text, text) == isinstance(  # type: ignore[arg-type]
            Validator(schema).validate(text), Valid
        )


@pytest.mark.parametrize("raw", ["0.1", "5", "4.75", "1e-1", "-1", "12.5E+3", "-0.0"])
def test_numbers_can_be_written_in_every_form(raw: str) -> None:
    assert _takes(f'{{"x": {raw}}}', x={"type": "number"})


@pytest.mark.parametrize("raw", ["01", "1.", ".5", "+1", "-", "1e", "NaN", "0x1", "1.5.2"])
def test_what_is_no_number_is_refused(raw: str) -> None:
    assert not _takes(f'{{"x": {raw}}}', x={"type": "number"})


def test_alternatives_keep_what_stands_beside_them() -> None:
    document = {
        "type": "object",
        "properties": {"email": {"type": "string"}, "phone": {"type": "string"}},
        "anyOf": [{"required": ["email"]}, {"required": ["phone"]}],
    }
    grammar = build_grammar(load_schema(document), layout="spaced").text
    for raw, taken in (('{"email": "x"}', 1), ('{"phone": "1"}', 1), ("{}", 0), ('{"fax": "1"}', 0), ("[1]", 0)):
        assert accepts(grammar, raw) == bool(taken)


def test_undeclared_keys_by_pattern_and_name_list() -> None:
    scores = {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}}
    assert _takes('{"s": {"b": 1, "a": 2}}', s=scores)
    assert not _takes('{"s": {"c": 1}}', s=scores)
    codes = {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}
    assert _takes('{"s": {"x1": 1}}', s=codes)
    assert not _takes('{"s": {"y": 1}}', s=codes)


def test_an_impossible_or_endless_schema_is_refused() -> None:
    with pytest.raises(SchemaError, match="no value"):
        build_grammar(load_schema(Endless))
    with pytest.raises(SchemaError, match="no value"):
        build_grammar(_schema(a={"allOf": [{"type": "string"}, {"type": "integer"}]}))


def test_fields_deeper_than_the_limit_are_refused() -> None:
    node: dict[str, Any] = {"type": "integer"}
    for _ in range(20):
        node = {"type": "object", "properties": {"a": node}}
    with pytest.raises(SchemaError, match="max_json_depth=8"):
        build_grammar(load_schema(node), max_json_depth=8)


def test_coverage_names_every_keyword_and_what_holds_it() -> None:
    spec = build_grammar(
        _schema(a={"type": "array", "items": {"type": "string", "maxLength": 500}, "uniqueItems": True})
    )
    by = {(k.path, k.keyword): k.by for k in spec.coverage}
    assert by["#/properties/a", "uniqueItems"] == "validation"
    assert by["#/properties/a/items", "maxLength"] == "validation"
    assert by["#/properties/a/items", "type"] == "grammar"


def test_equal_schemas_give_equal_grammars_and_layouts_different_ones() -> None:
    one, other = (build_grammar(_schema(a={"type": "string"})) for _ in range(2))
    assert one.fingerprint == other.fingerprint
    assert len({build_grammar(_schema(a={"type": "string"}), layout=layout).fingerprint for layout in LAYOUTS}) == 3  # type: ignore[arg-type]
