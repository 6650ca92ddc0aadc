"""Field types as Arrow types, as Spark DDL and as the Python values that Arrow takes."""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pipeline.errors import SchemaError
from pipeline.field_types import EXTRA, FieldType, infer
from pipeline.strict_json import dumps

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.schema import Schema

_SPARK = {
    "boolean": "BOOLEAN", "string": "STRING", "binary": "BINARY", "base64": "BINARY", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP_NTZ", "json": "STRING", "null": "STRING",
}  # fmt: skip
_SPARK_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}


def field_type(schema: Schema) -> FieldType:
    """The record's type; computed once per schema."""
    return _cached(schema.fingerprint, dumps(schema.json_schema))


@lru_cache(maxsize=64)
def _cached(fingerprint: str, text: str) -> FieldType:
    import json

    return infer(json.loads(text))


def arrow_struct(schema: Schema) -> pa.StructType:
    """Raises SchemaError where two fields differ only in case (Spark cannot tell them apart), or an object has none."""
    return _arrow(field_type(schema))


def ddl_of(schema: Schema) -> str:
    """``name TYPE, …`` for a record; a map root is one column named ``value``."""
    root = field_type(schema)
    if root.kind == "map":
        return f"value {column_type(root)}"
    return ", ".join(_ddl_fields(root, " "))


def _arrow(type_: FieldType) -> Any:
    import pyarrow as pa

    plain: dict[str, Callable[[], Any]] = {
        "boolean": pa.bool_, "string": pa.string, "binary": pa.binary, "base64": pa.binary, "date": pa.date32,
        "json": pa.string, "null": pa.string,
    }  # fmt: skip
    if type_.kind in plain:
        return plain[type_.kind]()
    if type_.kind == "integer":
        return {8: pa.int8, 16: pa.int16, 32: pa.int32, 64: pa.int64}[type_.bits]()
    if type_.kind == "number":
        return pa.float32() if type_.bits == 32 else pa.float64()
    if type_.kind == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    if type_.kind in ("timestamp", "timestamp_ntz"):
        return pa.timestamp("us", tz="UTC" if type_.kind == "timestamp" else None)
    if type_.kind == "map":
        assert type_.item is not None
        return pa.map_(pa.string(), pa.field("value", _arrow(type_.item), nullable=type_.item.nullable))
    if type_.kind == "list" and not type_.is_tuple:
        assert type_.item is not None
        return pa.list_(pa.field("element", _arrow(type_.item), nullable=type_.item.nullable))
    _check_names(type_)
    return pa.struct(
        [pa.field(f.name, _arrow(f.type), nullable=f.type.nullable or not f.required) for f in type_.fields]
    )


def _check_names(type_: FieldType) -> None:
    if not type_.fields and not type_.is_tuple:
        raise SchemaError(
            "an object without fields has no column in Parquet", keyword="properties",
            hint="declare its fields, leave it out, or write --format jsonl alone",
        )  # fmt: skip
    seen: dict[str, str] = {}
    for field in type_.fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise SchemaError(
                f"the fields {other!r} and {field.name!r} differ only in case, which Spark cannot tell apart",
                keyword="properties", hint="rename one of them",
            )  # fmt: skip


def column_type(type_: FieldType) -> str:
    """One type as Spark writes it."""
    if type_.kind == "integer":
        return _SPARK_INTEGERS[type_.bits]
    if type_.kind == "number":
        return "FLOAT" if type_.bits == 32 else "DOUBLE"
    if type_.kind == "decimal":
        return f"DECIMAL({type_.precision},{type_.scale})"
    if type_.kind == "list" and not type_.is_tuple:
        return f"ARRAY<{column_type(type_.item)}>" if type_.item else "ARRAY<STRING>"
    if type_.kind == "map":
        return f"MAP<STRING, {column_type(type_.item)}>" if type_.item else "MAP<STRING, STRING>"
    if type_.kind in ("struct", "list"):
        return f"STRUCT<{', '.join(_ddl_fields(type_, ': '))}>"
    return _SPARK[type_.kind]


def _ddl_fields(type_: FieldType, colon: str) -> list[str]:
    _check_names(type_)
    return [
        f"{_quote(f.name)}{colon}{column_type(f.type)}" + ("" if f.type.nullable or not f.required else " NOT NULL")
        for f in type_.fields
    ]


def _quote(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def arrow_value(schema: Schema, value: Any) -> Any:
    """Raises ValueError for a value that did not pass validation."""
    return convert(field_type(schema), value)


def convert(type_: FieldType, value: Any) -> Any:
    """One JSON value for one type."""
    if value is None:
        return "null" if type_.kind == "json" and not type_.nullable else None
    kind = type_.kind
    if kind in _SCALARS:
        return _SCALARS[kind](value)
    if kind == "integer":
        return int(value)
    if kind == "decimal":
        return value if isinstance(value, Decimal) else Decimal(str(value))
    if kind == "map":
        assert type_.item is not None
        return [(key, convert(type_.item, item)) for key, item in value.items()]
    if kind == "list" and not type_.is_tuple:
        assert type_.item is not None
        return [convert(type_.item, item) for item in value]
    if kind == "list":
        return {f.name: convert(f.type, value[i]) if i < len(value) else None for i, f in enumerate(type_.fields)}
    known = {f.name: convert(f.type, value.get(f.name)) for f in type_.fields if f.name != EXTRA}
    extra = next((f for f in type_.fields if f.name == EXTRA and f.type.kind == "map"), None)
    if extra is not None:
        known[EXTRA] = convert(extra.type, {key: item for key, item in value.items() if key not in known}) or None
    return known


def timestamp(value: str) -> datetime.datetime:
    """An RFC 3339 text as a datetime with its zone; fractions beyond microseconds are cut, a leap second rolls over."""
    text = re.sub(r"(\.\d{6})\d+", r"\1", value.upper().replace("Z", "+00:00"))
    if text[17:19] == "60":
        return datetime.datetime.fromisoformat(text[:17] + "59" + text[19:]) + datetime.timedelta(seconds=1)
    return datetime.datetime.fromisoformat(text)


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "boolean": bool,
    "string": str,
    "number": float,
    "binary": lambda value: value.encode("utf-8"),
    "base64": lambda value: base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)),
    "date": datetime.date.fromisoformat,
    "timestamp": timestamp,
    "timestamp_ntz": timestamp,
    "json": dumps,
    "null": lambda value: None,
}
