"""Profiles by name, their composition, the text of a line, and the golden bytes of every profile."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.field_types import FieldType
from pipeline.formats import EXTRA_FORMATS
from pipeline.profile_schema import json_schema_of
from pipeline.profiles import PROFILES, Loss, load_profile
from pipeline.schema import Schema, load_schema
from pipeline.strict_json import loads
from tests.consumers.shipment import shipment_schema, shipments, valid
from tests.consumers.types import TEXTS

GOLDEN = Path(__file__).parent / "golden"
SAMPLES = Path(__file__).parents[1] / "pipeline" / "samples"
SAMPLE_SETS = {
    "orders": "schemas.orders:CustomerOrders",
    "receipts": "schemas.receipts:Receipt",
    "jobs": "schemas.job_ads:JobAd",
    "orders_zh": "schemas.orders_zh:OrderZh",
}
NAMES = ["spark", "java", "kettle", "ascii", "java+ascii", "kettle+ascii", "java:tz=Asia/Shanghai,decimals=string"]
ANY_STRING = {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}


def sample_records(name: str) -> tuple[Schema, list[tuple[str, Any]]]:
    schema = load_schema(SAMPLE_SETS[name])
    rows = [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return schema, [(row["id"], valid(schema, row["gold"])) for row in rows]


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_of_a_profile_are_the_golden_ones(name: str) -> None:
    profile = load_profile(name, shipment_schema().json_schema)
    values = shipments() if "kettle" not in name else shipments()[:2]  # the third has an empty text beside null
    lines = [profile.to_line(f"s-{number}", "doc_id", value) for number, value in enumerate(values)]
    for sample in ("receipts", "orders_zh"):
        schema, records = sample_records(sample)
        other = load_profile(name, schema.json_schema)
        lines += [other.to_line(doc_id, "doc_id", value) for doc_id, value in records[:4]]
    text = "".join(f"{line}\n" for line in lines).encode("utf-8")
    file = GOLDEN / f"{name.replace(':', '_').replace('/', '_').replace(',', '_').replace('=', '_')}.jsonl"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_bytes(text)
    assert text == file.read_bytes(), f"{file.name} differs; look at it, then set UPDATE_GOLDEN=1"


@pytest.mark.parametrize("sample", SAMPLE_SETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_sample_record_satisfies_the_schema_of_its_output_form(name: str, sample: str) -> None:
    schema, records = sample_records(sample)
    profile = load_profile(name, schema.json_schema)
    check = jsonschema_rs.Draft202012Validator(profile.json_schema, validate_formats=True, formats=EXTRA_FORMATS)
    for doc_id, value in records:
        line = profile.to_line(doc_id, "", value)
        assert isinstance(line, str), line
        if name not in {"spark", "ascii"}:  # these keep decimals as the texts that the class writes
            check.validate(json.loads(line))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("java2", "java2"), ("", "spark, java, kettle, ascii"), ("java+kettle", "both change values"),
        ("ascii+ascii", "twice"), ("java:zone=UTC", "zone"), ("java:tz=Mars/Olympus", "Mars/Olympus"),
        ("java:tz=../../etc/passwd", "no time zone"), ("java:decimals=float", "float"), ("kettle:nil=x", "nil"),
        ("java:tz", "name=value"), ("spark:tz=UTC", "no options"), ("Java", "Java"), ("java++ascii", "java"),
    ],
)  # fmt: skip
def test_a_wrong_profile_name_is_a_clear_error(name: str, word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_profile(name, ANY_STRING)
    assert word in str(caught.value)


def test_profiles_compose_in_any_order_and_options_may_hold_a_plus() -> None:
    schema = shipment_schema().json_schema
    value = shipments()[0]
    line = load_profile("java:tz=Etc/GMT+5+ascii", schema).to_line("d", "doc_id", value)
    assert line == load_profile("ascii+java:tz=Etc/GMT+5", schema).to_line("d", "doc_id", value)
    assert isinstance(line, str)
    assert line.isascii()
    plain = load_profile("java:tz=Etc/GMT+5", schema).to_line("d", "doc_id", value)
    assert isinstance(plain, str)
    assert json.loads(line) == json.loads(plain)


def test_spark_is_the_value_as_it_is_with_the_id_first() -> None:
    profile = load_profile("spark", shipment_schema().json_schema)
    value = shipments()[0]
    line = profile.to_line("doc 1", "id", value)
    assert isinstance(line, str)
    assert loads(line) == {"id": "doc 1", **value}
    assert next(iter(loads(line))) == "id"
    bare = profile.to_line("doc 1", "", value)
    assert isinstance(bare, str)
    assert loads(bare) == value


def test_a_record_key_of_the_id_fields_name_is_a_loss_and_nothing_is_replaced() -> None:
    profile = load_profile("spark", {"type": "object", "additionalProperties": {"type": "string"}})
    assert profile.to_line("d", "doc_id", {"doc_id": "mine"}) == Loss(
        "/doc_id", "the record has a key of the id field's name"
    )


@pytest.mark.parametrize("name", PROFILES)
def test_a_line_never_holds_a_line_end_of_any_kind(name: str) -> None:
    profile = load_profile(name, ANY_STRING)
    text = "a\nb\rc\x0bd\x0ce\x1cf\x85g\u2028h\u2029i"
    line = profile.to_line("d", "doc_id", {"s": text})
    assert isinstance(line, str)
    assert line.splitlines() == [line]
    assert json.loads(line)["s"] == text


@given(text=TEXTS, key=TEXTS)
def test_ascii_comes_back_as_the_same_text(text: str, key: str) -> None:
    profile = load_profile("ascii", {"type": "object", "additionalProperties": {"type": "string"}})
    line = profile.to_line(text, "doc_id", {"k" + key: text})
    assert isinstance(line, str)
    assert line.isascii()
    assert json.loads(line) == {"doc_id": text, "k" + key: text}


def test_ascii_writes_surrogate_pairs_for_characters_beyond_the_basic_plane() -> None:
    line = load_profile("ascii", ANY_STRING).to_line("d", "", {"s": "é中\U0001f600\x7f"})
    assert line == '{"s":"\\u00e9\\u4e2d\\ud83d\\ude00\x7f"}'


@settings(max_examples=30)
@given(st.sampled_from(NAMES))
def test_profiles_pickle_and_do_not_change_their_input(name: str) -> None:
    profile = pickle.loads(pickle.dumps(load_profile(name, shipment_schema().json_schema)))
    before = pickle.dumps(shipments()[0])
    first = profile.to_line("d", "doc_id", shipments()[0])
    assert pickle.dumps(shipments()[0]) == before
    assert profile.to_line("d", "doc_id", shipments()[0]) == first


def test_the_schema_of_a_nullable_type_allows_null() -> None:
    assert json_schema_of(FieldType("integer", nullable=True)) == {"type": ["integer", "null"]}
