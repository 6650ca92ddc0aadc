"""Where a JSON Schema holds schemas: the keywords whose values are schemas, and a walk over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from pipeline.errors import SchemaError

SINGLE = (
    "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "items", "contains", "propertyNames",
    "not", "if", "then", "else",
)  # fmt: skip
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
IN_PLACE_SINGLE = ("if", "then", "else")
IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
META_SCHEMAS = "https://json-schema.org/draft/"


def children(node: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(keyword path, subschema) of every direct subschema of one node."""
    if not isinstance(node, Mapping):
        return
    for keyword in SINGLE:
        if isinstance(node.get(keyword), Mapping | bool):
            yield (keyword,), node[keyword]
    for keyword in LISTS:
        if isinstance(node.get(keyword), list):
            for index, child in enumerate(node[keyword]):
                yield (keyword, str(index)), child
    for keyword in MAPS:
        if isinstance(node.get(keyword), Mapping):
            for name, child in node[keyword].items():
                yield (keyword, name), child


def walk(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every schema in a document with its path, parents first."""
    yield path, node
    for keys, child in children(node):
        yield from walk(child, path + keys)


def map_schemas(node: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """A copy of a document in which ``change`` was applied to every schema object, children first."""
    if not isinstance(node, Mapping):
        return node
    copy: dict[str, Any] = dict(node)
    for keyword in SINGLE:
        if isinstance(copy.get(keyword), Mapping):
            copy[keyword] = map_schemas(copy[keyword], change)
    for keyword in LISTS:
        if isinstance(copy.get(keyword), list):
            copy[keyword] = [map_schemas(child, change) for child in copy[keyword]]
    for keyword in MAPS:
        if isinstance(copy.get(keyword), Mapping):
            copy[keyword] = {name: map_schemas(child, change) for name, child in copy[keyword].items()}
    return change(copy)


def pointer(path: tuple[str, ...]) -> str:
    """A JSON pointer as text; the root is ``#``."""
    return "#" + "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def target_of(node: Any) -> str | None:
    """The pointer (``#/a/b``, not percent-encoded) of a node's local reference, or None where it has none."""
    reference = node.get("$ref") if isinstance(node, Mapping) else None
    return unquote(reference) if isinstance(reference, str) and reference.startswith("#") else None


def lookup(document: Any, reference: str) -> Any:
    """What a local reference (``#/a/b``) points at; SchemaError where there is nothing."""
    node = document
    for raw in reference.removeprefix("#").split("/")[1:]:
        part = raw.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(part)] if isinstance(node, list) else node[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise SchemaError(f"{reference} points at nothing", keyword="$ref") from None
    return node
