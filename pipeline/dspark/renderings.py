"""Values of a document in the form a record writes them: numbers normalised, dates as ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import lru_cache

_FRACTIONS = {
    "\u00bd": 0.5, "\u00bc": 0.25, "\u00be": 0.75, "\u2153": 1 / 3, "\u2154": 2 / 3,
    "\u215b": 0.125, "\u215c": 0.375, "\u215d": 0.625, "\u215e": 0.875,
}  # fmt: skip
_SIGNS = "".join(_FRACTIONS)
# Each begins with the character it looks for, so that the engine jumps from one to the next; what must not stand before
# it is asked afterwards.
_NUMBER = re.compile(r"\d+(?:[.,']\d+)*(?:\s\d+/\d+|/\d+)?")
_NUMBER_OR_SIGN = re.compile(rf"\d+(?:[.,']\d+)*(?:\s?[{_SIGNS}]|\s\d+/\d+|/\d+)?|[{_SIGNS}]")
_SIGN = re.compile(rf"[{_SIGNS}]")
_NUMERIC_DATE = re.compile(r"(\d(?<!\w.)\d{0,3})\s?[-/.\u5e74]\s?(\d{1,2})\s?[-/.\u6708]\s?(\d{1,4})\b")
_NAMED_DATE = re.compile(r"(\d(?<!\w.)\d?)(?:st|nd|rd|th)?[\s/.-]*([^\W\d_]{3,9})[\s,./'-]*(\d{4}|\d{2})\b")
_NAMED_DATE_FIRST = re.compile(
    r"([JFMASONDjfmasond](?<!\w.)[^\W\d_]{2,8})[\s.]*(\d{1,2})(?:st|nd|rd|th)?[\s,]+(\d{4})\b"
)
_MONTHS = {
    m: i for i, m in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_MAX_FOUND = 400

Rendered = tuple[int, bytes]


def _number(text: str) -> float | None:
    body, _, whole = text, "", 0.0
    extra = 0.0
    fraction = re.search(r"(\d+)/(\d+)$", body)
    if body[-1] in _FRACTIONS:
        extra, body = _FRACTIONS[body[-1]], body[:-1].strip()
    elif fraction:
        if int(fraction[2]) == 0:
            return None
        extra, body = int(fraction[1]) / int(fraction[2]), body[: fraction.start()].strip()
    if body:
        body = body.replace("'", "")
        if body.count(",") and re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", body):
            body = body.replace(",", "")
        elif re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", body):
            body = body.replace(".", "").replace(",", ".")
        else:
            body = body.replace(",", ".")
        try:
            whole = float(body)
        except ValueError:
            return None
    return whole + extra


@lru_cache(maxsize=20_000)
def _written(text: str) -> tuple[str, str] | None:
    """A number as short as it goes, and as a float; the same ones come in document after document."""
    value = _number(text)
    return None if value is None or value >= 1e15 else (_shortest(value), repr(round(value, 6)))


@lru_cache(maxsize=4)
def _numbers(text: str) -> list[tuple[int, str, str]]:
    """(offset, as short as it goes, as a float) of all numbers; asked for once for each form."""
    pattern = _NUMBER if text.isascii() or _SIGN.search(text) is None else _NUMBER_OR_SIGN
    found = [(m.start(), _written(m[0])) for m in pattern.finditer(text)]
    return [(at, *written) for at, written in found if written is not None]


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(round(value, 6))


def _iso(year: int, month: int, day: int) -> str | None:
    if year < 100:
        year += 2000 if year < 70 else 1900
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


@lru_cache(maxsize=4)
def _dates(text: str) -> list[tuple[int, str | None, str | None]]:
    """(offset, ISO date if days come first, if months do) of all dates; asked for once with each order."""
    found: list[tuple[int, str | None, str | None]] = []
    for m in _NUMERIC_DATE.finditer(text):
        a, b, c = int(m[1]), int(m[2]), int(m[3])
        if len(m[1]) > 2:
            one = other = _iso(a, b, c)
        else:
            one, other = _iso(c, b, a), _iso(c, a, b)
        found.append((m.start(), one or other, other or one))
    lowered = text.lower()
    if any(month in lowered for month in _MONTHS):
        named = [(m.start(), m[3], m[2], m[1]) for m in _NAMED_DATE.finditer(text)]
        named += [(m.start(), m[3], m[1], m[2]) for m in _NAMED_DATE_FIRST.finditer(text)]
        for at, year, name, day in named:
            month = _MONTHS.get(name[:3].lower())
            written = _iso(int(year), month, int(day)) if month else None
            found.append((at, written, written))
    return found


def _quoted(text: str, order: int) -> Iterator[tuple[int, str]]:
    return ((one[0], f'"{one[order]}"') for one in _dates(text) if one[order])


# A way of rendering: its name -> (character offset, text as written in the record) of everything in a document.
RENDERINGS: dict[str, Callable[[str], Iterator[tuple[int, str]]]] = {
    "number": lambda text: ((one[0], one[1]) for one in _numbers(text)),
    "float": lambda text: ((one[0], one[2]) for one in _numbers(text)),
    "date-day-first": lambda text: _quoted(text, 1),
    "date-month-first": lambda text: _quoted(text, 2),
}

NUMBERS = ("number", "float")
DATES = ("date-day-first", "date-month-first")


def render(how: str, text: str) -> list[tuple[int, bytes]]:
    """All values of `text` in one rendering, at most 400, as (character offset, bytes as written)."""
    found: list[tuple[int, bytes]] = []
    for at, value in RENDERINGS[how](text):
        found.append((at, value.encode()))
        if len(found) == _MAX_FOUND:
            break
    return found
