"""Faults of a Pydantic class that would lose values or refuse every output, found before any work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import AliasChoices, AliasPath, BaseModel

from pipeline.errors import SchemaError
from pipeline.subschemas import walk


def check_class(cls: type[BaseModel], read: Mapping[str, Any], written: Mapping[str, Any]) -> None:
    """``read`` and ``written`` are the class's JSON Schemas for validation and for serialisation.

    Raises SchemaError where a field is read under another name than it is written, from inside another value, written
    as another type than it is read, or written as stars.
    """
    for model in models_of(cls):
        for name, field in model.model_fields.items():
            alias = field.validation_alias
            if any(
                isinstance(one, AliasPath) for one in (alias.choices if isinstance(alias, AliasChoices) else [alias])
            ):
                raise SchemaError(
                    f"{model.__name__}.{name} is read from inside another value (AliasPath), which no record has",
                    keyword="properties", hint="use alias",
                )  # fmt: skip
    pairs = [(cls.__name__, read, written)]
    pairs += [(name, part, written.get("$defs", {}).get(name, part)) for name, part in read.get("$defs", {}).items()]
    for name, one, other in pairs:
        lost = set(one.get("properties", {})) - set(other.get("properties", {}))
        if lost:
            raise SchemaError(
                f"{name} reads {sorted(lost)} under one name and writes it under another or not at all",
                keyword="properties", hint="use alias, not different validation and serialization aliases, nor exclude",
            )  # fmt: skip
        for place, before, after in _changed(one, other, name):
            raise SchemaError(
                f"{place} is read as {before} and written as {after}: no record would satisfy the schema",
                keyword="type", hint="leave its serializer out, or declare the type that it writes",
            )  # fmt: skip
    for _, node in walk(read):
        if isinstance(node, Mapping) and node.get("writeOnly") is True and node.get("format") == "password":
            raise SchemaError(
                f"{cls.__name__} has a secret, which would be written as stars", keyword="writeOnly", hint="use str"
            )


def models_of(cls: type[BaseModel]) -> list[type[BaseModel]]:
    """The class and the models in its fields, each once."""
    seen: dict[type[BaseModel], None] = {}

    def visit(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
            seen[annotation] = None
            for field in annotation.model_fields.values():
                visit(field.annotation)
        for argument in getattr(annotation, "__args__", ()):
            visit(argument)

    visit(cls)
    return list(seen)


def _changed(read: Any, written: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """(place, form read, form written) where no value has both forms; references are compared where they point to."""
    if not isinstance(read, Mapping) or not isinstance(written, Mapping):
        return
    before, after = _forms(read), _forms(written)
    if before and after and not before & after:
        yield place, " or ".join(sorted(before)), " or ".join(sorted(after))
        return
    for name, child in (read.get("properties") or {}).items():
        yield from _changed(child, (written.get("properties") or {}).get(name), f"{place}.{name}")
    for keyword in ("items", "additionalProperties"):
        yield from _changed(read.get(keyword), written.get(keyword), f"{place}[]")
    for keyword in ("prefixItems", "anyOf"):
        mine, theirs = read.get(keyword) or [], written.get(keyword) or []
        if len(mine) == len(theirs):
            for one, other in zip(mine, theirs, strict=True):
                yield from _changed(one, other, place)


def _forms(node: Mapping[str, Any]) -> set[str]:
    """Types with their formats; empty where a node says none. A number may be an integer."""
    if "anyOf" in node:
        parts = [_forms(option) for option in node["anyOf"]]
        return set.union(*parts) if all(parts) else set()
    kinds = node.get("type", [])
    found = {kinds} if isinstance(kinds, str) else set(kinds)
    if "string" in found and "format" in node:
        found = found - {"string"} | {f"{node['format']}"}
    return {"number" if kind == "integer" else kind for kind in found}
