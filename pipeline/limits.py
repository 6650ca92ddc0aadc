"""Limits that a run may set beyond its schema: how long an undeclared list may get, and characters stores refuse."""

from __future__ import annotations

from typing import Any, Literal

from pipeline.data import FieldError
from pipeline.messages import path_text
from pipeline.subschemas import map_schemas

Nul = Literal["keep", "strip", "reject"]
"""U+0000 in a text is legal JSON and stays by default; PostgreSQL, C programs and others cannot hold it."""


def with_list_limit(json_schema: dict[str, Any], max_items: int | None) -> dict[str, Any]:
    """The schema with ``maxItems`` at every list that declares none."""
    if max_items is None:
        return json_schema

    def change(node: dict[str, Any]) -> dict[str, Any]:
        kinds = node.get("type")
        is_list = kinds == "array" or (isinstance(kinds, list) and "array" in kinds) or "items" in node
        if not is_list or "maxItems" in node or node.get("items") is False:
            return node  # a tuple ends by itself
        return {**node, "maxItems": max(max_items + len(node.get("prefixItems") or []), node.get("minItems", 0))}

    limited = map_schemas(json_schema, change)
    assert isinstance(limited, dict)
    return limited


def nul_errors(value: Any) -> list[FieldError]:
    """One error for every text or key with U+0000."""
    found: list[FieldError] = []

    def visit(item: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(item, str) and "\x00" in item:
            found.append(FieldError(path_text(path), "must not hold the character U+0000", "nul"))
        for key, child in _parts(item):
            if isinstance(key, str) and "\x00" in key:
                found.append(FieldError(path_text(path), "a key must not hold the character U+0000", "nul"))
            visit(child, (*path, key))

    visit(value, ())
    return found


def without_nul(value: Any) -> Any:
    """The value without U+0000 in its texts; keys are left as they are."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {key: without_nul(item) for key, item in value.items()}
    return [without_nul(item) for item in value] if isinstance(value, list) else value


def _parts(value: Any) -> list[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []
