"""Grounding: every span is checked by slicing the document."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.folding import FoldedText, fold
from pipeline.grounding import Grounder, Span
from pipeline.grounding_rule import GroundingRule
from pipeline.schema import load_schema


def one(text: str, value: Any) -> Span:
    (span,) = Grounder(text).ground(value)
    return span


def found(text: str, value: Any) -> tuple[str, str | None]:
    span = one(text, value)
    return span.kind, None if span.start is None else text[span.start : span.end]


@pytest.mark.parametrize(
    ("text", "value", "kind", "slice_"),
    [
        ("Order by Ann Lee, Bonn", "Ann Lee", "exact", "Ann Lee"),
        ("Annual report. Ann signed.", "Ann", "exact", "Ann"),
        ("Order by ANN\n  LEE, Bonn", "Ann Lee", "normalised", "ANN\n  LEE"),
        ("Caf\u0065\u0301 “Zur Post”", 'Café "Zur Post"', "normalised", "Cafe\u0301 “Zur Post”"),
        ("客户：王小明，电话１２３４５", "12345", "normalised", "１２３４５"),
        ("ＡＢＣ公司 ﬁnal", "abc公司 final", "normalised", "ＡＢＣ公司 ﬁnal"),
        ("地址:北京市东城区故宫博物院内", "北京市东城区故宫博物馆内", "fuzzy", "北京市东城区故宫博物院内"),
        ("shipped to 12 Long Strete, Bonn", "12 Long Street, Bonn", "fuzzy", "12 Long Strete, Bonn"),
        ("nothing of it", "Hamburg", "none", None),
        ("nothing of it", "", "none", None),
        ("Total: 24.90 EUR", 24.9, "normalised", "24.90"),
        ("Total: 1,234.50 EUR", 1234.5, "normalised", "1,234.50"),
        ("Summe: 1.234,50 EUR", 1234.5, "normalised", "1.234,50"),
        ("Total: 1 234,50", 1234.5, "normalised", "1 234,50"),
        ("2500 pieces, 5 boxes", 5, "exact", "5"),
        ("2500 pieces, 2.5 kg", 5, "none", None),
        ("合计１２３４元", 1234, "normalised", "１２３４"),
        ("质押79,964万股", 799640000, "normalised", "79,964万"),
        ("订购一千二百三十四件", 1234, "normalised", "一千二百三十四"),
        ("1 ½ tsp vanilla", 1.5, "normalised", "1 ½"),
        ("at 87.39% now", 0.8739, "normalised", "87.39%"),
        ("at -4.5 degrees", -4.5, "exact", "-4.5"),
        ("a table for two", 2, "normalised", "two"),
        ("05/APR/2018 12:49", "2018-04-05", "normalised", "05/APR/2018"),
        ("05/04/2018", "2018-04-05", "normalised", "05/04/2018"),
        ("05/04/2018", "2018-05-04", "normalised", "05/04/2018"),
        ("am 5.4.18 in Bonn", "2018-04-05", "normalised", "5.4.18"),
        ("on April 5th, 2018 he", "2018-04-05", "normalised", "April 5th, 2018"),
        ("on the 5th of March", "2018-03-05", "normalised", "5th of March"),
        ("截至2018年4月5日，", "2018-04-05", "normalised", "2018年4月5日"),
        ("截至二〇一八年四月五日，", "2018-04-05", "normalised", "二〇一八年四月五日"),
        ("at 2026-01-02 15:04:05 sent", "2026-01-02T15:04:05Z", "normalised", "2026-01-02 15:04:05"),
        ("on 25/01/2018 1:22:56PM", "2018-01-25T13:22:56", "normalised", "25/01/2018 1:22:56PM"),
        ("on 25/01/2018", "2018-01-26", "none", None),
        ("on 31/02/2018", "2018-02-31", "none", None),
    ],
)
def test_a_value_is_found_as_it_is_written(text: str, value: Any, kind: str, slice_: str | None) -> None:
    assert found(text, value) == (kind, slice_)


def test_offsets_count_code_points() -> None:
    text = "😀😀 王小明 𠀀 Ann"
    assert one(text, "Ann") == Span("", 9, 12, "exact", 1.0)


def test_fields_of_an_item_are_found_next_to_each_other() -> None:
    text = "A-1 costs 5, city Bonn.\nA-2 costs 5, city Bonn.\nA-3 costs 7, city Bonn.\n"
    value = {
        "city": "Bonn",
        "orders": [
            {"id": name, "amount": n, "to": {"city": "Bonn"}} for name, n in (("A-1", 5), ("A-2", 5), ("A-3", 7))
        ],
    }
    spans = {span.path: span.start for span in Grounder(text).ground(value)}
    lines = [0, 24, 48]
    assert [spans[f"/orders/{i}/id"] for i in range(3)] == lines
    assert [spans[f"/orders/{i}/amount"] for i in range(3)] == [at + 10 for at in lines]
    assert [spans[f"/orders/{i}/to/city"] for i in range(3)] == [at + 18 for at in lines]
    assert spans["/city"] == 18


def test_equal_items_of_a_list_are_found_one_after_the_other() -> None:
    text = "tea, milk, tea, tea"
    spans = Grounder(text).ground(["tea", "tea", "tea"])
    assert [span.start for span in spans] == [0, 11, 16]


def test_a_value_that_occurs_a_thousand_times_is_found_near_its_item() -> None:
    text = "".join(f"row {i:04} amount 5 eur\n" for i in range(1000))
    value = [{"id": f"{i:04}", "amount": 5} for i in (0, 500, 999)]
    starts = [span.start for span in Grounder(text).ground(value) if span.path.endswith("amount")]
    assert starts == [16, 500 * 22 + 16, 999 * 22 + 16]


def test_pages_count_from_one() -> None:
    spans = Grounder("one\ftwo\fthree", page_starts=[0, 4, 8]).ground(["one", "two", "three", "four"])
    assert [span.page for span in spans] == [1, 2, 3, None]


def test_null_and_booleans_have_no_span() -> None:
    assert Grounder("true").ground({"a": None, "b": True, "c": [], "d": {}}) == ()


WORDS = st.text(alphabet=st.sampled_from(list("abcÄßﬁ 订单号\n\t　１2½\u0301😀,.'’\u200b")), max_size=120)


@given(text=WORDS)
@settings(max_examples=300, deadline=None)
def test_folding_a_text_piece_by_piece_is_folding_it_whole(text: str) -> None:
    folded = FoldedText(text)
    assert folded.folded.strip() == fold(text)
    for start in range(0, len(folded.folded), 3):
        low, high = folded.span(start, min(start + 5, len(folded.folded)))
        assert 0 <= low < high <= len(text)
        assert folded.folded[start : start + 5].strip() in fold(text[low:high])


@given(before=WORDS, value=WORDS.filter(lambda t: fold(t) != ""), after=WORDS)
@settings(max_examples=300, deadline=None)
def test_every_text_that_stands_verbatim_is_found_exactly(before: str, value: str, after: str) -> None:
    text = f"{before} {value} {after}"
    span = one(text, value)
    if value == value.strip() and value[0].isalpha() and value[-1].isalpha():
        assert span.kind == "exact"
    assert span.kind != "none"
    assert span.start is not None
    piece = text[span.start : span.end]
    if span.kind == "exact":
        assert piece == value
    elif span.kind == "normalised" and not any(c.isdigit() or c == "½" for c in value):
        assert fold(piece) == fold(value)


@given(text=st.text(max_size=200), value=st.text(max_size=30) | st.integers() | st.floats(allow_nan=False))
@settings(max_examples=200, deadline=None)
def test_no_text_and_no_value_breaks_it(text: str, value: Any) -> None:
    span = one(text, value)
    assert (span.start is None) == (span.kind == "none") == (span.score == 0.0)
    if span.start is not None and span.end is not None:
        assert 0 <= span.start < span.end <= len(text)


def test_every_gold_value_that_stands_verbatim_is_grounded(shared: Path) -> None:
    """All ten sets: a string is verbatim where the text holds it, a number where it stands by itself."""
    num_texts = num_exact = num_numbers = 0
    for file in sorted((shared / "data").glob("*/documents.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            text = row["text"]
            for span in Grounder(text).ground(row["gold"]):
                value = row["gold"]
                for step in span.path.split("/")[1:]:
                    value = value[int(step)] if isinstance(value, list) else value[step]
                piece = "" if span.start is None else text[span.start : span.end]
                if span.kind == "exact":
                    assert piece == str(value)
                if isinstance(value, str) and value.strip() and value in text:
                    num_texts += 1
                    num_exact += span.kind == "exact"
                    assert span.kind == "exact" or (span.kind == "normalised" and fold(piece) == fold(value)), span
                elif not isinstance(value, str) and re.search(
                    rf"(?<![\w.,+-]){re.escape(str(value))}(?![\w%.,])", text
                ):
                    num_numbers += 1
                    assert span.kind in ("exact", "normalised"), (value, span)
    assert num_texts > 9000
    assert num_exact > 0.999 * num_texts
    assert num_numbers > 100


def test_a_megabyte_with_dozens_of_values_does_not_take_long() -> None:
    row = "Order A-{0} of Müller GmbH, amount {0}.25 EUR, on 2026-01-{1:02}.\n订单{0}已发货，金额{0}元。\n"
    text = "".join(row.format(i, i % 28 + 1) for i in range(14_000))
    value = {
        "orders": [{"id": f"A-{i}", "amount": i + 0.25, "date": "2026-01-07"} for i in range(0, 14_000, 1000)],
        "absent": [f"Nobody {i} Street" for i in range(10)],
    }
    started = time.perf_counter()
    spans = Grounder(text).ground(value)
    elapsed = time.perf_counter() - started
    assert len(text) > 1_000_000
    assert sum(span.kind == "exact" for span in spans) == 42
    assert elapsed < 3  # about 0.5 s on an idle core


def test_ungrounded_values_are_rejected_or_become_null() -> None:
    text = "Order A-1 for Ann"
    value = {"user": "Ann", "city": "Hamburg", "orders": [{"id": "A-1", "to": "Oslo"}, {"id": "Z-9", "to": None}]}
    spans = Grounder(text).ground(value)
    rejected = GroundingRule(("/orders/*/id", "city")).apply(value, spans)
    assert [error.path for error in rejected.errors] == ["/city", "/orders/1/id"]
    nulled = GroundingRule(("/orders",), mode="null").apply(value, spans)
    assert nulled.value["orders"] == [{"id": "A-1", "to": None}, {"id": None, "to": None}]
    assert nulled.value["city"] == "Hamburg"
    assert nulled.num_nulled == 2
    assert value["orders"][1] == {"id": "Z-9", "to": None}
    assert GroundingRule(("/user", "/orders/0/id")).apply(value, spans).value is value
    assert len(GroundingRule(("/",)).apply(value, spans).errors) == 3
    with pytest.raises(ConfigError, match="blank"):
        GroundingRule((" ",))


def test_a_path_that_the_schema_lacks_is_found_before_any_work() -> None:
    item = {"type": "object", "properties": {"id": {"type": "string"}}}
    schema = load_schema(
        {
            "type": "object",
            "properties": {
                "name": {"type": ["string", "null"]},
                "orders": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/item"}}, {"type": "null"}]},
                "extra": {"type": "object", "additionalProperties": {"type": "string"}},
                "either": {"anyOf": [{"type": "string"}, item]},
            },
            "$defs": {"item": item},
        }
    ).json_schema
    GroundingRule(("/", "name", "/*", "/orders/*/id", "/orders/0", "/*/*/id", "/extra/any", "/either/id")).check(schema)
    for path in ("nome", "/orders/id", "/orders/*/ids", "/name/first"):
        with pytest.raises(ConfigError, match=f"no field {re.escape(path)}"):
            GroundingRule((path,)).check(schema)
