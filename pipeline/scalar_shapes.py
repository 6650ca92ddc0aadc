"""Shapes of strings and numbers: which of their keywords a grammar can hold."""

from __future__ import annotations

import math

from pipeline.alternatives import Node
from pipeline.field_types import FieldType, infer
from pipeline.patterns import pattern_ebnf
from pipeline.shapes import Fraction, Shape, Text, Whole

MAX_COUNTED_CHARS = 64
"""Longest ``maxLength`` or ``minLength`` counted in the grammar: a counted character costs a rule and its mask."""
FORMATS = {
    "date": '[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])',
    "uuid": 'json_hex{8} "-" json_hex{4} "-" json_hex{4} "-" json_hex{4} "-" json_hex{12}',
}
_CLOCK = '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" ([0-5] [0-9] | "60") ("." [0-9]{1,9})?'
_ZONE = r'("Z" | [+\-] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])'
FORMATS["time"] = f"{_CLOCK} {_ZONE}"
FORMATS["time-local"] = _CLOCK
FORMATS["date-time"] = f'{FORMATS["date"]} "T" {_CLOCK} {_ZONE}'
FORMATS["date-time-local"] = f'{FORMATS["date"]} "T" {_CLOCK}'


def text_shape(node: Node) -> Text:
    """A format with a fixed form, or the pattern, or the length; the others are left to validation."""
    if node.get("format") in FORMATS:
        return Text(content=FORMATS[node["format"]])
    if "pattern" in node:
        found = pattern_ebnf(node["pattern"])
        if found is not None:
            return Text(content=found[0])
    longest = node.get("maxLength")
    return Text(
        min(int(node.get("minLength", 0)), MAX_COUNTED_CHARS),
        int(longest) if longest is not None and longest <= MAX_COUNTED_CHARS else None,
    )


def number_shape(node: Node, kind: str) -> Shape:
    """Integers exactly within their bounds; other numbers by sign, because their range has no finite digits."""
    hint = _decimal_hint(node)
    if kind == "integer":
        low, high = _integer_bounds(node)
        digits = hint.precision - hint.scale if hint else 19
        limit = 10**digits
        return Whole(
            None if low is None or low <= -limit else low, None if high is None or high >= limit else high, digits
        )
    lowest = node.get("minimum", node.get("exclusiveMinimum"))
    highest = node.get("maximum", node.get("exclusiveMaximum"))
    minus = lowest is None or lowest < 0
    plus = highest is None or highest >= 0
    if hint:
        return Fraction(minus, plus, max(hint.precision - hint.scale, 1), hint.scale, exponent=False)
    return Fraction(minus, plus, 40, 40, exponent=True)


def _decimal_hint(node: Node) -> FieldType | None:
    if "x-arrow" not in node:
        return None
    found = infer({"type": "number", "x-arrow": node["x-arrow"]})
    return found if found.kind == "decimal" else None


def _integer_bounds(node: Node) -> tuple[int | None, int | None]:
    lows = [math.ceil(node["minimum"])] if "minimum" in node else []
    highs = [math.floor(node["maximum"])] if "maximum" in node else []
    if "exclusiveMinimum" in node:
        lows.append(math.floor(node["exclusiveMinimum"]) + 1)
    if "exclusiveMaximum" in node:
        highs.append(math.ceil(node["exclusiveMaximum"]) - 1)
    return max(lows, default=None), min(highs, default=None)
