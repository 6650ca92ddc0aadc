"""Values of a document in the form a record writes them: numbers normalised, dates as ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date

_FRACTIONS = {
    "\u00bd": 0.5, "\u00bc": 0.25, "\u00be": 0.75, "\u2153": 1 / 3, "\u2154": 2 / 3,
    "\u215b": 0.125, "\u215c": 0.375, "\u215d": 0.625, "\u215e": 0.875,
}  # fmt: skip
_SIGNS = "".join(_FRACTIONS)
_NUMBER = re.compile(rf"\d+(?:[.,']\d+)*(?:\s?[{_SIGNS}]|\s\d+/\d+|/\d+)?|[{_SIGNS}]")
_NUMERIC_DATE = re.compile(r"\b(\d{1,4})\s?[-/.\u5e74]\s?(\d{1,2})\s?[-/.\u6708]\s?(\d{1,4})\b")
_NAMED_DATE = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?[\s/.-]*([^\W\d_]{3,9})[\s,./'-]*(\d{4}|\d{2})\b")
_NAMED_DATE_FIRST = re.compile(r"\b([^\W\d_]{3,9})[\s.]*(\d{1,2})(?:st|nd|rd|th)?[\s,]+(\d{4})\b")
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


def _numbers(text: str, write: Callable[[float], str]) -> Iterator[tuple[int, str]]:
    for m in _NUMBER.finditer(text):
        value = _number(m.group())
        if value is not None and value < 1e15:
            yield m.start(), write(value)


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(round(value, 6))


def _iso(year: int, month: int, day: int) -> str | None:
    if year < 100:
        year += 2000 if year < 70 else 1900
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def _dates(text: str, day_first: bool) -> Iterator[tuple[int, str]]:
    for m in _NUMERIC_DATE.finditer(text):
        a, b, c = int(m[1]), int(m[2]), int(m[3])
        if len(m[1]) > 2:
            found = _iso(a, b, c)
        else:
            found = (_iso(c, b, a) or _iso(c, a, b)) if day_first else (_iso(c, a, b) or _iso(c, b, a))
        if found:
            yield m.start(), found
    for m in _NAMED_DATE.finditer(text):
        month = _MONTHS.get(m[2][:3].lower())
        found = _iso(int(m[3]), month, int(m[1])) if month else None
        if found:
            yield m.start(), found
    for m in _NAMED_DATE_FIRST.finditer(text):
        month = _MONTHS.get(m[1][:3].lower())
        found = _iso(int(m[3]), month, int(m[2])) if month else None
        if found:
            yield m.start(), found


def _quoted(found: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    return ((at, f'"{text}"') for at, text in found)


# A way of rendering: its name -> (character offset, text as written in the record) of everything in a document.
RENDERINGS: dict[str, Callable[[str], Iterator[tuple[int, str]]]] = {
    "number": lambda text: _numbers(text, _shortest),
    "float": lambda text: _numbers(text, lambda value: repr(round(value, 6))),
    "date-day-first": lambda text: _quoted(_dates(text, True)),
    "date-month-first": lambda text: _quoted(_dates(text, False)),
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
