"""The schema as a short list of fields, as the model reads it in the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.subschemas import walk

NULL_RULE = "Write null where the document does not say it."
_MAX_ENUM_VALUES = 30


def describe_fields(json_schema: Mapping[str, Any]) -> str:
    """One line per field, nested by indentation: ``- name (type): description``; what null means where it is allowed.

    ``json_schema`` is a canonical schema with local ``$ref`` only. Recursive parts are described once.
    """
    lines = list(_lines(json_schema, json_schema, depth=0, seen=()))
    if any(_allows_null(node) for _, node in walk(json_schema)):
        lines.append(NULL_RULE)
    return "\n".join(lines)


def _allows_null(node: Any) -> bool:
    if not isinstance(node, Mapping):
        return False
    return "null" in node.get("type", ()) or None in node.get("enum", ())


def _lines(node: Mapping[str, Any], root: Mapping[str, Any], *, depth: int, seen: tuple[str, ...]) -> Iterator[str]:
    node, seen = _resolve(node, root, seen)
    for name, raw in node.get("properties", {}).items():
        if not isinstance(raw, Mapping):
            continue
        child, child_seen = _resolve(raw, root, seen)
        description = " ".join(str(raw.get("description") or child.get("description") or "").split())
        text = f"{'  ' * depth}- {name} ({_type_name(child, root)})"
        yield f"{text}: {description}" if description else text
        if child_seen.count("") > 8:
            continue
        yield from _nested(child, root, depth=depth + 1, seen=child_seen)


def _nested(node: Mapping[str, Any], root: Mapping[str, Any], *, depth: int, seen: tuple[str, ...]) -> Iterator[str]:
    if depth > 8:
        return
    node, seen = _resolve(node, root, seen)
    if "properties" in node:
        yield from _lines(node, root, depth=depth, seen=seen)
    items = node.get("items")
    if isinstance(items, Mapping):
        yield from _nested(items, root, depth=depth, seen=seen)
    for option in _options(node):
        yield from _nested(option, root, depth=depth, seen=seen)


def _options(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [option for word in ("anyOf", "oneOf") for option in node.get(word, []) if isinstance(option, Mapping)]


def _resolve(
    node: Mapping[str, Any], root: Mapping[str, Any], seen: tuple[str, ...]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    while isinstance(ref := node.get("$ref"), str):
        if ref in seen:
            return {}, seen
        seen = (*seen, ref)
        target: Any = root
        for part in ref.removeprefix("#").strip("/").split("/"):
            if part:
                target = (
                    target.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(target, Mapping) else {}
                )
        node = target if isinstance(target, Mapping) else {}
    return node, seen


def _type_name(node: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    node, _ = _resolve(node, root, ())
    if "const" in node:
        return f"always {node['const']!r}"
    if "enum" in node:
        values = [str(value) for value in node["enum"] if value is not None][:_MAX_ENUM_VALUES]
        return "one of " + ", ".join(values) + (" or null" if None in node["enum"] else "")
    options = _options(node)
    if options:
        return " or ".join(dict.fromkeys(_type_name(option, root) for option in options))
    kind = node.get("type", "object" if "properties" in node else "value")
    if isinstance(kind, list):
        return " or ".join(str(part) for part in kind)
    if kind == "array":
        items = node.get("items")
        return f"list of {_type_name(items, root)}" if isinstance(items, Mapping) else "list"
    return str(node["format"]) if kind == "string" and "format" in node else str(kind)
