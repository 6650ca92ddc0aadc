"""The type of every field, from the canonical schema alone: what Arrow, Spark and number handling agree on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

from pipeline.alternatives import Expander, Node, both, literal_lists, matches, types_of
from pipeline.errors import SchemaError
from pipeline.strict_json import dumps

Kind = Literal[
    "null", "boolean", "integer", "number", "decimal", "string", "binary", "base64", "date", "timestamp",
    "timestamp_ntz", "list", "map", "struct", "json",
]  # fmt: skip
_FORMATS: dict[str, Kind] = {
    "date": "date",
    "date-time": "timestamp",
    "date-time-local": "timestamp_ntz",
    "binary": "binary",
    "base64url": "base64",
}
_HINTS = re.compile(r"(?:(int)(8|16|32|64)|(float)(32|64))|decimal128\((\d+),\s*(\d+)\)|string|binary")
EXTRA = "additional_properties"
"""Name of the map that holds what an object has beyond its declared properties."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """One type. ``json`` is a value kept as JSON text, because no single column type holds what the schema allows.

    ``bits`` of integers and floats; ``precision`` and ``scale`` of decimals; ``item`` of lists and map values;
    ``fields`` of structs (and tuples: ``_1``, ``_2``, … with ``is_tuple``); ``integral`` where a ``json`` value may
    be an integer but no other number; ``recursive`` where it stands for a type that contains itself.
    """

    kind: Kind
    nullable: bool = False
    bits: int = 64
    precision: int = 0
    scale: int = 0
    item: FieldType | None = None
    fields: tuple[Field, ...] = ()
    is_tuple: bool = False
    integral: bool = False
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A named field; ``required`` is the schema's word (the column is nullable unless required and not null)."""

    name: str
    type: FieldType
    required: bool


def infer(json_schema: Mapping[str, Any]) -> FieldType:
    """The type of a whole canonical schema. Raises SchemaError for an unusable ``x-arrow``."""
    return _Inference(Expander(json_schema)).of(json_schema, ())


class _Inference:
    def __init__(self, expander: Expander) -> None:
        self._expander = expander

    def of(self, node: Any, trail: tuple[str, ...]) -> FieldType:
        options = self._expander.alternatives(node)
        key = dumps(options)
        if key in trail:
            return FieldType("json", recursive=True, integral=True)
        if len(trail) > 100:
            return FieldType("json", integral=True)
        trail = (*trail, key)
        found = [self._of_option(option, kind, trail) for option in options for kind in _kinds(option)]
        if not found:
            return FieldType("null", nullable=True)
        merged = reduce(_unify, found)
        hint = node.get("x-arrow") if isinstance(node, Mapping) else None
        return _apply_hint(hint, merged) if hint else merged

    def _of_option(self, node: Node, kind: str, trail: tuple[str, ...]) -> FieldType:
        result = self._plain(node, kind, trail)
        return _apply_hint(node["x-arrow"], result) if "x-arrow" in node and kind != "null" else result

    def _plain(self, node: Node, kind: str, trail: tuple[str, ...]) -> FieldType:
        if kind == "null":
            return FieldType("null", nullable=True)
        if kind == "string":
            if node.get("contentEncoding") == "base64":
                return FieldType("base64")
            return FieldType(_FORMATS.get(str(node.get("format")), "string"))
        if kind == "array":
            return self._array(node, trail)
        if kind == "object":
            return self._object(node, trail)
        if kind == "boolean":
            return FieldType("boolean")
        return FieldType("integer" if kind == "integer" else "number", integral=kind == "integer")

    def _array(self, node: Node, trail: tuple[str, ...]) -> FieldType:
        prefix = node.get("prefixItems") or []
        rest = node.get("items", True)
        if prefix and (rest is False or node.get("maxItems") == len(prefix)):
            required = node.get("minItems", 0)
            fields = [Field(f"_{i + 1}", self.of(child, trail), i < required) for i, child in enumerate(prefix)]
            return FieldType("list", fields=tuple(fields), is_tuple=True)
        items = [self.of(child, trail) for child in ([*prefix, rest] if rest is not False else prefix)]
        return FieldType("list", item=reduce(_unify, items) if items else FieldType("null", nullable=True))

    def _object(self, node: Node, trail: tuple[str, ...]) -> FieldType:
        extra = node.get("additionalProperties", True)
        rest = [child for child in [*(node.get("patternProperties") or {}).values(), extra] if child is not False]
        values = reduce(_unify, [self.of(child, trail) for child in rest]) if rest else None
        properties = node.get("properties") or {}
        if not properties:
            return FieldType("map", item=values) if values is not None else FieldType("struct")
        required = set(node.get("required") or [])
        patterns = node.get("patternProperties") or {}
        fields = []
        for name, child in properties.items():
            whole = reduce(both, (other for pattern, other in patterns.items() if matches(pattern, name)), child)
            if self._expander.alternatives(whole):
                fields.append(Field(name, self.of(whole, trail), name in required))
        if values is not None:
            fields.append(Field(EXTRA, FieldType("map", item=values, nullable=True), False))
        return FieldType("struct", fields=tuple(fields))


