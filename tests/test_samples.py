"""The sample documents: each gold value is valid for its schema and can be found in its text."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import pipeline

SAMPLES = Path(pipeline.__file__).parent / "samples"
SETS = {
    "orders": ("schemas.orders", "CustomerOrders", 40),
    "receipts": ("schemas.receipts", "Receipt", 24),
    "jobs": ("schemas.job_ads", "JobAd", 16),
    "orders_zh": ("schemas.orders_zh", "OrderZh", 24),
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def schema_of(name: str) -> type[BaseModel]:
    module, cls, _ = SETS[name]
    schema: type[BaseModel] = getattr(importlib.import_module(module), cls)
    return schema


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from leaves(child)
    else:
        yield value


def is_in(value: Any, text: str) -> bool:
    """Whether the text holds the value; letter case and thousands separators do not matter, digits must stand alone."""
    if value is None:
        return True
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    if isinstance(value, int | float):
        forms = {str(value), f"{value:g}", f"{value:.2f}"} | ({"One"} if value == 1 else set())
        number = "|".join(re.escape(form) for form in forms)
        return any(re.search(rf"(?<![\d.])(?:{number})(?!\d|\.\d)", form) for form in (text, plain))
    if INSTANT.fullmatch(value):
        return value in text or value.replace("T", " ").replace("Z", " UTC") in text
    return value.casefold() in text.casefold()


@pytest.mark.parametrize("name", SETS)
def test_each_set_has_its_documents_with_unique_ids_and_texts(name: str) -> None:
    rows = read(name)
    assert len(rows) == SETS[name][2]
    assert [row["id"] for row in rows] == [f"{name}-{number:03d}" for number in range(1, len(rows) + 1)]
    assert len({row["text"] for row in rows}) == len(rows)
    assert all(set(row) == {"id", "text", "gold"} for row in rows)


@pytest.mark.parametrize("name", SETS)
def test_every_gold_value_is_valid_and_comes_back_the_same(name: str) -> None:
    for row in read(name):
        record = schema_of(name).model_validate(row["gold"])
        again = json.loads(record.model_dump_json())
        assert comparable(again) == comparable(row["gold"]), row["id"]
        assert list(again) == list(row["gold"]), "keys are written in the schema's order"


def comparable(value: Any) -> Any:
    """Decimals become text in pydantic's JSON; compare them as numbers."""
    if isinstance(value, dict):
        return {key: comparable(child) for key, child in value.items()}
    if isinstance(value, list):
        return [comparable(child) for child in value]
    if isinstance(value, str) and re.fullmatch(r"\d+\.\d+", value):
        return float(value)
    return value


@pytest.mark.parametrize("name", SETS)
def test_every_value_of_a_record_stands_in_its_text(name: str) -> None:
    missing = [(row["id"], leaf) for row in read(name) for leaf in leaves(row["gold"]) if not is_in(leaf, row["text"])]
    assert missing == []


@pytest.mark.parametrize("name", SETS)
def test_examples_are_valid_and_are_no_members_of_the_set(name: str) -> None:
    examples = read(f"{name}_examples")
    texts = {row["text"] for row in read(name)}
    assert 2 <= len(examples) <= 5
    for example in examples:
        assert set(example) == {"text", "output"}
        assert example["text"] not in texts
        schema_of(name).model_validate(example["output"])
        assert all(is_in(leaf, example["text"]) for leaf in leaves(example["output"]))


def test_order_counts_and_times_are_consistent() -> None:
    for row in read("orders"):
        gold = row["gold"]
        assert gold["order_count"] == len(gold["orders"]), row["id"]
        times = [datetime.fromisoformat(order["timestamp"]) for order in gold["orders"]]
        assert times == sorted(times), row["id"]


@pytest.mark.parametrize("name", ["receipts", "orders_zh"])
def test_totals_are_the_sum_of_the_items(name: str) -> None:
    for row in read(name):
        cents = sum(round(item["quantity"] * item["price"] * 100) for item in row["gold"]["items"])
        assert cents == round(row["gold"]["total"] * 100), row["id"]


@pytest.mark.parametrize("name", SETS)
def test_every_field_of_a_schema_tells_the_model_what_it_is(name: str) -> None:
    schema = schema_of(name).model_json_schema()
    for part in [schema, *schema.get("$defs", {}).values()]:
        for key, field in part.get("properties", {}).items():
            assert field.get("description"), f"{name}: {key} has no description"
