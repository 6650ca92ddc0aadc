"""Odd schemas, judged by an independent validator: within reach of the grammar, validated, written, read back."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import jsonschema_rs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.field_types import EXTRA, FieldType
from pipeline.grammar import Layout, build_grammar
from pipeline.layout import render
from pipeline.profiles import load_profile
from pipeline.schema import Schema, arrow_type, load_schema, spark_ddl, to_arrow_value
from pipeline.schema_types import field_type
from pipeline.storage import Storage
from pipeline.strict_json import dumps, whole_numbers
from pipeline.validation import Invalid, Valid, Validator
from pipeline.writers import LinesPart
from tests.matching import accepts


class Odd(NamedTuple):
    """A schema of one record, with values that fit and values that do not."""

    name: str
    schema: dict[str, Any]
    valid: list[Any]
    invalid: list[Any]


def _record(name: str, field: Any, valid: list[Any], invalid: list[Any]) -> Odd:
    schema = {"type": "object", "properties": {"v": field}, "required": ["v"], "additionalProperties": False}
    return Odd(name, schema, [{"v": value} for value in valid], [{"v": value} for value in invalid])


_OPTIONAL = {"type": "object", "properties": {f"f{n}": {"type": ["string", "null"]} for n in range(300)}}
_LINES = Path(__file__).with_name("odd_schemas.jsonl").read_text(encoding="utf-8").split("\n")
ODD = [
    *(Odd(**json.loads(line)) for line in _LINES if line),
    _record("an enum of many", {"enum": [f"value {n} é" for n in range(3000)]}, ["value 2999 é"], ["value 3000 é"]),
    _record("many optional fields", _OPTIONAL, [{}, {"f0": "x", "f299": None}, {"f7": None}], [{"f1": 1}]),
]
LAYOUTS: tuple[Layout, ...] = ("spaced", "indented", "compact")


def same(type_: FieldType, found: Any, value: Any) -> bool:
    """Whether a column's value says what the JSON value says; in an object of columns absent and null are one."""
    if found is None or value is None:
        return found is value or (found == "null" and type_.kind == "json")
    if type_.kind == "json":
        return dumps(json.loads(found)) == dumps(value)
    if type_.kind == "struct":
        types = {field.name: field.type for field in type_.fields}
        rest = dict(found.pop(EXTRA, None) or [])
        inner = types[EXTRA].item if EXTRA in types and types[EXTRA].kind == "map" else None
        return set(value) <= set(found) | set(rest) and all(
            same(types[name], item, value.get(name)) for name, item in found.items()
        ) and all(inner is not None and same(inner, item, value.get(name)) for name, item in rest.items())  # fmt: skip
    if type_.kind == "map":
        assert type_.item is not None
        return [key for key, _ in found] == list(value) and all(same(type_.item, i, value[key]) for key, i in found)
    if type_.is_tuple:
        items = [*value, *[None] * (len(type_.fields) - len(value))]
        return all(same(f.type, found[f.name], item) for f, item in zip(type_.fields, items, strict=True))
    if type_.kind == "list":
        assert type_.item is not None
        return len(found) == len(value) and all(
            same(type_.item, one, other) for one, other in zip(found, value, strict=True)
        )
    if type_.kind == "base64":
        return bool(found == base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    if isinstance(found, datetime):
        return found == datetime.fromisoformat(value)
    return bool((found.isoformat() if isinstance(found, date) else found) == value)


def written(schema: Schema, values: list[Any], folder: Path) -> tuple[list[Any], list[Any]]:
    """The records as the files hold them: lines and rows."""
    storage, profile = Storage(str(folder)), load_profile("spark", schema.json_schema)
    lines = LinesPart(storage, "lines.jsonl")
    for value in values:
        lines.add(str(profile.to_line("d", "the id", value)))
    lines.close()
    text = (folder / "lines.jsonl").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.split("\n")[:-1]]
    assert all(line.pop("the id") == "d" for line in found)
    rows = pa.array([to_arrow_value(schema, value) for value in values], type=arrow_type(schema))
    pq.write_table(pa.table({"record": rows}), folder / "rows.parquet")
    return found, pq.read_table(folder / "rows.parquet")["record"].to_pylist()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("odd", ODD, ids=[odd.name for odd in ODD])
def test_every_valid_record_is_reached_validated_and_read_back(odd: Odd, closed: bool, tmp_path: Path) -> None:
    judge = jsonschema_rs.Draft202012Validator(odd.schema, validate_formats=True)
    assert all(judge.is_valid(value) for value in odd.valid)
    assert not any(judge.is_valid(value) for value in odd.invalid)

    schema = load_schema(odd.schema, close_objects=closed)
    for layout in LAYOUTS:
        grammar = build_grammar(schema, layout=layout).text
        for value in odd.valid:
            text = render(schema, whole_numbers(value), layout=layout)
            assert accepts(grammar, text), text
    validator = Validator(schema)
    verdicts = [validator.validate(dumps(value)) for value in odd.valid]
    values = [verdict.value for verdict in verdicts if isinstance(verdict, Valid)]
    assert [dumps(value) for value in values] == [dumps(whole_numbers(value)) for value in odd.valid], verdicts
    assert all(isinstance(validator.validate(dumps(value)), Invalid) for value in odd.invalid)

    lines, rows = written(schema, values, tmp_path)
    assert lines == [json.loads(dumps(value)) for value in values]
    for row, value in zip(rows, values, strict=True):
        assert same(field_type(schema), row, value), (row, value)


