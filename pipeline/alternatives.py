"""A schema node as plain alternatives: references followed, ``allOf`` merged, unions and conditions multiplied out.

The alternatives together allow at least what the node allows; where multiplying out would explode, a combinator is
dropped and named, which makes the result looser, never stricter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.strict_json import dumps
from pipeline.subschemas import lookup, target_of

Node = dict[str, Any]
MAX_ALTERNATIVES = 128
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_LARGER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SMALLER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
ANNOTATIONS = {
    "$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "contentMediaType", "contentSchema", "discriminator", "$vocabulary",
}  # fmt: skip
"""Keywords that allow and forbid nothing; without them equal parts of a schema are seen to be equal."""
_IN_PLACE = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas")


@dataclass
class Expander:
    """Expands nodes of one document. ``dropped`` collects the places whose combinator was too large to multiply out."""

    root: Mapping[str, Any]
    dropped: set[str] = field(default_factory=set)

    def alternatives(self, node: Any, depth: int = 0) -> list[Node]:
        """Schemas without in-place combinators, of which a valid value satisfies at least one; [] for ``false``."""
        if isinstance(node, bool):
            return [{}] if node else []
        if depth > 64:
            return [{}]
        found = [{key: value for key, value in node.items() if key not in _IN_PLACE and key not in ANNOTATIONS}]
        for part in self._parts(node):
            options = [option for child in part for option in self.alternatives(child, depth + 1)]
            options = _unique(options)
            if len(found) * len(options) > MAX_ALTERNATIVES and len(options) > 1:
                self.dropped.add(dumps(part)[:200])
                continue
            found = [merged for one in found for other in options if (merged := merge(one, other)) is not None]
        if node.get("not") in (True, {}):
            return []
        unevaluated = node.get("unevaluatedProperties", True)
        if unevaluated is not True and unevaluated != {}:
            found = [self._close(option, node) for option in found]
        return _unique(found)

    def _parts(self, node: Node) -> Iterator[list[Any]]:
        target = target_of(node)
        if target is not None:
            yield [lookup(self.root, target)]
        for child in node.get("allOf") or []:
            yield [child]
        for keyword in ("anyOf", "oneOf"):
            if keyword in node:
                yield list(node[keyword])
        if "if" in node and ("then" in node or "else" in node):
            yield [{"allOf": [node["if"], node.get("then", True)]}, node.get("else", True)]

    def _close(self, option: Node, node: Node) -> Node:
        """``unevaluatedProperties`` of one alternative: what other parts of the node may evaluate stays allowed."""
        if "additionalProperties" in option or ("$ref" in node and target_of(node) is None):
            return option
        elsewhere: dict[str, list[Any]] = {}
        patterns: dict[str, Any] = dict(option.get("patternProperties") or {})
        for part in _in_place(self.root, node):
            if "additionalProperties" in part or "unevaluatedProperties" in part:
                return option  # some part may evaluate every property
            for name, child in (part.get("properties") or {}).items():
                elsewhere.setdefault(name, []).append(child)
            for pattern in part.get("patternProperties") or {}:
                patterns.setdefault(pattern, True)
        others = dict(option.get("properties") or {})
        for name, children in elsewhere.items():  # only a part that the value satisfies evaluates it
            others.setdefault(name, children[0] if len(children) == 1 else {"anyOf": children})
        closed = {**option, "properties": others, "additionalProperties": node["unevaluatedProperties"]}
        if patterns:
            closed["patternProperties"] = patterns
        return closed


def _in_place(root: Mapping[str, Any], node: Any, depth: int = 0) -> Iterator[Node]:
    """Every schema that may apply to the same value as ``node``, without the node itself."""
    if not isinstance(node, Mapping) or depth > 20:
        return
    inner = [child for keyword in ("allOf", "anyOf", "oneOf") for child in node.get(keyword) or []]
    inner += [node[keyword] for keyword in ("if", "then", "else") if keyword in node]
    inner += list((node.get("dependentSchemas") or {}).values())
    target = target_of(node)
    if target is not None:
        inner.append(lookup(root, target))
    for child in inner:
        if isinstance(child, dict):
            yield child
            yield from _in_place(root, child, depth + 1)


def types_of(node: Node) -> list[str]:
    """The JSON types a node may have, in a fixed order; ``number`` stands for integers too."""
    raw = node.get("type")
    allowed = [raw] if isinstance(raw, str) else list(raw) if raw is not None else [t for t in TYPES if t != "integer"]
    return [name for name in TYPES if name in allowed and not (name == "integer" and "number" in allowed)]


def both(one: Any, other: Any) -> Any:
    """A schema for values that satisfy two schemas, not yet expanded."""
    if one is False or other is False:
        return False
    if one is True or not one or one == other:
        return other
    if other is True or not other:
        return one
    return {"allOf": [one, other]}


def merge(one: Node, other: Node) -> Node | None:
    """Two nodes without combinators as one; None where no value satisfies both."""
    if not one or not other or one == other:
        return {**one, **other}
    merged: Node = {**other, **one}
    if "type" in one and "type" in other:
        kinds = _common_types(types_of(one), types_of(other))
        if not kinds:
            return None
        merged["type"] = kinds[0] if len(kinds) == 1 else kinds
    values = _common_values(one, other)
    if values is not None:
        if not values:
            return None
        merged.pop("const", None)
        merged["enum"] = values
    for keyword in _LARGER:
        if keyword in one and keyword in other:
            merged[keyword] = max(one[keyword], other[keyword])
    for keyword in _SMALLER:
        if keyword in one and keyword in other:
            merged[keyword] = min(one[keyword], other[keyword])
    if "required" in one and "required" in other:
        merged["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    for keyword in ("propertyNames", "contains"):
        if keyword in one and keyword in other:
            merged[keyword] = both(one[keyword], other[keyword])
    _merge_objects(one, other, merged)
    _merge_arrays(one, other, merged)
    return merged


def _merge_objects(one: Node, other: Node, merged: Node) -> None:
    if "properties" in one or "properties" in other:
        mine, theirs = one.get("properties") or {}, other.get("properties") or {}
        merged["properties"] = {
            name: both(_property(one, name), _property(other, name)) for name in dict.fromkeys([*mine, *theirs])
        }
    patterns = dict(one.get("patternProperties") or {})
    for pattern, child in (other.get("patternProperties") or {}).items():
        patterns[pattern] = both(patterns[pattern], child) if pattern in patterns else child
    if patterns:
        merged["patternProperties"] = patterns
    if "additionalProperties" in one or "additionalProperties" in other:
        merged["additionalProperties"] = both(
            one.get("additionalProperties", True), other.get("additionalProperties", True)
        )


def _property(node: Node, name: str) -> Any:
    """What a node says about one property: its own schema, or patterns, or the rest."""
    if name in (node.get("properties") or {}):
        return node["properties"][name]
    matching = [child for pattern, child in (node.get("patternProperties") or {}).items() if matches(pattern, name)]
    if not matching:
        return node.get("additionalProperties", True)
    found: Any = True
    for child in matching:
        found = both(found, child)
    return found


def matches(pattern: str, text: str) -> bool:
    """Whether a JSON Schema pattern occurs in a text; unreadable patterns count as a match (looser)."""
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True


def _merge_arrays(one: Node, other: Node, merged: Node) -> None:
    if "prefixItems" in one or "prefixItems" in other:
        length = max(len(one.get("prefixItems") or []), len(other.get("prefixItems") or []))
        merged["prefixItems"] = [both(_item(one, index), _item(other, index)) for index in range(length)]
    if "items" in one or "items" in other:
        merged["items"] = both(one.get("items", True), other.get("items", True))


def _item(node: Node, index: int) -> Any:
    prefix = node.get("prefixItems") or []
    return prefix[index] if index < len(prefix) else node.get("items", True)


def _common_types(one: list[str], other: list[str]) -> list[str]:
    kinds = [kind for kind in one if kind in other]
    if ("number" in one and "integer" in other) or ("integer" in one and "number" in other):
        kinds.append("integer")
    return [kind for kind in TYPES if kind in kinds]


def _common_values(one: Node, other: Node) -> list[Any] | None:
    lists = [values for node in (one, other) for values in literal_lists(node)]
    if not lists:
        return None
    common = lists[0]
    for values in lists[1:]:
        common = [value for value in common if any(same(value, candidate) for candidate in values)]
    return list(common)


def literal_lists(node: Node) -> list[list[Any]]:
    """The value lists of ``enum`` and ``const``."""
    return ([node["enum"]] if "enum" in node else []) + ([[node["const"]]] if "const" in node else [])


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values: true is not 1, 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _unique(nodes: list[Node]) -> list[Node]:
    return list({dumps(node): node for node in nodes}.values())
