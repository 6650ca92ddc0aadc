"""Types of Pydantic classes and of JSON Schema drafts, from schema to Arrow and Spark columns and values."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import pyarrow as pa
import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, RootModel, create_model

from pipeline.errors import SchemaError
from pipeline.grammar import build_grammar
from pipeline.layout import render
from pipeline.schema import arrow_type, load_schema, spark_ddl, to_arrow_value
from pipeline.validation import Invalid, Valid, Validator
from tests.matching import accepts


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Colour(Enum):
    RED = "red"
    NONE = None


class Inner(BaseModel):
    n: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"
ZONE = timezone(timedelta(hours=2))
FORMS: list[tuple[Any, Any, str, Any, list[Any]]] = [
    (str, "é\\n\U0001f600", "STRING NOT NULL", "é\\n\U0001f600", [1, None]),
    (int, 2**63 - 1, "BIGINT NOT NULL", 2**63 - 1, [2**63, 1.5, "1", True]),
    (float, 0.1, "DOUBLE NOT NULL", 0.1, ["0.1"]),
    (bool, True, "BOOLEAN NOT NULL", True, [1, "true"]),
    (Decimal, 12.5, "DECIMAL(38,18) NOT NULL", Decimal("12.5"), ["x"]),
    (Annotated[Decimal, Field(max_digits=6, decimal_places=2)], 9999.99, "DECIMAL(6,2) NOT NULL", Decimal("9999.99"),
     [99999.5, 0.001]),
    (date, "2024-02-29", "DATE NOT NULL", date(2024, 2, 29), ["2023-02-29", "29.02.2024"]),
    (datetime, "2024-02-29T12:00:00+02:00", "TIMESTAMP NOT NULL", datetime(2024, 2, 29, 10, tzinfo=UTC),
     ["2024-02-29", "2024-02-30T12:00:00Z"]),
    (AwareDatetime, "2024-02-29T12:00:00Z", "TIMESTAMP NOT NULL", datetime(2024, 2, 29, 12, tzinfo=UTC),
     ["2024-02-29T12:00:00"]),
    (time, "13:45:00", "STRING NOT NULL", "13:45:00", ["25:00:00"]),
    (UUID, UUID_TEXT, "STRING NOT NULL", UUID_TEXT, ["123"]),
    (Size, 2, "BIGINT NOT NULL", 2, [3, "2"]),
    (Colour, None, "STRING", None, ["blue"]),
    (Literal["a", "b"], "b", "STRING NOT NULL", "b", ["c"]),
    (Literal[1, 2], 2, "BIGINT NOT NULL", 2, [3]),
    (int | None, None, "BIGINT", None, ["1"]),
    (list[int], [1, 2], "ARRAY<BIGINT> NOT NULL", [1, 2], [[None], 1]),
    (list[int | None], [1, None], "ARRAY<BIGINT> NOT NULL", [1, None], [["1"]]),
    (set[str], ["a"], "ARRAY<STRING> NOT NULL", ["a"], [["a", "a"]]),
    (tuple[int, str], [1, "x"], "STRUCT<_1: BIGINT NOT NULL, _2: STRING NOT NULL> NOT NULL", {"_1": 1, "_2": "x"},
     [[1], ["x", 1], [1, "x", 2]]),
    (tuple[int, ...], [1, 2, 3], "ARRAY<BIGINT> NOT NULL", [1, 2, 3], [["a"]]),
    (dict[str, float], {"a": 1.5}, "MAP<STRING, DOUBLE> NOT NULL", [("a", 1.5)], [{"a": "x"}]),
    (Inner, {"n": 1}, "STRUCT<n: BIGINT NOT NULL> NOT NULL", {"n": 1}, [{"n": 1, "m": 2}, {}]),
    (list[Inner], [{"n": 1}], "ARRAY<STRUCT<n: BIGINT NOT NULL>> NOT NULL", [{"n": 1}], [[1]]),
    (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "dog", "name": "Rex"},
     "STRUCT<kind: STRING NOT NULL, lives: BIGINT, name: STRING> NOT NULL",
     {"kind": "dog", "lives": None, "name": "Rex"}, [{"kind": "cat", "name": "Rex"}, {"kind": "cow"}]),
    (Annotated[str, Field(pattern="^[A-Z]{2}[0-9]+$", max_length=6)], "AB12", "STRING NOT NULL", "AB12",
     ["ab12", "AB123456"]),
    (Annotated[int, Field(gt=0, multiple_of=3)], 6, "BIGINT NOT NULL", 6, [7, 0]),
    (Annotated[int, Field(json_schema_extra={"x-arrow": "decimal128(30, 0)"})], 10**25,
     "DECIMAL(30,0) NOT NULL", Decimal(10**25), [10**31]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "column", "row", "wrong"), FORMS, ids=[str(form[2]) for form in FORMS])
def test_a_type_of_a_class_has_a_column_a_value_and_a_grammar(
    kind: Any, value: Any, column: str, row: Any, wrong: list[Any]
) -> None:
    schema = load_schema(create_model("Holder", x=(kind, ...)))
    assert spark_ddl(schema) == f"x {column}"
    verdict = Validator(schema).validate(json.dumps({"x": value}))
    assert isinstance(verdict, Valid), verdict
    assert accepts(build_grammar(schema).text, render(schema, {"x": value}))
    seen = pa.array([to_arrow_value(schema, verdict.value)], type=arrow_type(schema)).to_pylist()
    assert seen == [{"x": row}]
    for bad in wrong:
        assert isinstance(Validator(schema).validate(json.dumps({"x": bad})), Invalid), bad


def test_aliases_configuration_generics_and_root_models_are_read() -> None:
    Item = TypeVar("Item")

    class Page(BaseModel, Generic[Item]):
        model_config = ConfigDict(alias_generator=lambda name: f"the-{name}", extra="forbid")
        items: list[Item]

    class Names(RootModel[dict[str, int]]):
        pass

    schema = load_schema(Page[Inner])
    assert spark_ddl(schema) == "`the-items` ARRAY<STRUCT<n: BIGINT NOT NULL>> NOT NULL"
    assert isinstance(Validator(schema).validate('{"the-items": [{"n": 1}]}'), Valid)
    assert spark_ddl(load_schema(Names)) == "value MAP<STRING, BIGINT>"


def test_recursion_is_bounded_by_depth_with_a_message_that_says_so() -> None:
    class Part(BaseModel):
        name: str
        parts: list[Part] = []

    schema = load_schema(Part)
    deep: dict[str, Any] = {"name": "x", "parts": []}
    for _ in range(10):
        deep = {"name": "x", "parts": [deep]}
    assert isinstance(Validator(schema, max_depth=32).validate(json.dumps(deep)), Valid)
    refused = Validator(schema, max_depth=8).validate(json.dumps(deep))
    assert isinstance(refused, Invalid)
    assert "8" in refused.errors[0].message

    class Endless(BaseModel):
        inner: Endless

    with pytest.raises(SchemaError, match="no value can satisfy"):
        build_grammar(load_schema(Endless))


DRAFTS = {
    "http://json-schema.org/draft-07/schema#": {
        "definitions": {"money": {"type": "number", "exclusiveMinimum": 0}},
        "properties": {
            "pair": {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False, "type": "array"},
            "total": {"$ref": "#/definitions/money"},
        },
        "dependencies": {"pair": ["total"]},
    },
    "https://json-schema.org/draft/2019-09/schema": {
        "$defs": {"money": {"$anchor": "money", "type": "number", "exclusiveMinimum": 0}},
        "properties": {
            "pair": {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False, "type": "array"},
            "total": {"$ref": "#money"},
        },
        "dependentRequired": {"pair": ["total"]},
    },
    "https://json-schema.org/draft/2020-12/schema": {
        "$defs": {"money": {"type": "number", "exclusiveMinimum": 0}},
        "properties": {
            "pair": {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "type": "array"},
            "total": {"$ref": "#/$defs/money"},
        },
        "dependentRequired": {"pair": ["total"]},
    },
}


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_same_record_in_three_drafts_is_one_schema(draft: str) -> None:
    schema = load_schema({"$schema": draft, "type": "object", **DRAFTS[draft]})
    assert spark_ddl(schema) == "pair STRUCT<_1: BIGINT, _2: STRING>, total DOUBLE"
    validator, grammar = Validator(schema), build_grammar(schema, layout="spaced").text
    assert isinstance(validator.validate('{"pair": [1, "a"], "total": 2.5}'), Valid)
    assert accepts(grammar, '{"pair": [1, "a"], "total": 2.5}')
    for bad in ('{"pair": [1, "a", 2], "total": 1}', '{"pair": [1]}', '{"total": 0}', '{"total": 1, "x": 1}'):
        assert isinstance(validator.validate(bad), Invalid), bad


def test_ddl_reads_the_types_that_spark_writes_and_its_records_fit_them() -> None:
    ddl = "id BIGINT NOT NULL, items ARRAY<STRUCT<sku: STRING NOT NULL, price: DECIMAL(10,2)>>, m MAP<STRING, INT>"
    schema = load_schema(ddl)
    assert spark_ddl(schema) == ddl
    value = {"id": 1, "items": [{"sku": "a", "price": 1.25}, None], "m": {"k": 2, "z": None}}
    verdict = Validator(schema).validate(json.dumps(value))
    assert isinstance(verdict, Valid)
    assert accepts(build_grammar(schema).text, render(schema, value))
    row = pa.array([to_arrow_value(schema, verdict.value)], type=arrow_type(schema)).to_pylist()[0]
    assert row == {"id": 1, "items": [{"sku": "a", "price": Decimal("1.25")}, None], "m": [("k", 2), ("z", None)]}


def test_formats_decide_unless_they_are_annotations() -> None:
    document = {"type": "object", "properties": {"d": {"type": "string", "format": "date"}}, "required": ["d"]}
    checked, noted = load_schema(document), load_schema(document, formats="annotate")
    assert (spark_ddl(checked), spark_ddl(noted)) == ("d DATE NOT NULL", "d STRING NOT NULL")
    assert isinstance(Validator(checked).validate('{"d": "soon"}'), Invalid)
    assert isinstance(Validator(noted).validate('{"d": "soon"}'), Valid)
    assert accepts(build_grammar(noted, layout="spaced").text, '{"d": "soon"}')
    for spec in (Inner, "d DATE"):
        with pytest.raises(SchemaError, match="always checked"):
            load_schema(spec, formats="annotate")
