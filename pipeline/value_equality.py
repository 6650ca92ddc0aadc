"""When an extracted value equals the right one: exactly, or in what it says."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from pipeline.folding import fold
from pipeline.merging import identity, is_blank
from pipeline.written_dates import find_dates, read_iso

Mode = Literal["exact", "normalised"]


def is_nothing(value: Any) -> bool:
    """Null, an empty string, an empty list or object: the document does not say it."""
    return is_blank(value) or (isinstance(value, list | Mapping) and all(map(is_nothing, _parts(value))))


def comparable(value: Any, mode: Mode) -> str:
    """Equal texts for equal values. Numbers count by value in both modes.

    ``normalised`` also ignores case, width, accents, white space, quotes and dashes, and reads ISO dates by value.
    """
    return identity(value if mode == "exact" else _normal(value))


def is_equal(left: Any, right: Any, mode: Mode) -> bool:
    """Equality of two scalars; ``normalised`` also knows a date in two spellings and a number inside a string."""
    if comparable(left, mode) == comparable(right, mode):
        return True
    if mode == "exact" or isinstance(left, bool) or isinstance(right, bool):
        return False
    if isinstance(left, str) and isinstance(right, str):
        return bool(_dates(left) & _dates(right))
    numbers = [_number(left), _number(right)]
    return None not in numbers and numbers[0] == numbers[1]


def _parts(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else list(value)


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _normal(item) for name, item in value.items() if not is_nothing(item)}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if not isinstance(value, str):
        return value
    iso = read_iso(value)
    if iso is None:
        return fold(value)
    return iso[0].isoformat() if iso[1] is None else f"{iso[0]} {iso[1]}"


def _dates(text: str) -> set[datetime.date]:
    """Dates that a whole text can be read as."""
    if len(text) > 40 or not any(c.isdigit() for c in text):
        return set()
    iso = read_iso(text)
    if iso is not None:
        return {iso[0]} if iso[1] is None else set()
    text = text.strip()
    return {
        datetime.date(found.year, found.month, found.day)
        for found in find_dates(text)
        if found.year and found.day and (found.start, found.end) == (0, len(text))
    }


def _number(value: Any) -> Decimal | None:
    try:
        number = Decimal(str(value).replace(",", "").strip())
    except ArithmeticError:
        return None
    return number if number.is_finite() else None
