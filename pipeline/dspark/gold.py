"""A gold record as the text a model under the grammar would write: keys in schema order, a fixed layout."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

Layout = Literal["spaced", "indented", "compact"]
LAYOUTS: tuple[Layout, ...] = ("spaced", "indented", "compact")
Schema = Mapping[str, Any]


def write_gold(gold: Any, schema: Schema, layout: Layout) -> str:
    """The JSON text of `gold`; non-ASCII characters stand for themselves."""
    ordered = in_schema_order(gold, schema, schema)
    if layout == "indented":
        return json.dumps(ordered, ensure_ascii=False, indent=2)
    separators = (", ", ": ") if layout == "spaced" else (",", ":")
    return json.dumps(ordered, ensure_ascii=False, separators=separators)


def in_schema_order(value: Any, schema: Schema, root: Schema) -> Any:
    """`value` with the keys of its objects in the order their schema declares (a grammar accepts no other)."""
    if isinstance(value, dict):
        schema = _branch(value, schema, root)
        properties: Mapping[str, Schema] = schema.get("properties", {})
        ordered = {k: in_schema_order(value[k], s, root) for k, s in properties.items() if k in value}
        return ordered | {k: v for k, v in value.items() if k not in ordered}
    if isinstance(value, list):
        schema = _resolve(schema, root)
        candidates: Sequence[Schema] = [s for s in _branches(schema, root) if "items" in s or "prefixItems" in s]
        items = candidates[0].get("items", {}) if candidates else {}
        return [in_schema_order(v, items if isinstance(items, dict) else {}, root) for v in value]
    return value


def _resolve(schema: Schema, root: Schema) -> Schema:
    for _ in range(32):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        target: Any = root
        for part in reference.lstrip("#").strip("/").split("/"):
            if part:
                target = target[part.replace("~1", "/").replace("~0", "~")]
        schema = target
    return schema


def _branches(schema: Schema, root: Schema) -> list[Schema]:
    schema = _resolve(schema, root)
    found = [schema]
    for keyword in ("oneOf", "anyOf", "allOf"):
        for branch in schema.get(keyword, ()):
            found.extend(_branches(branch, root))
    return found


def _branch(value: Mapping[str, Any], schema: Schema, root: Schema) -> Schema:
    """The alternative that declares most of the value's keys and whose constants agree."""

    def fit(candidate: Schema) -> tuple[bool, int]:
        properties = candidate.get("properties", {})
        agrees = all("const" not in s or k not in value or value[k] == s["const"] for k, s in properties.items())
        return agrees, sum(k in properties for k in value)

    return max(_branches(schema, root), key=fit)
