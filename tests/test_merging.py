"""Merging: chunk values become the document's value, and nothing is dropped in silence."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from pipeline.chunking import split_document
from pipeline.data import Document
from pipeline.errors import SchemaError
from pipeline.merging import Conflict, Merger
from pipeline.schema import load_schema
from pipeline.validation import Validator


class Order(BaseModel):
    order_id: str
    amount: float | None = None


class Address(BaseModel):
    city: str | None = None
    street: str | None = None


class Account(BaseModel):
    user: str | None = None
    count: int | None = Field(default=None, json_schema_extra={"merge": "max"})
    active: bool | None = None
    orders: list[Order] = Field(default=[], json_schema_extra={"merge": "concat", "key": "order_id"})
    tags: list[str] = []
    address: Address | None = None


def merger(**properties: Any) -> Merger:
    return Merger({"type": "object", "properties": properties})


def test_one_value_comes_back_as_it_is() -> None:
    value = {"z": 1, "orders": [{"order_id": "a"}, {"order_id": "a"}]}
    merged = Merger(load_schema(Account).json_schema).merge([value])
    assert merged.value == value
    assert not merged.conflicts


def test_fields_are_merged_by_their_type() -> None:
    merged = Merger(load_schema(Account).json_schema).merge(
        [
            {"user": None, "count": 2, "active": True, "orders": [{"order_id": "1", "amount": 5.0}], "tags": ["a"]},
            {
                "user": "",
                "count": 7,
                "active": False,
                "orders": [{"order_id": "2", "amount": None}],
                "tags": ["a", "b"],
            },
            {"user": "Ann", "count": 3, "active": False, "address": {"city": "Bonn", "street": None}},
            {"user": None, "address": {"city": None, "street": "Weg 1"}, "orders": [{"order_id": "2", "amount": 8}]},
        ]
    )
    assert merged.value == {
        "user": "Ann",
        "count": 7,
        "active": False,
        "orders": [{"order_id": "1", "amount": 5.0}, {"order_id": "2", "amount": 8}],
        "tags": ["a", "b"],
        "address": {"city": "Bonn", "street": "Weg 1"},
    }
    assert [(c.path, c.policy, c.values, c.kept) for c in merged.conflicts] == [
        ("/count", "max", (2, 7, 3), 7),
        ("/active", "vote", (True, False), False),
    ]
    assert merged.num_duplicates == 2
    assert not merged.fatal


@pytest.mark.parametrize(
    ("policy", "values", "kept"),
    [
        ("first", ["a", "b", "a"], "a"),
        ("last", ["a", "b", None], "b"),
        ("max", [3, 10, 2.5], 10),
        ("max", ["2024-01-31", "2024-02-01"], "2024-02-01"),
        ("vote", ["a", "b", "b"], "b"),
        ("vote", ["b", "a"], "b"),
        ("concat", ["a", "b", "a"], "a\nb"),
        ("error", ["a", "b"], "a"),
    ],
)
def test_a_policy_in_the_schema_decides(policy: str, values: list[Any], kept: Any) -> None:
    merged = merger(f={"merge": policy}).merge([{"f": value} for value in values])
    assert merged.value == {"f": kept}
    assert bool(merged.fatal) == (policy == "error")
    if policy != "concat":
        assert [c.path for c in merged.conflicts] == ["/f"]


def test_a_conflict_under_the_policy_error_is_the_loops_conflict_text() -> None:
    outcome = merger(total={"type": "number", "merge": "error"})([{"total": 1}, {"total": 2.5}])
    assert isinstance(outcome, str)
    assert "/total" in outcome
    assert "2.5" in outcome
    assert merger(total={"type": "number", "merge": "error"})([{"total": 1}, {"total": 1.0}]) == (
        {"total": 1},
        '{"total":1}',
    )


def test_conflicts_inside_items_with_one_key_are_recorded_with_their_path() -> None:
    merged = Merger(load_schema(Account).json_schema).merge(
        [{"orders": [{"order_id": "x"}, {"order_id": "1", "amount": 5}]}, {"orders": [{"order_id": "1", "amount": 6}]}]
    )
    assert merged.conflicts == (Conflict("/orders/1/amount", "first", (5, 6), 5),)


def test_equal_items_of_one_chunk_stay_and_those_of_two_chunks_count_once() -> None:
    coffee, tea = {"item": "coffee", "price": 2}, {"item": "tea", "price": 3}
    merged = merger(lines={"type": "array"}).merge([{"lines": [coffee, coffee, tea]}, {"lines": [tea, coffee]}])
    assert merged.value["lines"] == [coffee, coffee, tea]
    assert merged.num_duplicates == 2


def test_an_item_cut_off_at_a_border_gives_way_to_the_complete_one() -> None:
    whole = {"id": "7", "amount": 5, "city": "Bonn"}
    lists = merger(orders={"type": "array"})
    before = lists.merge([{"orders": [{"id": "6"}, {"id": "7", "amount": 5, "city": None}]}, {"orders": [whole]}])
    after = lists.merge([{"orders": [{"id": "6"}, whole]}, {"orders": [{"id": None, "city": "Bonn"}, {"id": "8"}]}])
    assert before.value["orders"] == [{"id": "6"}, whole]
    assert after.value["orders"] == [{"id": "6"}, whole, {"id": "8"}]


def test_alternatives_of_a_union_are_never_mixed() -> None:
    union = {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]}
    merged = merger(f=union).merge([{"f": {"a": 1}}, {"f": {"b": 2}}])
    assert merged.value == {"f": {"a": 1}}
    assert len(merged.conflicts) == 1


def test_too_many_items_are_a_fatal_conflict() -> None:
    outcome = merger(f={"type": "array", "maxItems": 2})([{"f": [1, 2]}, {"f": [3]}])
    assert isinstance(outcome, str)
    assert "/f" in outcome


def test_the_merged_value_is_validated_again() -> None:
    class Few(BaseModel):
        names: list[str] = Field(min_length=0, json_schema_extra={"uniqueItems": True})

    schema = load_schema(Few)
    checked = Merger(schema.json_schema, validator=Validator(schema))
    assert checked([{"names": ["a"]}, {"names": ["b"]}]) == ({"names": ["a", "b"]}, '{"names":["a","b"]}')
    assert isinstance(checked([{"names": ["a"]}, {"names": [1]}]), str)


@pytest.mark.parametrize(
    ("node", "word"),
    [
        ({"type": "string", "merge": "newest"}, "newest"),
        ({"type": "integer", "merge": "concat"}, "concat"),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {}}}, "key": "b"}, "'b'"),
        ({"type": "string", "key": "b"}, "'b'"),
    ],
)
def test_a_wrong_policy_names_its_place(node: dict[str, Any], word: str) -> None:
    with pytest.raises(SchemaError, match=word) as caught:
        merger(f=node)
    assert caught.value.path == "#/properties/f"


TEXT = st.text(alphabet="abc 订单", min_size=1, max_size=6).filter(str.strip)
ORDERS = st.lists(
    st.fixed_dictionaries({"order_id": TEXT, "amount": st.none() | st.integers(0, 9)}),
    max_size=8,
    unique_by=lambda order: order["order_id"],
)
RECORDS = st.fixed_dictionaries(
    {
        "user": st.none() | TEXT,
        "count": st.none() | st.integers(0, 9),
        "active": st.none() | st.booleans(),
        "orders": ORDERS,
        "tags": st.lists(TEXT, max_size=6, unique=True),
        "address": st.none() | st.fixed_dictionaries({"city": TEXT, "street": st.none() | TEXT}),
    }
)


@given(record=RECORDS, data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_record_spread_over_overlapping_chunks_is_put_together_again(record: dict[str, Any], data: Any) -> None:
    num_chunks = data.draw(st.integers(1, 4))
    parts: list[dict[str, Any]] = [{} for _ in range(num_chunks)]
    for name, value in record.items():
        if isinstance(value, list):
            cuts = sorted(
                data.draw(st.lists(st.integers(0, len(value)), min_size=num_chunks - 1, max_size=num_chunks - 1))
            )
            for part, low, high in zip(parts, [0, *cuts], [*cuts, len(value)], strict=True):
                part[name] = value[max(0, low - data.draw(st.integers(0, 2))) : high]
        else:
            seen = data.draw(st.sets(st.integers(0, num_chunks - 1), min_size=1))
            for index, part in enumerate(parts):
                part[name] = value if index in seen else None
    merged = Merger(load_schema(Account).json_schema).merge(parts)
    assert merged.value == record
    assert not merged.conflicts


def read(text: str) -> dict[str, Any]:
    """A perfect extractor for the documents below."""
    user = re.search(r"^User: (.+)$", text, re.MULTILINE)
    rows = re.findall(r"^(\S+)\t(\d+)\t", text, re.MULTILINE)
    remark = re.search(r"^Remark: (.+)$", text, re.MULTILINE)
    return {
        "user": user[1] if user else None,
        "remark": remark[1] if remark else None,
        "orders": [{"order_id": number, "amount": int(amount)} for number, amount in rows],
    }


class CharTokenizer:
    def count(self, text: str, /) -> int:
        return len(text)


@given(
    numbers=st.lists(st.from_regex(r"[A-Z]-[0-9]{1,4}", fullmatch=True), max_size=40),
    max_tokens=st.integers(200, 2000),
    overlap=st.integers(0, 90),
    repeat=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_splitting_and_merging_gives_the_record_of_the_whole_document(
    numbers: list[str], max_tokens: int, overlap: int, repeat: bool
) -> None:
    numbers = list(dict.fromkeys(numbers))
    rows = "".join(f"{number}\t{index * 7}\tsent to Bonn\n" for index, number in enumerate(numbers))
    text = f"User: 王 Ann\n\nnumber\tamount\tstate\n{rows}\nRemark: call first\n"
    chunks = split_document(
        Document("d", text),
        tokenizer=CharTokenizer(),
        max_tokens=max_tokens,
        overlap_tokens=overlap,
        repeat_preamble=repeat,
        key_for=str,
    )
    schema = {"type": "object", "properties": {"user": {}, "remark": {}, "orders": {"type": "array"}}}
    merged = Merger(schema).merge([read(chunk.text) for chunk in chunks])
    assert merged.value == read(text)
    assert not merged.conflicts