LEAVES: list[Any] = [
    None, True, False, 0, 1, -1, 5, 7, 100, 1.5, 0.5, -0.01, "", "a", "ab", "x1", "12", 'q"\\\n', "é名😀", "2024-02-29",
    [], {}, [1], {"a": 1}, ["a", 1], [None],
]  # fmt: skip
KEYS = ("a", "b", "c", "x_a", "v", "", "name", "kind", "next", "n1", "ab", "de")


def changed(random: Random, value: Any, depth: int = 0) -> Any:
    """A value that differs in one place: nearly as likely to fit as not."""
    if random.random() < 0.25 or depth > 4:
        return deepcopy(random.choice(LEAVES))
    if isinstance(value, dict | list) and value and random.random() < 0.6:
        place = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if random.random() < 0.4:
            value.pop(place)
        else:
            value[place] = changed(random, value[place], depth + 1)
    elif isinstance(value, dict):
        value[random.choice(KEYS)] = deepcopy(random.choice(LEAVES))
    elif isinstance(value, list):
        value.insert(random.randrange(len(value) + 1), deepcopy(random.choice([*value, *LEAVES])))
    elif isinstance(value, str):
        return random.choice([value[:-1], value[::-1], value + random.choice('aZ1 "é')])
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**52:
        return random.choice([value + 1, value - 1, -value, value * 10, value / 2, float(value)])
    return value


def test_changed_records_get_the_judge_s_verdict_and_the_valid_ones_are_reached_and_read_back() -> None:
    random = Random(0)
    num_valid = num_invalid = 0
    for odd in ODD:
        judge = jsonschema_rs.Draft202012Validator(odd.schema, validate_formats=True)
        schema, closed = (load_schema(odd.schema, close_objects=close) for close in (False, True))
        grammars = [build_grammar(schema, layout=layout).text for layout in LAYOUTS]
        validator, closed_validator = Validator(schema), Validator(closed)
        columns, type_ = arrow_type(schema), field_type(schema)
        closed_grammar = build_grammar(closed, layout="spaced").text
        for _ in range(20):
            value = changed(random, deepcopy(random.choice(odd.valid)))
            verdict, place = validator.validate(dumps(value)), f"{odd.name}: {dumps(value)}"
            said = None if isinstance(verdict, Valid) else [error.keyword for error in verdict.errors]
            assert isinstance(verdict, Valid) == judge.is_valid(value) or said in (["int64"], ["contentEncoding"]), (
                place
            )
            in_closed = closed_validator.validate(dumps(value))
            if isinstance(in_closed, Valid):
                assert isinstance(verdict, Valid), place
                assert accepts(closed_grammar, render(closed, in_closed.value, layout="spaced")), place
            if not isinstance(verdict, Valid):
                num_invalid += 1
                continue
            num_valid += 1
            for layout, grammar in zip(LAYOUTS, grammars, strict=True):
                assert accepts(grammar, render(schema, verdict.value, layout=layout)), place
            (row,) = pa.array([to_arrow_value(schema, verdict.value)], type=columns).to_pylist()
            assert same(type_, row, verdict.value), place
    assert num_valid > 300
    assert num_invalid > 1000


def test_text_that_is_no_base64_is_refused_before_a_column_would_refuse_it() -> None:
    document = {"type": "object", "properties": {"v": {"type": "string", "contentEncoding": "base64"}}}
    schema, annotated = load_schema(document), load_schema(document, formats="annotate")
    for text in ("a", "a b=", "é", "===", "aGVsbG8=x"):
        assert isinstance(Validator(schema).validate(dumps({"v": text})), Invalid), text
        assert isinstance(Validator(annotated).validate(dumps({"v": text})), Valid), text
        assert to_arrow_value(annotated, {"v": text}) == {"v": text}
    for text in ("", "aGVsbG8=", "aGVsbG8", "-_-_", "+/+/"):
        assert isinstance(Validator(schema).validate(dumps({"v": text})), Valid), text
        assert isinstance(to_arrow_value(schema, {"v": text})["v"], bytes)


def test_what_is_closed_keeps_the_types_of_all_its_parts() -> None:
    parts = [{"required": [name], "properties": {name: {"type": "integer"}}} for name in ("x", "y")]
    node = {"type": "object", "allOf": [{"oneOf": parts}, {"properties": {"z": {"type": "integer"}}}]}
    schema = load_schema({"type": "object", "properties": {"v": node}, "required": ["v"]})
    assert spark_ddl(schema) == "v STRUCT<x: BIGINT, z: BIGINT, y: BIGINT> NOT NULL"
    verdict = Validator(schema).validate('{"v": {"y": 1.0, "z": 2e0}}')
    assert isinstance(verdict, Valid)
    assert verdict.json == '{"v":{"y":1,"z":2}}'


def test_a_field_has_the_type_that_its_pattern_gives_it() -> None:
    node = {"type": "object", "properties": {"a1": {"minimum": 5}}, "patternProperties": {"^a": {"type": "integer"}}}
    schema = load_schema({**node, "additionalProperties": False})
    assert spark_ddl(schema).startswith("a1 BIGINT")
    verdict = Validator(schema).validate('{"a1": 5.0}')
    assert isinstance(verdict, Valid)
    assert verdict.json == '{"a1":5}'


def test_an_integer_beside_other_types_is_bounded_as_well() -> None:
    schema = load_schema({"type": "object", "properties": {"v": {"type": ["integer", "string"]}}})
    assert isinstance(Validator(schema).validate('{"v": 9223372036854775807}'), Valid)
    assert isinstance(Validator(schema).validate('{"v": 9223372036854775808}'), Invalid)
    assert isinstance(Validator(schema).validate('{"v": 1e30}'), Invalid)
