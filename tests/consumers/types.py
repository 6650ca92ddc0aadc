"""Random field types and valid values of them, for properties that hold for every schema."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from pipeline.field_types import Field, FieldType

NAMES = st.sampled_from(["a", "b", "city", "läge", "Zahl"])
SCALARS = ("boolean", "integer", "number", "decimal", "string", "date", "timestamp", "timestamp_ntz")
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)


def _scalar_types() -> st.SearchStrategy[FieldType]:
    def build(kind: Any, nullable: bool) -> FieldType:
        return FieldType(kind, nullable, precision=20 if kind == "decimal" else 0, scale=4 if kind == "decimal" else 0)

    return st.builds(build, st.sampled_from(SCALARS), st.booleans())


def _struct(names: list[str], types: list[FieldType], required: list[bool], nullable: bool) -> FieldType:
    fields = tuple(Field(n, t, r) for n, t, r in zip(names, types, required, strict=False))
    return FieldType("struct", nullable, fields=fields)


def _structs(children: st.SearchStrategy[FieldType]) -> st.SearchStrategy[FieldType]:
    names = st.lists(NAMES, min_size=1, max_size=4, unique=True)
    types = st.lists(children, min_size=4, max_size=4)
    return st.builds(_struct, names, types, st.lists(st.booleans(), min_size=4, max_size=4), st.booleans())


def _nested(children: st.SearchStrategy[FieldType]) -> st.SearchStrategy[FieldType]:
    lists = st.builds(lambda item, nullable: FieldType("list", nullable, item=item), children, st.booleans())
    return st.one_of(_structs(children), lists)


RECORD_TYPES = _structs(st.recursive(_scalar_types(), _nested, max_leaves=6)).map(lambda t: replace(t, nullable=False))


def values(type_: FieldType) -> st.SearchStrategy[Any]:
    """Valid values of a type, as validation gives them."""
    plain = _plain(type_)
    return st.one_of(st.none(), plain) if type_.nullable else plain


def _plain(type_: FieldType) -> st.SearchStrategy[Any]:
    if type_.kind == "struct":
        required = {f.name: values(f.type) for f in type_.fields if f.required}
        return st.fixed_dictionaries(
            required, optional={f.name: values(f.type) for f in type_.fields if not f.required}
        )
    if type_.kind == "list":
        assert type_.item is not None
        return st.lists(values(type_.item), max_size=3)
    scalars: dict[str, st.SearchStrategy[Any]] = {
        "boolean": st.booleans(),
        "integer": INT64,
        "number": st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53)),
        "decimal": st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-4)),
        "string": TEXTS,
        "date": st.dates().map(lambda day: day.isoformat()),
        "timestamp": st.builds(_instant, st.datetimes(), st.integers(-14 * 60, 14 * 60)),
        "timestamp_ntz": st.datetimes().map(lambda moment: moment.isoformat()),
    }
    return scalars[type_.kind]


def _instant(moment: datetime, offset_minutes: int) -> str:
    hours, minutes = divmod(abs(offset_minutes), 60)
    return f"{moment.isoformat()}{'-' if offset_minutes < 0 else '+'}{hours:02d}:{minutes:02d}"
