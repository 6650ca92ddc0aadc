"""Confidence: products over exactly the tokens that chose a value."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.confidence import field_confidence, merge_confidence
from pipeline.json_spans import scalar_spans


def confidence(tokens: list[tuple[str, float]], **options: Any) -> dict[str, float]:
    raw = "".join(text for text, _ in tokens)
    found = field_confidence(raw, [t.encode() for t, _ in tokens], [math.log(p) for _, p in tokens], **options)
    return {path: round(value, 6) for path, value in found.items()}


def test_a_value_counts_its_own_tokens_and_the_one_that_ends_it() -> None:
    tokens = [
        ('{"name": ', 0.5), ('"An', 0.9), ("n", 0.8), ('", "', 0.7), ('total": ', 0.5), ("12", 0.6), (", ", 0.9),
        ('"tags": [', 0.5), ("null", 0.4), ("]}", 0.9), ("", 0.1),
    ]  # fmt: skip
    assert confidence(tokens) == {
        "/name": pytest.approx(0.9 * 0.8 * 0.7), "/total": pytest.approx(0.6 * 0.9), "/tags/0": pytest.approx(0.4 * 0.9)
    }  # fmt: skip
    assert confidence(tokens, aggregate="minimum") == {"/name": 0.7, "/total": 0.6, "/tags/0": 0.4}
    assert confidence(tokens, aggregate="mean")["/total"] == pytest.approx(math.sqrt(0.54), abs=1e-6)


def test_forced_tokens_do_not_count() -> None:
    tokens = [('{"a": ', 0.1), ('"x', 0.9), ("yz", 0.2), ('"}', 0.3)]
    assert confidence(tokens, is_forced=[True, False, True, True]) == {"/a": 0.9}
    assert confidence(tokens, is_forced=[True] * 4) == {"/a": 1.0}


def test_characters_may_be_split_between_tokens() -> None:
    raw = '{"城": "北京"}'
    data = raw.encode()
    tokens = [data[i : i + 2] for i in range(0, len(data), 2)]
    logprobs = [-0.1] * len(tokens)
    start = data.index('"北'.encode())
    count = sum(1 for i in range(0, len(data), 2) if i + 2 > start and i < start + 8)
    assert field_confidence(raw, tokens, logprobs)["/城"] == pytest.approx(math.exp(-0.1 * count))


def test_what_does_not_fit_together_gives_no_confidence() -> None:
    assert field_confidence('{"a": 1}', [b'{"a": 2}'], [0.0]) == {}
    assert field_confidence('{"a": 1}', [b'{"a": 1}'], []) == {}
    assert field_confidence('{"a": ', [b'{"a": '], [0.0]) == {}


def test_a_merged_value_takes_the_surest_part() -> None:
    parts = [
        ({"n": "A", "o": [{"id": 1}, {"id": 2}]}, {"/n": 0.5, "/o/0/id": 0.9, "/o/1/id": 0.4}),
        ({"n": "A", "o": [{"id": 2}, {"id": 3}]}, {"/n": 0.8, "/o/0/id": 0.7, "/o/1/id": 0.6}),
    ]
    merged = {"n": "A", "o": [{"id": 1}, {"id": 2}, {"id": 3}], "x": None}
    assert merge_confidence(parts, merged) == {"/n": 0.8, "/o/0/id": 0.9, "/o/1/id": 0.7, "/o/2/id": 0.6}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(value=VALUES, indent=st.sampled_from([None, 2]), is_ascii=st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_scalar_is_found_where_it_stands(value: Any, indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    spans = scalar_spans(text)

    def look(node: Any, path: str) -> int:
        if isinstance(node, dict):
            return sum(look(item, f"{path}/{k.replace('~', '~0').replace('/', '~1')}") for k, item in node.items())
        if isinstance(node, list):
            return sum(look(item, f"{path}/{i}") for i, item in enumerate(node))
        start, end = spans[path]
        assert json.loads(text[start:end]) == node
        return 1

    assert look(value, "") == len(spans)


@given(value=VALUES, data=st.data())
@settings(max_examples=150, deadline=None)
def test_every_scalar_gets_the_product_of_tokens_that_touch_it(value: Any, data: st.DataObject) -> None:
    raw = json.dumps(value, ensure_ascii=False)
    encoded = raw.encode("utf-8", "surrogatepass")
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(encoded) - 1)), max_size=12)) - {len(encoded)})
    borders = [0, *cuts, len(encoded)]
    tokens = [encoded[a:b] for a, b in itertools.pairwise(borders)]
    logprobs = [-float(2**-i) for i in range(len(tokens))]  # every sum tells which tokens are in it
    found = field_confidence(raw, tokens, logprobs)
    for path, (start, end) in scalar_spans(raw).items():
        low, high = len(raw[:start].encode("utf-8", "surrogatepass")), len(raw[:end].encode("utf-8", "surrogatepass"))
        high += raw[end - 1] != '"'
        touching = sum(
            logprob for logprob, a, b in zip(logprobs, borders, borders[1:], strict=False) if a < high and b > low
        )
        assert found[path] == pytest.approx(math.exp(touching))
