"""Odd schemas, judged by an independent validator: within reach of the grammar, validated, written, read back."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.field_types import EXTRA, FieldType
from pipeline.grammar import Layout, build_grammar
from pipeline.layout import render
from pipeline.profiles import load_profile
from pipeline.schema import Schema, arrow_type, load_schema, to_arrow_value
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
        return bool(found == base64.b64decode(value))
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
