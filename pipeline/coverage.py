"""What enforces each keyword of a schema: the grammar, a rewriting of it, or only validation afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.alternatives import ANNOTATIONS
from pipeline.patterns import pattern_ebnf
from pipeline.scalar_shapes import FORMATS, MAX_COUNTED_CHARS
from pipeline.shape_builder import MAX_COUNTED_ITEMS
from pipeline.strict_json import dumps
from pipeline.subschemas import pointer, walk

By = Literal["grammar", "rewrite", "validation"]
UNKNOWN = "unknown to the grammar"


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword at one place. ``grammar``: exactly so; ``rewrite``: the grammar holds it in a changed or looser form
    that ``note`` names; ``validation``: checked only when the output is complete."""

    path: str
    keyword: str
    by: By
    note: str = ""


_ALWAYS: dict[str, tuple[By, str]] = {
    "type": ("grammar", ""),
    "enum": ("grammar", ""),
    "const": ("grammar", ""),
    "properties": ("grammar", "written in declared order"),
    "required": ("grammar", ""),
    "additionalProperties": ("grammar", ""),
    "items": ("grammar", ""),
    "prefixItems": ("grammar", ""),
    "minItems": ("grammar", ""),
    "allOf": ("rewrite", "branches merged into one"),
    "anyOf": ("rewrite", "keywords beside it are merged into each branch"),
    "oneOf": ("rewrite", "as anyOf; that only one branch fits is checked afterwards"),
    "if": ("rewrite", "if with then, or else"),
    "then": ("rewrite", "see if"),
    "else": ("rewrite", "see if"),
    "$ref": ("rewrite", "followed"),
    "patternProperties": ("rewrite", "undeclared keys; overlapping ones are checked afterwards"),
    "propertyNames": ("rewrite", "undeclared keys by pattern, length or enum"),
    "unevaluatedProperties": ("rewrite", "closes the merged object"),
    "x-arrow": ("rewrite", "bounds the digits"),
    "not": ("validation", ""),
    "uniqueItems": ("validation", ""),
    "multipleOf": ("validation", ""),
    "contains": ("validation", ""),
    "minContains": ("validation", ""),
    "maxContains": ("validation", ""),
    "unevaluatedItems": ("validation", ""),
    "dependentRequired": ("validation", ""),
    "dependentSchemas": ("validation", ""),
    "minProperties": ("validation", ""),
    "contentEncoding": ("validation", ""),
}


def classify(json_schema: Mapping[str, Any], dropped: set[str]) -> tuple[Keyword, ...]:
    """Every asserting keyword of a canonical schema with its place, in the schema's order."""
    found = []
    for path, node in walk(json_schema):
        if not isinstance(node, Mapping):
            continue
        for keyword in node:
            if keyword in ANNOTATIONS or (keyword == "contentEncoding" and node[keyword] != "base64"):
                continue
            by, note = judge(node, keyword, dropped)
            found.append(Keyword(pointer(path), keyword, by, note))
    return tuple(found)


_NARROWER = {
    "integer": "integers: within int64 (x-arrow decimal128 takes more digits)",
    "number": "numbers: at most 40 digits before and 40 after the point",
    "date-time": "date-time: with a zone, capital T and Z, at most 9 digits of a second",
    "date-time-local": "date-time-local: without a zone, with capital T, at most 9 digits of a second",
    "time": "time: with a zone, capital Z, at most 9 digits of a second",
    "time-local": "time-local: without a zone, at most 9 digits of a second",
}


def narrower_than(json_schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the model cannot write everything that the schema allows: one sentence for each kind of value in it."""
    found: dict[str, None] = {}
    for _, node in walk(json_schema):
        if not isinstance(node, Mapping) or "enum" in node or "const" in node:
            continue
        kinds = node.get("type")
        names = [kinds] if isinstance(kinds, str) else list(kinds or [])
        for name in [*names, str(node.get("format"))]:
            if name in _NARROWER and not (name in ("integer", "number") and "x-arrow" in node):
                found[_NARROWER[name]] = None
    return tuple(found)


def judge(node: Mapping[str, Any], keyword: str, dropped: set[str]) -> tuple[By, str]:
    """What enforces one keyword of a node, and how."""
    if keyword in ("anyOf", "oneOf") and dumps(node[keyword])[:200] in dropped:
        return "validation", "too many combinations to write out"
    if "enum" in node or "const" in node:
        if keyword in ("enum", "const", "type"):
            return "grammar", ""
        return "validation", "each listed value is offered"
    if keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        return _judge_bound(node, keyword)
    if keyword in ("pattern", "minLength", "maxLength", "format"):
        return _judge_text(node, keyword)
    if keyword == "maxItems":
        return ("grammar", "") if node[keyword] <= MAX_COUNTED_ITEMS else ("validation", "too many to count")
    if keyword == "maxProperties":
        return ("grammar", "") if node[keyword] == 0 else ("validation", "")
    return _ALWAYS.get(keyword, ("validation", UNKNOWN))


def _judge_bound(node: Mapping[str, Any], keyword: str) -> tuple[By, str]:
    kinds = node.get("type")
    names = [kinds] if isinstance(kinds, str) else list(kinds or [])
    if "integer" in names and "number" not in names:
        if abs(node[keyword]) >= 2**63:
            return "rewrite", "beyond int64, so no bound: integers are bounded to int64"
        return "grammar", ""
    return "rewrite", "only the sign; the bound itself is checked afterwards"


def _judge_text(node: Mapping[str, Any], keyword: str) -> tuple[By, str]:
    fixed = node.get("format") in FORMATS
    if keyword == "format":
        if not fixed:
            return "validation", ""
        return "rewrite", "its form, in capital letters; that the day exists is checked afterwards"
    if keyword == "pattern":
        found = None if fixed else pattern_ebnf(node["pattern"])
        if found is None:
            return "validation", "the format is in the grammar" if fixed else "the expression cannot be translated"
        return ("grammar", "searched, not anchored") if found[1] else ("rewrite", "in a looser form")
    if fixed or ("pattern" in node and pattern_ebnf(node["pattern"]) is not None):
        return "validation", "the pattern or format is in the grammar"
    if node[keyword] > MAX_COUNTED_CHARS:
        return "validation", f"longer than {MAX_COUNTED_CHARS} characters, which would slow every mask"
    return "grammar", ""
