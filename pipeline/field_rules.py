"""Every field of a schema as a person reads it: path, type, column type and what enforces its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.alternatives import Expander, Node, literal_lists, types_of
from pipeline.coverage import judge
from pipeline.field_types import EXTRA, FieldType, infer
from pipeline.messages import got
from pipeline.schema_types import column_type

_RULES = (
    "enum", "const", "pattern", "format", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "contains", "not", "propertyNames",
    "patternProperties", "minProperties", "maxProperties", "dependentRequired", "x-arrow",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldRule:
    """One field. ``path`` is dotted with ``[]`` for items; ``enforced`` and ``checked`` list rules held while the model
    writes and rules checked afterwards; ``options`` are its alternatives in the schema."""

    path: str
    json_type: str
    column: str
    required: bool
    nullable: bool
    enforced: tuple[str, ...]
    checked: tuple[str, ...]
    field_type: FieldType
    options: tuple[Node, ...]


def is_open(type_: FieldType) -> bool:
    """Whether it is an object that takes undeclared keys."""
    return type_.kind == "map" or any(field.name == EXTRA for field in type_.fields)


def field_rules(json_schema: Mapping[str, Any]) -> list[FieldRule]:
    """Fields in reading order; what contains itself is listed once."""
    expander = Expander(json_schema)
    return list(_fields(expander, json_schema, infer(json_schema), _Place("")))


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    required: bool = True
    depth: int = 0

    def inside(self, path: str, required: bool = True) -> _Place:
        return _Place(path, required, self.depth + 1)


def _fields(expander: Expander, node: Any, type_: FieldType, place: _Place) -> Iterator[FieldRule]:
    options = expander.alternatives(node)
    path = place.path
    if path:
        yield _rule(options, type_, place)
    if type_.recursive or place.depth > 40:
        return
    if type_.kind == "struct":
        for field in type_.fields:
            found = [
                option["properties"][field.name] for option in options if field.name in option.get("properties", {})
            ]
            if field.name != EXTRA and found:
                name = f"{path}.{field.name}" if path else field.name
                yield from _fields(expander, {"anyOf": found}, field.type, place.inside(name, field.required))
    elif type_.kind in ("list", "map") and type_.item is not None:
        keyword = "items" if type_.kind == "list" else "additionalProperties"
        found = [option[keyword] for option in options if option.get(keyword, False) is not False]
        name = (path or "record") + ("[]" if type_.kind == "list" else "{}")
        if found:
            yield from _fields(expander, {"anyOf": found}, type_.item, place.inside(name))
    for index, field in enumerate(type_.fields if type_.is_tuple else ()):
        found = [option["prefixItems"][index] for option in options if len(option.get("prefixItems") or []) > index]
        yield from _fields(expander, {"anyOf": found}, field.type, place.inside(f"{path}[{index}]", field.required))


def _rule(options: list[Node], type_: FieldType, place: _Place) -> FieldRule:
    enforced: dict[str, None] = {}
    checked: dict[str, None] = {}
    for option in options:
        for keyword in _RULES:
            if keyword not in option:
                continue
            by, note = judge(option, keyword, set())
            text = f"{keyword} {_short(keyword, option[keyword])}".strip()
            rules = checked if by == "validation" else enforced
            rules[f"{text} ({note})" if by == "rewrite" and note else text] = None
    kinds = list(dict.fromkeys(kind for option in options for kind in _kinds(option)))
    return FieldRule(
        path=place.path, json_type="any" if len(kinds) > 5 else " | ".join(kinds) or "nothing", column=_column(type_),
        required=place.required, nullable=type_.nullable, enforced=tuple(enforced), checked=tuple(checked),
        field_type=type_, options=tuple(options),
    )  # fmt: skip


def _column(type_: FieldType) -> str:
    """The column type; of what has fields of its own only the outer word, because they have rows of their own."""
    text = column_type(type_)
    outer, found, _ = text.partition("STRUCT<")
    return f"{outer}STRUCT<…>{'>' * outer.count('<')}" if found else text


def _kinds(option: Node) -> list[str]:
    lists = literal_lists(option)
    if "type" not in option and lists:
        names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
        return list(dict.fromkeys(names.get(type(value), "object") for value in lists[0]))
    return types_of(option)


def _short(keyword: str, value: Any) -> str:
    if keyword == "enum":
        return f"of {len(value)}"
    if keyword in ("contains", "not", "propertyNames", "patternProperties", "dependentRequired"):
        return ""
    if value is True:
        return ""
    return value if isinstance(value, str) and len(value) <= 40 else got(value)
