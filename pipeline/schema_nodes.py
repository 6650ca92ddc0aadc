"""A schema's node for a place in a value: references and null options looked through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.errors import SchemaError
from pipeline.subschemas import lookup

Node = Mapping[str, Any]
EMPTY: Node = {}


def resolve(node: Any, root: Node) -> Node:
    """The node that describes values, behind ``$ref``, a single ``allOf``, and ``anyOf``/``oneOf`` with null.

    Keywords beside the reference win over those of its target, as for descriptions. ``true`` and ``false`` are empty
    nodes, and so is what a reference that leads nowhere points at.
    """
    for _ in range(64):  # canonical schemas have no empty cycle; this only bounds a foreign one
        if not isinstance(node, Mapping):
            return EMPTY
        inner = _inner(node, root)
        if inner is None:
            return node
        outer = {key: value for key, value in node.items() if key not in ("$ref", "anyOf", "oneOf", "allOf")}
        node = {**inner, **outer} if isinstance(inner, Mapping) else outer
    return EMPTY


def types(node: Node) -> tuple[str, ...]:
    """JSON types of a resolved node without ``null``; empty where it names none."""
    kind = node.get("type")
    names = [kind] if isinstance(kind, str) else list(kind or ())
    if not names and "properties" in node:
        names = ["object"]
    if not names and ("items" in node or "prefixItems" in node):
        names = ["array"]
    return tuple(str(name) for name in names if name != "null")


def child(node: Node, step: str | int, root: Node) -> Node:
    """The resolved node of a property or an item of a resolved node; empty where the schema says nothing of it."""
    if isinstance(step, str):
        properties = node.get("properties")
        if isinstance(properties, Mapping) and step in properties:
            return resolve(properties[step], root)
        return resolve(node.get("additionalProperties"), root)
    prefix = node.get("prefixItems")
    if isinstance(prefix, list) and step < len(prefix):
        return resolve(prefix[step], root)
    return resolve(node.get("items"), root)


def _inner(node: Node, root: Node) -> Any:
    if isinstance(node.get("$ref"), str):
        try:
            return lookup(root, node["$ref"])
        except SchemaError:
            return EMPTY
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = node.get(keyword)
        if isinstance(options, list):
            rest = [option for option in options if not _is_null(option)]
            if len(rest) == 1 and (keyword != "allOf" or len(options) == 1):
                return rest[0]
    return None


def _is_null(node: Any) -> bool:
    return isinstance(node, Mapping) and (node.get("type") == "null" or ("const" in node and node["const"] is None))
