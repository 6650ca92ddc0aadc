"""The real cJSON, which Kettle's C relatives use, reads the kettle profile: texts, three levels, nothing lost."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.profile_kettle import KettleForm
from pipeline.profiles import load_profile
from pipeline.strict_json import dumps
from tests.consumers.shipment import shipment_schema, shipments
from tests.consumers.tools import library
from tests.consumers.types import RECORD_TYPES, values
from tests.test_profile_kettle import NULL, depth, essence, restore, scalars
from tests.test_profiles import SAMPLE_SETS, sample_records

_ARRAY, _OBJECT, _STRING, _KINDS = 1 << 5, 1 << 6, 1 << 4, 0xFF


class Node(ctypes.Structure):
    """``struct cJSON`` of cJSON.h."""


Node._fields_ = [
    ("next", ctypes.POINTER(Node)), ("prev", ctypes.POINTER(Node)), ("child", ctypes.POINTER(Node)),
    ("type", ctypes.c_int), ("valuestring", ctypes.c_char_p), ("valueint", ctypes.c_int),
    ("valuedouble", ctypes.c_double), ("string", ctypes.c_char_p),
]  # fmt: skip


@pytest.fixture(scope="module")
def cjson() -> Any:
    lib = library("cjson")
    lib.cJSON_Parse.argtypes, lib.cJSON_Parse.restype = [ctypes.c_char_p], ctypes.POINTER(Node)
    lib.cJSON_Delete.argtypes, lib.cJSON_Delete.restype = [ctypes.POINTER(Node)], None
    return lib


def parse(lib: Any, line: str) -> Any:
    """A line as cJSON sees it, strings cut where C ends them."""
    root = lib.cJSON_Parse(line.encode("utf-8"))
    assert root, f"cJSON refuses {line[:200]}"
    try:
        return _value(root.contents)
    finally:
        lib.cJSON_Delete(root)


def _value(node: Node) -> Any:
    kind = node.type & _KINDS
    if kind == _STRING:
        return node.valuestring.decode("utf-8")
    children = []
    child = node.child
    while child:
        name = child.contents.string
        children.append((name.decode("utf-8") if name is not None else None, _value(child.contents)))
        child = child.contents.next
    if kind == _OBJECT:
        assert len({name for name, _ in children}) == len(children), "a name twice"
        return dict(children)
    assert kind == _ARRAY, f"cJSON type {kind} is neither text nor container"
    return [item for _, item in children]


@pytest.mark.parametrize("profile", ["kettle", "kettle+ascii"])
@pytest.mark.parametrize("sample", [*SAMPLE_SETS, "shipment"])
def test_cjson_reads_every_value_of_every_record_as_text(cjson: Any, sample: str, profile: str) -> None:
    if sample == "shipment":
        schema, records = shipment_schema(), [("s-0", shipments()[0]), ("s-1", shipments()[1])]
    else:
        schema, records = sample_records(sample)
    form = load_profile(profile, schema.json_schema)
    for doc_id, value in records:
        seen = parse(cjson, str(form.to_line(doc_id, "doc_id", value)))
        assert seen.pop("doc_id") == doc_id
        assert depth(seen) <= 3
        texts = scalars(seen)
        for leaf in scalars(value):
            text = "" if leaf is None else leaf if isinstance(leaf, str) else json.dumps(leaf)
            assert text in texts, f"{doc_id}: {leaf!r} is lost"


@settings(max_examples=200)
@given(st.data())
def test_any_record_can_be_restored_from_what_cjson_read(cjson: Any, data: st.DataObject) -> None:
    type_ = data.draw(RECORD_TYPES)
    value = data.draw(values(type_))
    losses: list[str] = []
    result = KettleForm(type_, {"null": NULL}).convert(value, lambda path, why: losses.append(why))
    if not losses:
        assert essence(type_, restore(type_, parse(cjson, dumps(result)), 1)) == essence(type_, value)


def test_plain_numbers_lose_digits_in_cjson_which_is_why_they_are_texts(cjson: Any) -> None:
    root = cjson.cJSON_Parse(b"9223372036854775807")
    assert int(root.contents.valuedouble) != 9223372036854775807
    cjson.cJSON_Delete(root)
    kettle = load_profile("kettle", shipment_schema().json_schema)
    assert "9223372036854775807" in parse(cjson, str(kettle.to_line("d", "doc_id", shipments()[0])))["codes"]
