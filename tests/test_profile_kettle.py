"""The kettle profile's values: texts only, three levels, and the way back for every record."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.field_types import FieldType
from pipeline.profile_form import CONTAINERS
from pipeline.profile_kettle import MAX_LEVELS, KettleForm
from pipeline.profiles import Loss, load_profile
from pipeline.strict_json import loads
from tests.consumers.shipment import shipment_schema, shipments
from tests.consumers.types import RECORD_TYPES, values

NULL = "\\N"  # no text strategy makes it without luck; a text equal to it is a loss, which the property allows


def depth(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max((depth(child) for child in children), default=0)


def scalars(value: Any) -> list[Any]:
    if isinstance(value, dict | list):
        children = value.values() if isinstance(value, dict) else value
        return [leaf for child in children for leaf in scalars(child)]
    return [value]


def test_names_of_what_lies_too_deep_are_joined_and_numbered() -> None:
    value = load_profile("kettle", shipment_schema().json_schema).to_value(shipments()[0])
    assert isinstance(value, dict)
    assert value["stops"][0] == {
        "place_city": "北京", "place_country": "中国", "arrived": "2026-01-03T00:00:00Z", "delay_minutes": "",
        "remarks_count": "2", "remarks_1": "到达", "remarks_2": "已签收 \U0001f4e6",
    }  # fmt: skip
    assert value["stops"][1]["remarks_count"] == "0"
    assert value["sender"] == {"city": "Köln", "country": "DE"}
    assert value["codes"] == ["1", "-2", "9223372036854775807"]
    assert (value["number"], value["weight"], value["fragile"]) == ("9180000000000", "12.5", "true")
    assert value["value"] == "1234567890.1250"


def test_an_object_that_is_null_has_all_its_names_so_that_rows_have_the_same_structure() -> None:
    value = load_profile("kettle", shipment_schema().json_schema).to_value(shipments()[1])
    assert isinstance(value, dict)
    assert value["sender"] == {"city": "", "country": ""}
    assert value["due"] == ""


def test_a_text_that_could_be_taken_for_null_is_a_loss_with_a_way_out() -> None:
    result = load_profile("kettle", shipment_schema().json_schema).to_value(shipments()[2])
    assert isinstance(result, Loss)
    assert "kettle:null=" in result.why
    other = load_profile("kettle:null=\\N", shipment_schema().json_schema).to_value(shipments()[2])
    assert isinstance(other, dict)
    assert other["stops"][0]["place_country"] == ""
    assert other["sender"] == {"city": "", "country": "\\N"}


def test_a_list_of_lists_of_objects_keeps_every_value() -> None:
    item = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    schema = {
        "type": "object",
        "properties": {"grid": {"type": "array", "items": {"type": "array", "items": item}}},
        "required": ["grid"],
    }
    profile = load_profile("kettle", schema)
    value = profile.to_value({"grid": [[{"x": 1}, {"x": 2}], []]})
    assert value == {"grid": [{"count": "2", "1_x": "1", "2_x": "2"}, {"count": "0"}]}


def test_places_with_no_single_type_are_json_text() -> None:
    schema = {"type": "object", "properties": {"x": {"type": ["integer", "string", "array"]}}, "required": ["x"]}
    profile = load_profile("kettle", schema)
    assert [profile.to_value({"x": x}) for x in (1, "1", [1, "a"])] == [{"x": "1"}, {"x": '"1"'}, {"x": '[1,"a"]'}]


def test_names_that_must_collide_are_refused_when_the_profile_is_loaded() -> None:
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    item = {"type": "object", "properties": {"place_city": {"type": "string"}, "place": place}}
    schema = {"type": "object", "properties": {"stops": {"type": "array", "items": item}}}
    with pytest.raises(SchemaError, match="place_city"):
        load_profile("kettle", schema)


def test_names_that_collide_by_chance_are_a_loss() -> None:
    tags = {"type": "array", "items": {"type": "string"}}
    item = {
        "type": "object",
        "properties": {"tags_1": {"type": "string"}, "tags": tags},
        "required": ["tags_1", "tags"],
    }
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": item}}, "required": ["rows"]}
    profile = load_profile("kettle", schema)
    assert isinstance(profile.to_value({"rows": [{"tags_1": "a", "tags": []}]}), dict)
    assert profile.to_value({"rows": [{"tags_1": "a", "tags": ["b"]}]}) == Loss(
        "/rows/0/tags/0", "two values would be called 'tags_1'"
    )


def test_maps_flatten_by_their_keys_and_keys_that_meet_are_a_loss() -> None:
    inner = {"type": "object", "additionalProperties": {"type": "integer"}}
    prices = {"type": "object", "additionalProperties": inner}
    schema = {
        "type": "object",
        "properties": {"p": {"type": "object", "additionalProperties": prices}},
        "required": ["p"],
    }
    profile = load_profile("kettle", schema)
    assert profile.to_value({"p": {"eu": {"de": {"x": 1, "y": 2}, "fr": {}}, "us": {}}}) == {
        "p": {"eu": {"de_x": "1", "de_y": "2", "fr": ""}, "us": {}}
    }
    assert isinstance(profile.to_value({"p": {"eu": {"a_b": {"c": 1}, "a": {"b_c": 2}}}}), Loss)


def test_keys_beyond_the_declared_fields_are_kept() -> None:
    properties = {"a": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": {"type": "number"}}
    assert load_profile("kettle", schema).to_value({"a": "x", "b": 0.5}) == {"a": "x", "b": "0.5"}
    assert load_profile("java", schema).to_value({"a": "x", "b": 0.5}) == {"a": "x", "b": 0.5}


def test_tuples_keep_their_places() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2}
    schema = {"type": "object", "properties": {"pairs": {"type": "array", "items": pair}}, "required": ["pairs"]}
    assert load_profile("kettle", schema).to_value({"pairs": [[1, "a"]]}) == {"pairs": [["1", "a"]]}


def test_a_nul_character_is_a_loss() -> None:
    profile = load_profile("kettle", {"type": "object", "additionalProperties": {"type": "string"}})
    assert isinstance(profile.to_value({"k": "a\0b"}), Loss)
    assert isinstance(profile.to_value({"a\0b": "k"}), Loss)


@given(st.data())
def test_every_record_has_only_texts_within_three_levels_and_can_be_restored(data: st.DataObject) -> None:
    type_ = data.draw(RECORD_TYPES)
    value = data.draw(values(type_))
    losses: list[str] = []
    result = KettleForm(type_, {"null": NULL}).convert(value, lambda path, why: losses.append(why))
    if losses:
        assert all("null" in why for why in losses)
        assert NULL in scalars(value)
        return
    assert depth(result) <= MAX_LEVELS
    assert all(isinstance(leaf, str) for leaf in scalars(result))
    assert essence(type_, restore(type_, result, 1)) == essence(type_, value)


def restore(type_: FieldType, out: Any, level: int) -> Any:
    """Independent way back from a kettle value to the record."""
    if type_.kind not in CONTAINERS or out == NULL:
        return parse(type_, out)
    if level == MAX_LEVELS and any(c.kind in CONTAINERS for c in [f.type for f in type_.fields] + [type_.item] if c):
        return unflatten(type_, "", out)
    if type_.kind == "list":
        assert type_.item is not None
        return [restore(type_.item, item, level + 1) for item in out]
    return {f.name: restore(f.type, out[f.name], level + 1) for f in type_.fields}


def unflatten(type_: FieldType, name: str, texts: dict[str, str]) -> Any:
    prefix = f"{name}_" if name else ""
    if type_.kind == "struct":
        return {f.name: unflatten(f.type, prefix + f.name, texts) for f in type_.fields}
    if type_.kind == "list":
        assert type_.item is not None
        count = texts[prefix + "count"]
        return None if count == NULL else [unflatten(type_.item, f"{prefix}{i + 1}", texts) for i in range(int(count))]
    return parse(type_, texts[name])


def parse(type_: FieldType, text: str) -> Any:
    if text == NULL:
        return None
    if type_.kind == "decimal":
        return Decimal(text)
    return loads(text) if type_.kind in ("boolean", "integer", "number") else text


def essence(type_: FieldType, value: Any) -> Any:
    """A value without what the profile documents as one: absent, null, and an object without any value."""
    if isinstance(value, dict):
        fields = {f.name: essence(f.type, value.get(f.name)) for f in type_.fields}
        return fields if any(item is not None for item in fields.values()) else None
    if isinstance(value, list):
        assert type_.item is not None
        return [essence(type_.item, item) for item in value]
    return value
