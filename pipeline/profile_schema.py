"""A field type as JSON Schema: what a reader of a profile's lines may rely on."""

from __future__ import annotations

from typing import Any

from pipeline.field_types import EXTRA, FieldType

_FORMATS = {"date": "date", "timestamp": "date-time", "timestamp_ntz": "date-time-local"}


def json_schema_of(type_: FieldType) -> dict[str, Any]:
    """Types, required fields and nullability; ``json`` places take any value."""
    schema = _plain(type_)
    if type_.nullable and "type" in schema and schema["type"] != "null":
        schema["type"] = [schema["type"], "null"]
    return schema


def _plain(type_: FieldType) -> dict[str, Any]:
    if type_.kind in ("string", "binary", "base64"):
        return {"type": "string"}
    if type_.kind in _FORMATS:
        return {"type": "string", "format": _FORMATS[type_.kind]}
    if type_.kind in ("null", "boolean", "integer", "number"):
        return {"type": type_.kind}
    if type_.kind == "decimal":
        return {"type": "number"}
    if type_.kind == "list":
        if type_.is_tuple:
            return {"type": "array", "prefixItems": [json_schema_of(f.type) for f in type_.fields]}
        return {"type": "array", "items": json_schema_of(type_.item) if type_.item else {}}
    if type_.kind == "map":
        return {"type": "object", "additionalProperties": json_schema_of(type_.item) if type_.item else {}}
    if type_.kind == "struct":
        extra = next((f.type.item for f in type_.fields if f.name == EXTRA and f.type.kind == "map"), None)
        fields = [f for f in type_.fields if f.name != EXTRA]
        return {
            "type": "object",
            "properties": {f.name: json_schema_of(f.type) for f in fields},
            "required": [f.name for f in fields if f.required],
            "additionalProperties": json_schema_of(extra) if extra else False,
        }
    return {}
