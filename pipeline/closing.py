"""Closing objects: a record has the declared fields only, unless its schema says otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.subschemas import children, lookup, pointer, target_of, walk

_COMBINATORS = ("allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$ref")


def close_objects_of(document: dict[str, Any]) -> dict[str, Any]:
    """A copy in which objects with declared properties take no others.

    An object that is combined with others (``allOf``, properties beside ``anyOf``) is closed where it is combined,
    by ``unevaluatedProperties``, because closing each part would make the parts exclude each other. Conditions
    (``if``, ``not``, ``contains``) stay as they are.
    """
    combined, conditions = _places(document)

    def change(node: Any, path: tuple[str, ...]) -> Any:
        place = pointer(path)
        if not isinstance(node, dict) or place in conditions:
            return node
        copy = dict(node)
        for keys, child in children(node):
            owner: Any = copy
            if len(keys) == 2:
                if copy[keys[0]] is node[keys[0]]:
                    copy[keys[0]] = copy[keys[0]].copy()
                owner = copy[keys[0]]
            key: Any = keys[-1]
            owner[int(key) if isinstance(owner, list) else key] = change(child, path + keys)
        if place in combined or "additionalProperties" in node or "unevaluatedProperties" in node:
            return copy
        if _is_composition(node) or target_of(node) in combined:
            if any(True for _ in _declared(document, node)):
                copy["unevaluatedProperties"] = False
        elif "properties" in node or "patternProperties" in node:
            copy["additionalProperties"] = False
        return copy

    result = change(document, ())
    assert isinstance(result, dict)
    return result


def _is_composition(node: Mapping[str, Any]) -> bool:
    """Whether object keywords of this node and of its in-place subschemas apply to one value together."""
    sources = sum(keyword in node for keyword in _COMBINATORS)
    own = "properties" in node or "patternProperties" in node
    return "allOf" in node or "if" in node or "dependentSchemas" in node or (sources > 0 and own) or sources > 1


def _parts(document: Mapping[str, Any], node: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    """(place, schema) of everything that applies to the same value as ``node``."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, child in enumerate(node.get(keyword) or []):
            yield f"{place}/{keyword}/{index}", child
    for keyword in ("then", "else"):
        if keyword in node:
            yield f"{place}/{keyword}", node[keyword]
    for name, child in (node.get("dependentSchemas") or {}).items():
        yield f"{place}/dependentSchemas{pointer((name,))[1:]}", child
    target = target_of(node)
    if target is not None:
        yield target, lookup(document, target)


def _declared(document: Mapping[str, Any], node: Any, place: str = "#", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(place, name) of each property declared by a node or anything that applies with it."""
    if not isinstance(node, Mapping) or depth > 20:
        return
    for keyword in ("properties", "patternProperties"):
        for name in node.get(keyword) or {}:
            yield place + f"/{keyword}" + pointer((name,))[1:], name
    for inner, child in _parts(document, node, place):
        yield from _declared(document, child, inner, depth + 1)


def _places(document: dict[str, Any]) -> tuple[set[str], set[str]]:
    """(schemas that apply together with others to one value, conditions and everything else that must not change)."""
    combined: set[str] = set()
    conditions: set[str] = set()

    def mark(node: Any, place: str) -> None:
        if not isinstance(node, Mapping):
            return
        for inner, child in _parts(document, node, place):
            if inner not in combined:
                combined.add(inner)
                mark(child, inner)

    for path, node in walk(document):
        if not isinstance(node, Mapping):
            continue
        place = pointer(path)
        conditions.update(f"{place}/{keyword}" for keyword in ("if", "not", "contains") if keyword in node)
        if _is_composition(node):
            mark(node, place)
            places = list(dict.fromkeys(_declared(document, node, place)))
            counts = Counter(name for _, name in places)
            # one property described in several parts: closing one description would forbid what the others add
            conditions.update(where for where, name in places if counts[name] > 1)
    return combined, conditions
