"""Every form of a schema becomes one canonical form, with columns that are the same in Arrow and Spark."""

import json
import pickle
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import AliasChoices, BaseModel, Field

from pipeline.errors import SchemaError
from pipeline.schema import arrow_type, load_schema, spark_ddl, to_arrow_value
from pipeline.validation import Valid, Validator
from tests.conftest import ROOT
from tests.schema_classes import Everything, Tree

EVERYTHING = {
    "text": " hi ", "code": "AB12", "count": 3.0, "rate": 0.1, "price": 12.50, "flag": True, "day": "2024-02-29",
    "moment": "2024-02-29T13:45:00+02:00", "local": "2024-02-29T13:45:00", "clock": "13:45:00",
    "ident": "123e4567-e89b-12d3-a456-426614174000", "colour": "red", "level": "low", "tags": ["a", "b"],
    "pair": [1, "x"], "scores": {"a": 1.5}, "pet": {"kind": "cat", "lives": 9}, "given-name": "Anna", "blob": "é",
}  # fmt: skip


def test_all_forms_of_a_schema_give_the_same_columns(tmp_path: Path) -> None:
    document = {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "items": {"type": "array", "items": {"type": "string"}}},
        "required": ["id", "items"],
    }
    (tmp_path / "order.json").write_text(json.dumps(document))
    (tmp_path / "order.py").write_text(
        "from pydantic import BaseModel\nclass Order(BaseModel):\n    id: int\n    items: list[str]\n"
    )
    loaded = [
        load_schema(document),
        load_schema(json.dumps(document)),
        load_schema(str(tmp_path / "order.json")),
        load_schema(f"{tmp_path}/order.py:Order"),
    ]
    assert {spark_ddl(schema) for schema in loaded} == {"id BIGINT NOT NULL, items ARRAY<STRING> NOT NULL"}
    assert {schema.name for schema in loaded} == {"Order"}
    assert len({schema.fingerprint for schema in loaded[:3]}) == 1


def test_spark_ddl_comes_back_as_it_was_read() -> None:
    ddl = "id BIGINT NOT NULL, price DECIMAL(10,2), tags ARRAY<STRING>, at TIMESTAMP, n INT, m MAP<STRING, DOUBLE>, `a b` STRUCT<x: DATE NOT NULL>"  # noqa: E501
    schema = load_schema(ddl)
    assert spark_ddl(schema) == ddl
    assert schema.source == "ddl"


@pytest.mark.parametrize(
    ("ddl", "part"),
    [
        ("id BIGINT, id STRING", "twice"), ("id BIGINT,", "column name"), ("a ARRAY<STRING", "expected '>'"),
        ("a MAP<INT, STRING>", "keys"), ("a STRING b", "unexpected"), ("a STRING NOT", "NULL"),
        ("a ARRAY<INTERVAL>", "not supported"),
    ],
)  # fmt: skip
def test_wrong_ddl_is_refused_with_the_place(ddl: str, part: str) -> None:
    with pytest.raises(SchemaError, match=part):
        load_schema(ddl)


def test_older_drafts_become_the_newest() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"n": {"type": "integer"}},
        "properties": {
            "pair": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False},
            "n": {"$ref": "#/definitions/n", "maximum": 1},
        },
        "dependencies": {"pair": ["n"]},
    }
    validator = Validator(load_schema(old))
    assert isinstance(validator.validate('{"pair":[1,"a"],"n":5}'), Valid)  # draft 7 ignores what stands beside $ref
    assert not isinstance(validator.validate('{"pair":[1,"a"]}'), Valid)
    assert not isinstance(validator.validate('{"pair":[1,"a",2],"n":5}'), Valid)


def test_combined_objects_are_closed_as_one() -> None:
    schema = load_schema({
        "$defs": {"base": {"properties": {"id": {"type": "integer"}}, "required": ["id"]}},
        "type": "object", "allOf": [{"$ref": "#/$defs/base"}], "properties": {"name": {"type": "string"}},
    })  # fmt: skip
    validator = Validator(schema)
    assert isinstance(validator.validate('{"id":1,"name":"a"}'), Valid)
    assert not isinstance(validator.validate('{"id":1,"x":"a"}'), Valid)
    assert spark_ddl(schema) == "name STRING, id BIGINT NOT NULL"


def test_a_reference_may_name_a_file_beside_the_schema_but_none_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "address.json").write_text('{"type":"object","properties":{"city":{"type":"string"}}}')
    (tmp_path / "main.json").write_text('{"type":"object","properties":{"a":{"$ref":"parts/address.json"}}}')
    assert spark_ddl(load_schema(str(tmp_path / "main.json"))) == "a STRUCT<city: STRING>"
    (tmp_path / "parts" / "main.json").write_text('{"type":"object","properties":{"a":{"$ref":"../main.json"}}}')
    (tmp_path / "main.json").write_text('{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}')
    with pytest.raises(SchemaError, match="leaves this document"):
        load_schema(str(tmp_path / "main.json"))


