"""A value as the model is to write it: keys in declared order, in the grammar's layout. For examples in prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipeline.alternatives import Expander, Node, literal_lists, same, types_of
from pipeline.schema import Schema
from pipeline.shape_builder import is_free
from pipeline.strict_json import dumps, whole_numbers


def render(schema: Schema, value: Any, *, layout: str = "indented") -> str:
    """The text that the grammar of ``layout`` (spaced, indented, compact) takes for a valid value."""
    return render_value(schema.json_schema, value, layout=layout)


def render_value(json_schema: Mapping[str, Any], value: Any, *, layout: str = "indented") -> str:
    """As :func:`render`, for a canonical JSON Schema."""
    separators = (",", ":") if layout == "compact" else (", ", ": ")
    writer = _Writer(Expander(dict(json_schema)), separators)
    return writer.write(dict(json_schema), value, 0 if layout == "indented" else None, ())


class _Writer:
    def __init__(self, expander: Expander, separators: tuple[str, str]) -> None:
        self._expander = expander
        self._separators = separators

    def write(self, node: Any, value: Any, level: int | None, trail: tuple[str, ...]) -> str:
        """``level`` is the indentation, None on one line: so are free values and schemas inside themselves."""
        options = self._expander.alternatives(node)
        key = dumps(options)
        if key in trail or any(is_free(option) for option in options):
            level = None
        option = self._best(options, value)
        for constant in (candidate for values in literal_lists(option) for candidate in values):
            if same(constant, value):
                return dumps(whole_numbers(constant), separators=self._separators)
        if isinstance(value, dict):
            return self._object(option, value, level, (*trail, key))
        if isinstance(value, list):
            prefix = option.get("prefixItems") or []
            schemas = [prefix[i] if i < len(prefix) else option.get("items", True) for i in range(len(value))]
            inner = None if level is None else level + 1
            parts = [self.write(child, item, inner, (*trail, key)) for child, item in zip(schemas, value, strict=True)]
            return self._join("[", parts, "]", level)
        return dumps(value)

    def _object(self, option: Node, value: Mapping[str, Any], level: int | None, trail: tuple[str, ...]) -> str:
        properties = option.get("properties") or {}
        names = list(dict.fromkeys([*properties, *(option.get("required") or [])]))
        inner = None if level is None else level + 1
        parts = []
        for key in [name for name in names if name in value] + [key for key in value if key not in names]:
            child = properties.get(key, option.get("additionalProperties", True))
            text = self.write(child, value[key], inner, trail)
            parts.append(json.dumps(key, ensure_ascii=False) + self._separators[1] + text)
        return self._join("{", parts, "}", level)

    def _join(self, opening: str, parts: list[str], closing: str, level: int | None) -> str:
        if level is None or not parts:
            return opening + self._separators[0].join(parts) + closing
        line = "\n" + "  " * (level + 1)
        return opening + line + ("," + line).join(parts) + "\n" + "  " * level + closing

    def _best(self, options: list[Node], value: Any) -> Node:
        """The alternative that the value fits, judged by type, constants and keys."""
        kind = _type_name(value)
        fitting = [o for o in options if kind in types_of(o) or (kind == "number" and "integer" in types_of(o))]
        return max(fitting, key=lambda option: self._fit(option, value), default={})

    def _fit(self, option: Node, value: Any) -> tuple[int, ...]:
        if not isinstance(value, dict):
            lists = literal_lists(option)
            return (1 if any(same(value, c) for values in lists for c in values) else 0 if not lists else -1,)
        properties = option.get("properties") or {}
        wrong = sum(name in value and not self._may_be(child, value[name]) for name, child in properties.items())
        missing = sum(name not in value for name in option.get("required") or [])
        unknown = sum(name not in properties for name in value)
        return -wrong, -missing, -unknown

    def _may_be(self, node: Any, value: Any) -> bool:
        """Whether type and constants of some alternative allow a value."""
        for option in self._expander.alternatives(node):
            lists = literal_lists(option)
            if lists and not any(same(value, candidate) for candidate in lists[0]):
                continue
            kind, kinds = _type_name(value), types_of(option)
            if kind in kinds or (kind == "number" and "integer" in kinds):
                return True
        return False


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), "number")
