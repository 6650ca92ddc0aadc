"""Merge policy of each field: chosen by its JSON type, overridden in the schema by ``merge`` and ``key``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pipeline.errors import SchemaError
from pipeline.schema_nodes import EMPTY, Node, child, resolve, types
from pipeline.subschemas import map_schemas, pointer, walk

Policy = Literal["first", "last", "concat", "max", "vote", "error"]
AnyPolicy = Policy | Literal["fields"]
POLICIES: tuple[str, ...] = get_args(Policy)
KEYWORDS = frozenset({"merge", "key"})

_TYPES_OF = {
    "concat": {"array", "string"},
    "max": {"integer", "number", "string"},
}


@dataclass(frozen=True, slots=True)
class FieldPolicy:
    """How the chunk values of one field become one; ``fields`` means: each field of the object by its own policy.

    ``key`` names the properties that identify an item of a list; without it items are the same where they are equal.
    """

    policy: AnyPolicy
    key: tuple[str, ...] = ()
    max_items: int | None = None


def without_merge(json_schema: Node) -> dict[str, Any]:
    """The schema without what says how chunks are merged, which neither the model nor validation reads."""

    def change(node: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in node.items() if name not in KEYWORDS}

    stripped = map_schemas(json_schema, change)
    assert isinstance(stripped, dict)
    return stripped


class MergePolicies:
    """The policies of a canonical JSON Schema, looked up node by node.

    Raises:
        SchemaError: an unknown policy, one that does not suit the field's type, or a key that the items lack.
    """

    def __init__(self, json_schema: Node) -> None:
        self._root = json_schema
        self.top = resolve(json_schema, json_schema)
        for path, node in walk(json_schema):
            if isinstance(node, Mapping) and ("merge" in node or "key" in node):
                self._check(node, pointer(path))

    def of(self, node: Node, values: list[Any]) -> FieldPolicy:
        """The policy for ``values`` (none of them blank) of a resolved node."""
        kinds = set(types(node)) or {_kind(value) for value in values}
        policy: AnyPolicy = node.get("merge") or _default(node, kinds)
        if policy == "concat" and not all(isinstance(value, list | str) for value in values):
            policy = "first"
        if policy == "fields" and not all(isinstance(value, Mapping) for value in values):
            policy = "first"
        max_items = node.get("maxItems")
        return FieldPolicy(policy, _key(node), max_items if isinstance(max_items, int) else None)

    def child(self, node: Node, step: str | int) -> Node:
        """The resolved node of a property or item."""
        return child(node, step, self._root)

    def names(self, node: Node, values: list[Mapping[str, Any]]) -> Iterator[str]:
        """Field names in declared order, then others in the order they came."""
        declared = node.get("properties", EMPTY)
        yield from declared
        yield from dict.fromkeys(name for value in values for name in value if name not in declared)

    def _check(self, raw: Node, path: str) -> None:
        node = resolve(raw, self._root)
        policy = raw.get("merge")
        kinds = set(types(node))
        if policy is not None and policy not in POLICIES:
            raise SchemaError(
                f"unknown merge policy {policy!r}", path=path, keyword="merge", hint=f"one of {', '.join(POLICIES)}"
            )
        allowed = _TYPES_OF.get(str(policy))
        if allowed is not None and kinds and not kinds <= allowed:
            raise SchemaError(
                f"{policy} suits {' and '.join(sorted(allowed))}, this field is {' or '.join(sorted(kinds))}",
                path=path,
                keyword="merge",
            )
        if "key" not in raw:
            return
        items = child(node, 0, self._root) if kinds <= {"array"} else EMPTY
        properties = items.get("properties", EMPTY)
        missing = [name for name in _key(raw) if name not in properties]
        if missing or not _key(raw):
            raise SchemaError(
                f"key {raw['key']!r} names no property of the list's items",
                path=path,
                keyword="key",
                hint=f"one of or a list of {', '.join(properties) or 'properties; the items have none'}",
            )


def _key(node: Node) -> tuple[str, ...]:
    key = node.get("key")
    return (key,) if isinstance(key, str) else tuple(str(name) for name in key) if isinstance(key, list) else ()


def _default(node: Node, kinds: set[str]) -> AnyPolicy:
    if kinds == {"object"} and not _is_union(node):
        return "fields"
    if kinds == {"array"} and "prefixItems" not in node:
        return "concat"
    if kinds == {"boolean"} or "enum" in node:
        return "vote"
    return "first"


def _is_union(node: Node) -> bool:
    """Fields of different alternatives must not be mixed."""
    return any(isinstance(node.get(keyword), list) for keyword in ("anyOf", "oneOf"))


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, list):
        return "array"
    return "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