def test_every_type_has_a_column_and_a_value_for_it() -> None:
    schema = load_schema(Everything)
    verdict = Validator(schema).validate(json.dumps(EVERYTHING))
    assert isinstance(verdict, Valid), verdict
    row = pa.array([to_arrow_value(schema, verdict.value)], type=arrow_type(schema)).to_pylist()[0]
    assert row["text"] == "hi"
    assert row["count"] == 3
    assert row["price"] == Decimal("12.50")
    assert row["day"] == date(2024, 2, 29)
    assert row["moment"] == datetime(2024, 2, 29, 11, 45, tzinfo=UTC)
    assert row["local"] == datetime(2024, 2, 29, 13, 45)
    assert sorted(row["tags"]) == ["a", "b"]
    assert row["pair"] == {"_1": 1, "_2": "x"}
    assert row["scores"] == [("a", 1.5)]
    assert row["pet"] == {"kind": "cat", "lives": 9, "tricks": None}
    assert row["given-name"] == "Anna"
    assert row["blob"] == "é".encode()
    assert row["note"] is None
    assert "shout" not in row


def test_arrow_and_spark_agree_on_every_column() -> None:
    schema = load_schema(Everything)
    names = {
        pa.string(): "STRING", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.date32(): "DATE",
        pa.timestamp("us", "UTC"): "TIMESTAMP", pa.timestamp("us"): "TIMESTAMP_NTZ",
        pa.decimal128(12, 2): "DECIMAL(12,2)", pa.binary(): "BINARY",
    }  # fmt: skip
    ddl = spark_ddl(schema)
    for field in arrow_type(schema):
        name = f"`{field.name}`" if "-" in field.name else field.name
        if field.type in names:
            assert f"{name} {names[field.type]}{'' if field.nullable else ' NOT NULL'}" in ddl


def test_a_recursive_class_is_typed_to_its_first_level_and_json_text_below() -> None:
    schema = load_schema(Tree)
    assert spark_ddl(schema) == "name STRING NOT NULL, children ARRAY<STRING>"
    value = {"name": "a", "children": [{"name": "b", "children": []}]}
    assert to_arrow_value(schema, value) == {"name": "a", "children": ['{"name":"b","children":[]}']}


def test_mixed_types_are_kept_as_json_text() -> None:
    schema = load_schema({"type": "object", "properties": {"v": {"type": ["integer", "string"]}}, "required": ["v"]})
    assert to_arrow_value(schema, {"v": 1}) == {"v": "1"}
    assert to_arrow_value(schema, {"v": "1"}) == {"v": '"1"'}


def test_fields_that_spark_cannot_tell_apart_are_refused() -> None:
    schema = load_schema({"type": "object", "properties": {"a": {"type": "string"}, "A": {"type": "string"}}})
    with pytest.raises(SchemaError, match="differ only in case"):
        arrow_type(schema)


@pytest.mark.parametrize("root", [{"type": "array"}, {"type": ["object", "null"]}, {"type": "string"}, {"anyOf": [{"type": "object"}, {"type": "integer"}]}])  # fmt: skip  # noqa: E501
def test_a_root_that_is_no_object_is_refused(root: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="must be an object"):
        load_schema(root)


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ("missing.json", "cannot read"), ("missing.py:X", "cannot read"), ("os:path", "not a Pydantic class"),
        ("no.such.module:X", "cannot import"), ("schemas/orders.py", "names no class"), ("hello world", "is no schema"),
        ("tests.schema_classes:Nope", "Everything"),
    ],
)  # fmt: skip
def test_an_unusable_spec_is_refused_in_one_line(spec: str, part: str) -> None:
    with pytest.raises(SchemaError, match=part) as caught:
        load_schema(spec)
    assert "\n" not in str(caught.value)


def test_a_file_that_fails_when_run_says_how(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(SchemaError, match="ended the process"):
        load_schema(f"{tmp_path}/bad.py:X")


def test_a_class_that_reads_and_writes_different_names_is_refused() -> None:
    class Person(BaseModel):
        name: str = Field(validation_alias=AliasChoices("Name", "name"), serialization_alias="label")

    with pytest.raises(SchemaError, match="under one name"):
        load_schema(Person)


@pytest.mark.parametrize("place", ["file", "import path", "notebook"])
def test_a_schema_pickles_into_another_process(place: str, tmp_path: Path) -> None:
    source = "from pydantic import BaseModel\nclass Thing(BaseModel):\n    n: int\n"
    file = tmp_path / "thing.py"
    file.write_text(source)
    if place == "file":
        schema = load_schema(f"{file}:Thing")
    elif place == "import path":
        schema = load_schema("tests.schema_classes:Tree")
    else:
        made = tmp_path / "notebook.py"
        made.write_text(
            source + f"import pickle, sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom pipeline.schema import load_schema\n"
            f"open({str(tmp_path / 's.pickle')!r}, 'wb').write(pickle.dumps(load_schema(Thing)))\n"
        )
        subprocess.run([sys.executable, str(made)], check=True)
    if place != "notebook":
        (tmp_path / "s.pickle").write_bytes(pickle.dumps(schema))
    file.unlink()
    code = (
        f"import pickle; s = pickle.load(open({str(tmp_path / 's.pickle')!r}, 'rb'))\n"
        "from pipeline.validation import Validator\n"
        'print(s.model_class().__name__, type(Validator(s).validate(\'{"n": "x"}\')).__name__)'
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Tree" if place == "import path" else "Thing", "Invalid"]


def test_a_changed_validator_changes_the_fingerprint(tmp_path: Path) -> None:
    text = (
        "from pydantic import BaseModel, field_validator\nclass T(BaseModel):\n    n: int\n    @field_validator('n')\n"
        "    @classmethod\n    def check(cls, v):\n        return v + {}\n"
    )
    (tmp_path / "one.py").write_text(text.format(1))
    (tmp_path / "two.py").write_text(text.format(2))
    one, two = (load_schema(f"{tmp_path}/{name}.py:T").fingerprint for name in ("one", "two"))
    assert one != two
