"""Any JSON Schema draft to the one form the rest works on: draft 2020-12, local references, closed objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.closing import close_objects_of
from pipeline.errors import SchemaError
from pipeline.references import Resources, bundle, localise
from pipeline.subschemas import map_schemas, pointer, walk

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_OLD = ("draft-07", "draft-06")
_BESIDE_REF = ("$ref", "$defs", "definitions", "description", "title")
_REFUSED = ("draft-04", "draft-03")
Formats = Literal["assert", "annotate"]


@dataclass(frozen=True, slots=True)
class Canonical:
    """``json_schema`` is the canonical form; ``original``, where set, must hold as well (see :func:`localise`)."""

    json_schema: dict[str, Any]
    original: dict[str, Any] | None = None


def canonical(
    document: Mapping[str, Any],
    *,
    close_objects: bool = True,
    resources: Resources | None = None,
    formats: Formats = "assert",
) -> Canonical:
    """The canonical form of a schema document.

    ``close_objects`` gives every object with declared properties ``additionalProperties: false`` unless it says
    otherwise (an extracted record has the declared fields only). ``resources`` finds other documents by address.
    ``formats`` "annotate" leaves ``format`` and ``contentEncoding`` out: they decide neither validity nor types.
    Raises SchemaError with path and keyword.
    """
    if resources is not None:
        document = bundle(document, resources)
    draft = str(document.get("$schema", DRAFT))
    if any(name in draft for name in _REFUSED):
        raise SchemaError(f"{draft} is not supported", keyword="$schema", hint="use draft 7, 2019-09 or 2020-12")
    modern = _modernise(document, siblings_of_ref=not any(name in draft for name in _OLD))
    _check_meta(modern)
    _check_values(modern)
    local, is_open = localise(modern)
    if formats == "annotate":
        local = map_schemas(local, _without_format)
    if close_objects:
        local = close_objects_of(local)
    json_schema = {"$schema": DRAFT, **{key: value for key, value in local.items() if key != "$schema"}}
    return Canonical(json_schema, modern if is_open else None)


def _without_format(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in ("format", "contentEncoding")}


def _modernise(document: Mapping[str, Any], *, siblings_of_ref: bool) -> dict[str, Any]:
    def change(node: dict[str, Any]) -> dict[str, Any]:
        if not siblings_of_ref and isinstance(node.get("$ref"), str):
            node = {key: value for key, value in node.items() if key in _BESIDE_REF}
        if isinstance(node.get("$id"), str) and node["$id"].startswith("#") and len(node["$id"]) > 1:
            node["$anchor"] = node.pop("$id")[1:]  # how draft 7 wrote an anchor
        if isinstance(node.get("items"), list):
            node["prefixItems"] = [map_schemas(child, change) for child in node.pop("items")]
            if "additionalItems" in node:
                node["items"] = map_schemas(node.pop("additionalItems"), change)
        if isinstance(node.get("dependencies"), Mapping):
            for name, value in node.pop("dependencies").items():
                keyword = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
                node.setdefault(keyword, {})[name] = map_schemas(value, change)
        if isinstance(node.get("$schema"), str):
            node["$schema"] = DRAFT
        return node

    result = map_schemas(document, change)
    assert isinstance(result, dict)
    return result


def _check_meta(document: dict[str, Any]) -> None:
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(document)
    except jsonschema_rs.ValidationError as error:
        path = tuple(str(part) for part in error.instance_path)
        raise SchemaError(str(error.message), path=pointer(path), keyword=path[-1] if path else None) from None
    except Exception as error:  # the library raises several kinds for a $schema it does not know
        raise SchemaError(f"not a usable JSON Schema: {error}", keyword="$schema") from None


def _check_values(document: dict[str, Any]) -> None:
    for path, node in walk(document):
        if not isinstance(node, Mapping):
            continue
        if node.get("enum") == []:
            raise SchemaError("an empty enum allows no value", path=pointer(path), keyword="enum")
        for lower, upper in (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum")):
            if lower in node and upper in node and node[lower] > node[upper]:
                message = f"{lower} {node[lower]} is above {upper} {node[upper]}"
                raise SchemaError(message, path=pointer(path), keyword=lower)