def _kinds(node: Node) -> list[str]:
    lists = literal_lists(node)
    if not lists:
        return types_of(node)
    present = dict.fromkeys(_type_of(value) for value in lists[0])
    allowed = types_of(node)
    return [kind for kind in present if kind in allowed or (kind == "integer" and "number" in allowed)] or allowed


def _type_of(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"


def _unify(one: FieldType, other: FieldType) -> FieldType:
    """The one type that holds both; JSON text where there is none."""
    nullable = one.nullable or other.nullable
    if one.kind == "null" or other.kind == "null":
        return replace(other if one.kind == "null" else one, nullable=nullable)
    kinds = {one.kind, other.kind}
    if kinds == {"struct"}:
        return replace(_unify_structs(one, other), nullable=nullable)
    if len(kinds) == 1 and one.kind in ("list", "map") and one.item and other.item:
        return replace(one, item=_unify(one.item, other.item), nullable=nullable)
    if replace(one, nullable=nullable) == replace(other, nullable=nullable):
        return replace(one, nullable=nullable)
    if "decimal" in kinds and kinds <= {"decimal", "integer", "number"}:
        return replace(one if one.kind == "decimal" else other, nullable=nullable)
    if kinds <= {"integer", "number"}:
        return FieldType(
            "number" if "number" in kinds else "integer", nullable, bits=max(one.bits, other.bits),
            integral=kinds == {"integer"},
        )  # fmt: skip
    if kinds <= {"string", "date", "timestamp", "timestamp_ntz", "binary", "base64"}:
        return FieldType("string", nullable)
    numbers = [part for part in (one, other) if part.kind in ("integer", "number", "decimal", "json")]
    return FieldType("json", nullable, integral=all(part.integral for part in numbers))


def _unify_structs(one: FieldType, other: FieldType) -> FieldType:
    mine, theirs = {f.name: f for f in one.fields}, {f.name: f for f in other.fields}
    fields = []
    for name in dict.fromkeys([*mine, *theirs]):
        if name in mine and name in theirs:
            merged = _unify(mine[name].type, theirs[name].type)
            fields.append(Field(name, merged, mine[name].required and theirs[name].required))
        else:
            fields.append(replace(mine.get(name) or theirs[name], required=False))
    return FieldType("struct", fields=tuple(fields))


def _apply_hint(hint: Any, found: FieldType) -> FieldType:
    match = _HINTS.fullmatch(str(hint))
    if match is None:
        raise SchemaError(f"x-arrow {hint!r} is not known", keyword="x-arrow", hint="int32, float32, decimal128(10, 2)")
    if match[5]:
        precision, scale = int(match[5]), int(match[6])
        if not 0 < precision <= 38 or scale > precision:
            raise SchemaError(f"{hint} is out of range: precision is 1 to 38, scale at most that", keyword="x-arrow")
        return FieldType("decimal", found.nullable, precision=precision, scale=scale)
    if match[1]:
        return FieldType("integer", found.nullable, bits=int(match[2]), integral=True)
    if match[3]:
        return FieldType("number", found.nullable, bits=int(match[4]))
    if str(hint) == "binary":
        if found.kind != "string":
            raise SchemaError("x-arrow binary needs a string", keyword="x-arrow")
        return replace(found, kind="binary")
    return found if found.kind == "string" else FieldType("json", found.nullable, integral=found.integral)
