"""A value as the model is to write it: keys in declared order, in the grammar's layout. For examples in prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipeline.alternatives import Expander, Node, literal_lists, same, types_of
from pipeline.schema import Schema
from pipeline.strict_json import dumps


def render(schema: Schema, value: Any, *, layout: str = "spaced") -> str:
    """The text that the grammar of ``layout`` takes for a valid value."""
    return write(in_order(schema.json_schema, value), layout=layout)


def write(value: Any, *, layout: str = "spaced") -> str:
    """A value in a layout (spaced, indented, compact), keys as they stand."""
    if layout == "indented":
        return json.dumps(value, ensure_ascii=False, indent=2)
    return dumps(value, separators=(",", ":") if layout == "compact" else (", ", ": "))


def in_order(json_schema: Mapping[str, Any], value: Any) -> Any:
    """A copy with the keys of every object in the order in which the schema declares them, undeclared ones last."""
    return _Order(Expander(json_schema)).of(json_schema, value)


class _Order:
    def __init__(self, expander: Expander) -> None:
        self._expander = expander

    def of(self, node: Any, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        option = self._best(node, value)
        for constant in (candidate for values in literal_lists(option) for candidate in values):
            if same(constant, value):
                return constant
        if isinstance(value, list):
            prefix = option.get("prefixItems") or []
            rest = option.get("items", True)
            return [self.of(prefix[i] if i < len(prefix) else rest, item) for i, item in enumerate(value)]
        properties = option.get("properties") or {}
        names = list(dict.fromkeys([*properties, *(option.get("required") or [])]))
        keys = [name for name in names if name in value] + [key for key in value if key not in names]
        return {key: self.of(properties.get(key, option.get("additionalProperties", True)), value[key]) for key in keys}

    def _best(self, node: Any, value: Any) -> Node:
        """The alternative that the value fits, judged by type, constants and keys."""
        kind = "object" if isinstance(value, dict) else "array"
        options = [option for option in self._expander.alternatives(node) if kind in types_of(option)]
        return max(options, key=lambda option: self._fit(option, value), default={})

    def _fit(self, option: Node, value: Any) -> tuple[int, ...]:
        if not isinstance(value, dict):
            return (0,)
        properties = option.get("properties") or {}
        wrong = 0
        for name, child in properties.items():
            if name in value and not self._may_be(child, value[name]):
                wrong += 1
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
