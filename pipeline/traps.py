"""What in a schema tends to go wrong in extraction, said before the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.field_rules import FieldRule
from pipeline.scalar_shapes import MAX_COUNTED_CHARS

LARGE_ENUM = 500
_SCALARS = ("string", "integer", "number", "decimal", "date", "timestamp", "timestamp_ntz", "boolean")


@dataclass(frozen=True, slots=True)
class Trap:
    """A risk of one field: ``kind`` is a fixed word, ``message`` says what happens and what to do."""

    path: str
    kind: str
    message: str


def traps_of(field: FieldRule) -> list[Trap]:
    """The risks of one field."""
    return [Trap(field.path, kind, message) for kind, message in _find(field)]


def _find(field: FieldRule) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    type_ = field.field_type
    in_list = field.path.endswith(("[]", "{}"))
    fixed = any("enum" in option or "const" in option for option in field.options)
    if field.required and not field.nullable and type_.kind in _SCALARS and not in_list and not fixed:
        found.append(("invention", "required and never null: where a document does not say it, the model invents it"))
    if type_.kind == "list" and not type_.is_tuple and not _all(field, "array", "maxItems"):
        found.append(("unbounded list", "no maxItems: a list may grow until the token limit"))
    if type_.is_tuple:
        found.append(
            ("tuple", "an array in JSON Lines, a struct (_1, _2, …) in Parquet: read the lines as ARRAY<STRING>")
        )
    if type_.kind in ("string", "json") and not type_.recursive and not _bounded_text(field):
        found.append(("unbounded text", "no maxLength, pattern or enum: only the token limit ends it"))
    longest = max((int(option.get("maxLength", 0)) for option in field.options), default=0)
    if longest > MAX_COUNTED_CHARS:
        found.append(("length checked late", f"maxLength {longest} is checked when the output is complete, not before"))
    if any(len(option.get("enum") or []) > LARGE_ENUM for option in field.options):
        found.append(("large enum", f"more than {LARGE_ENUM} values: the prompt cannot list them"))
    if type_.recursive:
        found.append(("recursive", "contains itself: the column holds JSON text here; validation bounds the depth"))
    elif type_.kind == "json":
        found.append(("mixed types", "no single column type: the column holds JSON text"))
    if type_.kind == "integer" and any("multipleOf" in option for option in field.options):
        found.append(("checked late", "multipleOf is checked when the output is complete: some outputs need a retry"))
    if any(rule.startswith("pattern") for rule in field.checked):
        found.append(("pattern not in grammar", "the expression cannot be translated, so outputs often need a retry"))
    if type_.kind == "timestamp":
        found.append(("zone", "a zone is required: where a document gives none, the model writes one"))
    return found


def _all(field: FieldRule, kind: str, keyword: str) -> bool:
    concerned = [option for option in field.options if _may_be(option, kind)]
    return all(keyword in option or "enum" in option or "const" in option for option in concerned)


def _bounded_text(field: FieldRule) -> bool:
    bounds = ("maxLength", "pattern", "format", "enum", "const")
    return all(any(k in option for k in bounds) for option in field.options if _may_be(option, "string"))


def _may_be(option: Any, kind: str) -> bool:
    types = option.get("type", kind)
    return kind == types or (isinstance(types, list) and kind in types)
