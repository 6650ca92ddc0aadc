"""Confidence of each field, from the log-probabilities of the tokens that wrote it.

A value's confidence is the probability that the model gave to exactly this text among all that the grammar allowed:
the product over its tokens, the one that ends it included. Tokens without a choice are left out; where the
log-probabilities are those after the grammar's mask, they are 0 and would not change the product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Literal

from pipeline.json_spans import scalar_spans

Aggregate = Literal["product", "mean", "minimum"]


def field_confidence(
    raw_output: str,
    tokens: Sequence[bytes],
    logprobs: Sequence[float],
    *,
    is_forced: Sequence[bool] | None = None,
    aggregate: Aggregate = "product",
) -> dict[str, float]:
    """JSON pointer to confidence in [0, 1] for every scalar of an output, null included.

    ``tokens`` are the bytes that each output token stands for, in order; tokens after the text (end of turn) may
    follow with no bytes. ``logprobs`` are natural logarithms, one a token; ``is_forced`` marks tokens that were the
    only one allowed. ``mean`` is the geometric mean, ``minimum`` the least certain token; both ignore length.

    Empty where tokens and text do not agree or the text is no JSON: no confidence is better than a wrong one. A value
    whose tokens were all forced has confidence 1.
    """
    if len(tokens) != len(logprobs) or b"".join(tokens) != raw_output.encode("utf-8", "surrogatepass"):
        return {}
    try:
        spans = scalar_spans(raw_output)
    except (ValueError, RecursionError):
        return {}
    byte_at = _byte_offsets(raw_output)
    ends = list(accumulate(map(len, tokens)))
    choices = [
        min(0.0, logprob) if is_forced is None or not is_forced[i] else None for i, logprob in enumerate(logprobs)
    ]
    found = {}
    first = 0
    for path, (start, end) in spans.items():
        ends_itself = raw_output[end - 1] == '"'
        low, high = byte_at[start], byte_at[end] + (0 if ends_itself else 1)  # what follows a number ends it
        while first < len(ends) and ends[first] <= low:
            first += 1
        last = first
        while last < len(ends) and ends[last] < high:
            last += 1
        picked = [choice for choice in choices[first : last + 1] if choice is not None]
        found[path] = _combine(picked, aggregate)
    return found


def merge_confidence(
    parts: Sequence[tuple[Mapping[str, object], Mapping[str, float]]], value: object
) -> dict[str, float]:
    """Confidences of a merged value: of each of its scalars the highest that a part gives to the same field and value.

    ``parts`` are (value, confidence by JSON pointer) of the chunks. List items are matched by what they say, wherever
    they stand in their part's list.
    """
    known: dict[tuple[str, str], float] = {}
    for part, confidence in parts:
        for path, scalar in _scalars(part, ""):
            if path in confidence:
                key = (_field(path), repr(scalar))
                known[key] = max(known.get(key, 0.0), confidence[path])
    return {path: known[key] for path, scalar in _scalars(value, "") if (key := (_field(path), repr(scalar))) in known}


def _combine(logprobs: Sequence[float], aggregate: Aggregate) -> float:
    if not logprobs:
        return 1.0
    if aggregate == "minimum":
        return math.exp(min(logprobs))
    total = math.fsum(logprobs)
    return math.exp(total / len(logprobs) if aggregate == "mean" else total)


def _byte_offsets(text: str) -> Sequence[int]:
    """Offset in UTF-8 of each code point and of the end."""
    if text.isascii():
        return range(len(text) + 1)
    return [0, *accumulate(len(c.encode("utf-8", "surrogatepass")) for c in text)]


def _scalars(value: object, path: str) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [
            found
            for name, item in value.items()
            for found in _scalars(item, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
        ]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in _scalars(item, f"{path}/{index}")]
    return [(path, value)]


def _field(path: str) -> str:
    return "/".join("*" if step.isdigit() else step for step in path.split("/"))
