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


def field_rules(json_schema: Mapping[str, Any]) -> list[FieldRule]:
    """Fields in reading order; what contains itself is listed once."""
    expander = Expander(json_schema)
    return list(_fields(expander, json_schema, infer(json_schema), "", True, 0))


def _fields(
    expander: Expander, node: Any, type_: FieldType, path: str, required: bool, depth: int
) -> Iterator[FieldRule]:
    options = expander.alternatives(node)
    if path:
        yield _rule(options, type_, path, required)
    if type_.recursive or depth > 40:
        return
    if type_.kind == "struct":
        for field in type_.fields:
            children = [_child(option, field.name) for option in options if "object" in types_of(option)]
            child: Any = {"anyOf": [c for c in children if c is not None]}
            if field.name != EXTRA and child["anyOf"]:
                name = f"{path}.{field.name}" if path else field.name
                yield from _fields(expander, child, field.type, name, field.required, depth + 1)
    elif type_.kind in ("list", "map") and type_.item is not None:
        keyword = "items" if type_.kind == "list" else "additionalProperties"
        found = [option[keyword] for option in options if option.get(keyword, False) is not False]
        suffix = "[]" if type_.kind == "list" else "{}"
        if found:
            yield from _fields(expander, {"anyOf": found}, type_.item, (path or "record") + suffix, True, depth + 1)
    for index, field in enumerate(type_.fields if type_.is_tuple else ()):
        found = [option["prefixItems"][index] for option in options if len(option.get("prefixItems") or []) > index]
        yield from _fields(expander, {"anyOf": found}, field.type, f"{path}[{index}]", field.required, depth + 1)


def _child(option: Node, name: str) -> Any:
    return (option.get("properties") or {}).get(name)


def _rule(options: list[Node], type_: FieldType, path: str, required: bool) -> FieldRule:
    enforced: dict[str, None] = {}
    checked: dict[str, None] = {}
    for option in options:
        for keyword in _RULES:
            if keyword not in option:
                continue
            by, note = judge(option, keyword, set())
            text = f"{keyword} {_short(keyword, option[keyword])}".strip()
            (checked if by == "validation" else enforced)[text + (f" ({note})" if by == "rewrite" and note else "")] = (
                None
            )
    kinds = list(dict.fromkeys(kind for option in options for kind in _kinds(option)))
    return FieldRule(
        path=path, json_type="any" if len(kinds) > 5 else " | ".join(kinds) or "nothing", column=column_type(type_),
        required=required, nullable=type_.nullable, enforced=tuple(enforced), checked=tuple(checked),
        field_type=type_, options=tuple(options),
    )  # fmt: skip


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
