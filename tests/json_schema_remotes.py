"""The documents that the suite's reference tests expect under http://localhost:1234/, written out by hand."""

from typing import Any

_BASE = "http://localhost:1234/draft2020-12/"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_INTEGER: dict[str, Any] = {"$schema": _DRAFT, "type": "integer"}

REMOTES: dict[str, dict[str, Any]] = {
    _BASE + "integer.json": _INTEGER,
    _BASE + "subSchemas.json": {
        "$schema": _DRAFT,
        "$defs": {"integer": {"type": "integer"}, "refToInteger": {"$ref": "#/$defs/integer"}},
    },
    _BASE + "locationIndependentIdentifier.json": {
        "$schema": _DRAFT,
        "$defs": {"refToInteger": {"$ref": "#foo"}, "A": {"$anchor": "foo", "type": "integer"}},
    },
    _BASE + "baseUriChange/folderInteger.json": _INTEGER,
    _BASE + "baseUriChangeFolder/folderInteger.json": _INTEGER,
    _BASE + "baseUriChangeFolderInSubschema/folderInteger.json": _INTEGER,
    _BASE + "name-defs.json": {
        "$schema": _DRAFT,
        "$defs": {"orNull": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
        "type": "string",
    },
    _BASE + "ref-and-defs.json": {
        "$schema": _DRAFT,
        "$id": _BASE + "ref-and-defs.json",
        "$defs": {"inner": {"properties": {"bar": {"type": "string"}}}},
        "$ref": "#/$defs/inner",
    },
    _BASE + "nested/foo-ref-string.json": {"type": "object", "properties": {"foo": {"$ref": "string.json"}}},
    _BASE + "nested/string.json": {"$schema": _DRAFT, "type": "string"},
    _BASE + "different-id-ref-string.json": {
        "$schema": _DRAFT,
        "$id": "http://localhost:1234/real-id-ref-string.json",
        "$defs": {"bar": {"type": "string"}},
        "$ref": "#/$defs/bar",
    },
    _BASE + "urn-ref-string.json": {
        "$schema": _DRAFT,
        "$id": "urn:uuid:feebdaed-ffff-0000-ffff-0000deadbeef",
        "$defs": {"bar": {"type": "string"}},
        "$ref": "#/$defs/bar",
    },
    _BASE + "nested-absolute-ref-to-string.json": {
        "$schema": _DRAFT,
        "$defs": {"bar": {"$id": "http://localhost:1234/the-nested-id.json", "type": "string"}},
        "$ref": "http://localhost:1234/the-nested-id.json",
    },
    _BASE + "detached-ref.json": {
        "$schema": _DRAFT,
        "$id": _BASE + "detached-ref.json",
        "$defs": {"foo": {"$ref": "#detached"}, "detached": {"$anchor": "detached", "type": "integer"}},
    },
    _BASE + "detached-dynamicref.json": {
        "$schema": _DRAFT,
        "$id": _BASE + "detached-dynamicref.json",
        "$defs": {"foo": {"$dynamicRef": "#detached"}, "detached": {"$dynamicAnchor": "detached", "type": "integer"}},
    },
    _BASE + "tree.json": {
        "$schema": _DRAFT,
        "$id": _BASE + "tree.json",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
    },
    _BASE + "extendible-dynamic-ref.json": {
        "$schema": _DRAFT,
        "$id": _BASE + "extendible-dynamic-ref.json",
        "type": "object",
        "properties": {"elements": {"type": "array", "items": {"$dynamicRef": "#elements"}}},
        "required": ["elements"],
        "additionalProperties": False,
        "$defs": {"elements": {"$dynamicAnchor": "elements"}},
    },
}  # fmt: skip
