"""References of a JSON Schema document: every ``$ref`` becomes a plain pointer into the document, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urldefrag, urljoin

from pipeline.errors import SchemaError
from pipeline.subschemas import (
    IN_PLACE_LISTS,
    IN_PLACE_SINGLE,
    META_SCHEMAS,
    children,
    lookup,
    map_schemas,
    pointer,
    target_of,
    walk,
)

BASE = "https://schema.invalid/"
"""Stands for the folder of the schema file in addresses; nothing is ever fetched from it."""
_ROOT = BASE + "schema.json"
Resources = Callable[[str], Mapping[str, Any] | None]


def localise(document: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """A copy in which ``$id`` and anchors are gone and each ``$ref`` reads ``#/path``.

    The flag says that a ``$dynamicRef`` with several possible targets was left open (any value), so that the original
    document must be checked too. Raises SchemaError for references that leave the document (nothing is ever fetched),
    that point at nothing, or that lead only back to themselves.
    """
    index = _Index(document)
    local = index.rewrite(document, _ROOT, ())
    if index.is_open:
        local = map_schemas(local, _without_unevaluated)
    assert isinstance(local, dict)
    refuse_empty_cycles(local)
    return local, index.is_open


def _without_unevaluated(node: dict[str, Any]) -> dict[str, Any]:
    """What counts as evaluated is not known where a reference was left open."""
    return {key: value for key, value in node.items() if not key.startswith("unevaluated")}


def bundle(document: Mapping[str, Any], resources: Resources) -> dict[str, Any]:
    """A copy that carries the other documents its references name, as far as ``resources`` has them."""
    bundled = dict(document)
    while True:
        missing = [address for address in _Index(bundled).missing() if address not in (bundled.get("$defs") or {})]
        found = {address: resource for address in missing if (resource := resources(address)) is not None}
        if not found:
            return bundled
        bundled["$defs"] = {**(bundled.get("$defs") or {})}
        for address, resource in found.items():
            own = resource.get("$id", address)
            if own == address:
                bundled["$defs"][address] = {**resource, "$id": address}
            else:  # the document calls itself by another name: reachable under both
                bundled["$defs"][address] = {"$id": address, "$ref": own, "$defs": {"document": dict(resource)}}


class _Index:
    """Resources (``$id``) and anchors of a document, by absolute address."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._resources: dict[str, tuple[str, ...]] = {_ROOT: ()}
        self._anchors: dict[str, tuple[str, ...]] = {}
        self._dynamic: dict[str, list[tuple[str, ...]]] = {}
        self.is_open = False
        self._collect(document, _ROOT, ())

    def _collect(self, node: Any, base: str, path: tuple[str, ...]) -> None:
        if not isinstance(node, Mapping):
            return
        base = self._base(node, base)
        self._resources.setdefault(base, path)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(keyword), str):
                self._anchors[f"{base}#{node[keyword]}"] = path
        if isinstance(node.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(node["$dynamicAnchor"], []).append(path)
        for keys, child in children(node):
            self._collect(child, base, path + keys)

    def missing(self) -> list[str]:
        """Addresses of documents that references name and that are not here."""
        found: dict[str, None] = {}

        def visit(node: Any, base: str) -> None:
            if not isinstance(node, Mapping):
                return
            base = self._base(node, base)
            for keyword in ("$ref", "$dynamicRef"):
                if isinstance(node.get(keyword), str) and not node[keyword].startswith(("#", META_SCHEMAS)):
                    address = urldefrag(urljoin(base, node[keyword])).url
                    if address not in self._resources:
                        found[address] = None
            for _, child in children(node):
                visit(child, base)

        visit(self._document, _ROOT)
        return list(found)

    @staticmethod
    def _base(node: Mapping[str, Any], base: str) -> str:
        return urldefrag(urljoin(base, node["$id"])).url if isinstance(node.get("$id"), str) else base

    def rewrite(self, node: Any, base: str, path: tuple[str, ...]) -> Any:
        if not isinstance(node, Mapping):
            return node
        base = self._base(node, base)
        copy = {key: value for key, value in node.items() if key not in ("$id", "$anchor", "$dynamicAnchor")}
        if isinstance(node.get("$ref"), str):
            copy["$ref"] = self._resolve(node["$ref"], base, path)
        if isinstance(node.get("$dynamicRef"), str):
            del copy["$dynamicRef"]
            target = self._resolve_dynamic(node["$dynamicRef"], base, path)
            if target is None:
                self.is_open = True
            elif "$ref" in copy:
                copy["allOf"] = [*copy.get("allOf", []), {"$ref": target}]
            else:
                copy["$ref"] = target
        if "$recursiveRef" in node:
            raise SchemaError("$recursiveRef is not supported", path=pointer(path), keyword="$recursiveRef",
                              hint='write {"$ref": "#"}')  # fmt: skip
        for keys, child in children(node):
            owner: Any = copy
            if len(keys) == 2:
                owner = copy[keys[0]] = copy[keys[0]].copy() if copy[keys[0]] is node[keys[0]] else copy[keys[0]]
            key: Any = keys[-1]
            owner[int(key) if isinstance(owner, list) else key] = self.rewrite(child, base, path + keys)
        return copy

    def _resolve(self, reference: str, base: str, path: tuple[str, ...]) -> str:
        if reference.startswith(META_SCHEMAS):
            return reference  # the validator carries the meta-schemas; nothing is fetched
        resource, fragment = urldefrag(base + reference if reference.startswith("#") else urljoin(base, reference))
        fragment = unquote(fragment)
        if resource not in self._resources:
            raise SchemaError(
                f"the reference {reference!r} leaves this document", path=pointer(path), keyword="$ref",
                hint="references are never fetched; copy the definition into $defs",
            )  # fmt: skip
        if fragment and not fragment.startswith("/"):
            if f"{resource}#{fragment}" not in self._anchors:
                raise SchemaError(f"{reference!r} points at nothing", path=pointer(path), keyword="$ref")
            return _reference(pointer(self._anchors[f"{resource}#{fragment}"]))
        target = pointer(self._resources[resource]) + fragment
        try:
            found = lookup(self._document, target)
        except SchemaError:
            raise SchemaError(f"{reference!r} points at nothing", path=pointer(path), keyword="$ref") from None
        if not isinstance(found, Mapping | bool):
            raise SchemaError(f"{reference!r} points at no schema", path=pointer(path), keyword="$ref")
        return _reference(target)

    def _resolve_dynamic(self, reference: str, base: str, path: tuple[str, ...]) -> str | None:
        """The target, or None where it depends on the way by which the reference is reached."""
        if len(self._dynamic.get(urldefrag(reference).fragment, [])) > 1:
            return None
        return self._resolve(reference, base, path)


def _reference(target: str) -> str:
    return "#" + quote(target[1:], safe="/~!$&'()*+,;=:@-._")


def refuse_empty_cycles(document: Mapping[str, Any]) -> None:
    """SchemaError where a chain of references and combinators leads back to its start without describing anything."""
    done: set[str] = set()

    def visit(node: Any, place: str, trail: tuple[str, ...]) -> None:
        if place in trail:
            raise SchemaError("this reference leads back to itself", path=place, keyword="$ref",
                              hint="a recursive schema must pass through a property or an item")  # fmt: skip
        if place in done or not isinstance(node, Mapping):
            return
        trail = (*trail, place)
        target = target_of(node)
        if target is not None:
            visit(lookup(document, target), target, trail)
        for keyword in IN_PLACE_LISTS:
            for index, child in enumerate(node.get(keyword) or []):
                visit(child, f"{place}/{keyword}/{index}", trail)
        for keyword in (*IN_PLACE_SINGLE, "not"):
            if keyword in node:
                visit(node[keyword], f"{place}/{keyword}", trail)
        done.add(place)

    for path, node in walk(document):
        visit(node, pointer(path), ())
