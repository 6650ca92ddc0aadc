"""Dates as documents write them: ISO, day or month first, month names, Chinese."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.written_numbers import WIDTHS, chinese_number

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = r"(?P<month>jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6}\.?"
_NAME = re.compile(r"(?<![a-z])(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE)
_DAY = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?"
_GAP = r"[\s\-/.,]{0,3}"
_C = "〇零一二三四五六七八九十"
_NUMERIC = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![0-9])(?P<year>[12][0-9]{3})(?P<sep>[-/.]?)(?P<month>[01]?[0-9])(?P=sep)(?P<day>[0-3]?[0-9])(?![0-9])",
        rf"(?P<year>[12][0-9]{{3}}|[〇零一二三四五六七八九]{{4}})\s?年\s?(?P<month>[0-9]{{1,2}}|[{_C}]{{1,3}})\s?月"
        rf"\s?(?:(?P<day>[0-9]{{1,2}}|[{_C}]{{1,3}})\s?[日号號]?)?",
        rf"(?<![年0-9])(?P<month>[0-9]{{1,2}}|[{_C}]{{1,3}})\s?月\s?(?P<day>[0-9]{{1,2}}|[{_C}]{{1,3}})\s?[日号號]",
        r"(?<![0-9])(?P<a>[0-3]?[0-9])(?P<sep>[-/.])(?P<b>[0-3]?[0-9])(?P=sep)(?P<year>[12][0-9]{3}|[0-9]{2})(?![0-9])",
    )
)
_NAMED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![0-9a-z]){_DAY}{_GAP}(?:of\s)?{_MONTH}(?:{_GAP}(?P<year>[12][0-9]{{3}}|['’]?[0-9]{{2}})(?![0-9:]))?(?![a-z])",
        rf"(?<![a-z]){_MONTH}{_GAP}{_DAY}(?![0-9:])(?:{_GAP}(?P<year>[12][0-9]{{3}})(?![0-9]))?",
        rf"(?<![a-z]){_MONTH}{_GAP}(?P<year>[12][0-9]{{3}})(?![0-9])",
    )
)
_BEFORE_NAME, _AFTER_NAME = 12, 28
_ISO = re.compile(
    r"([12][0-9]{3})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?(?:Z|[+-][0-9:]{5})?)?"
)
_TIME = re.compile(
    r"[\sT,，at]{0,5}(?P<hour>[0-2]?[0-9])\s?[:：.点时h]\s?(?P<minute>[0-5][0-9])?(?:[:分](?P<second>[0-5][0-9]))?"
    r"(?:\s?(?P<half>am|pm))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class WrittenDate:
    """A date and the span that says it; ``year`` or ``day`` is None where the document leaves it out."""

    year: int | None
    month: int
    day: int | None
    start: int
    end: int


def find_dates(text: str) -> Iterator[WrittenDate]:
    """Every reading of every date in a text; ``05/04/2018`` reads as two dates."""
    plain = text.translate(WIDTHS)
    for pattern in _NUMERIC:
        for match in pattern.finditer(plain):
            yield from _readings(match)
    for name in _NAME.finditer(plain):
        for pattern in _NAMED:
            low = max(0, name.start() - _BEFORE_NAME)
            for match in pattern.finditer(plain, low, name.end() + _AFTER_NAME):
                if match.start("month") == name.start():
                    yield from _readings(match)


def _readings(match: re.Match[str]) -> Iterator[WrittenDate]:
    found = match.groupdict()
    pairs: set[tuple[int | None, int]]
    if "a" in found:
        pairs = {(int(found["a"]), int(found["b"])), (int(found["b"]), int(found["a"]))}
    else:
        pairs = {(_day(found.get("day")), _month(found["month"]))}
    for day, month in sorted(pairs, key=str):
        date = WrittenDate(_year(found.get("year")), month, day, match.start(), match.end())
        if _exists(date):
            yield date


def read_iso(text: str) -> tuple[datetime.date, datetime.time | None] | None:
    """The date (and time, without zone) of an ISO text, or None where it is no such."""
    match = _ISO.fullmatch(text.strip())
    if match is None:
        return None
    try:
        date = datetime.date(int(match[1]), int(match[2]), int(match[3]))
        time = datetime.time(int(match[4]), int(match[5]), int(match[6] or 0)) if match[4] else None
    except ValueError:
        return None
    return date, time


def time_after(text: str, at: int, time: datetime.time) -> int | None:
    """The end of the time that stands directly after ``at``, where it is ``time``; None otherwise."""
    match = _TIME.match(text, at)
    if match is None:
        return None
    hour = int(match["hour"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    same = (hour, int(match["minute"] or 0), int(match["second"] or 0)) == (time.hour, time.minute, time.second)
    return match.end() if same else None


def _month(text: str) -> int:
    if text[:3].lower() in _MONTHS:
        return _MONTHS.index(text[:3].lower()) + 1
    return _small(text)


def _day(text: str | None) -> int | None:
    return None if text is None else _small(text)


def _small(text: str) -> int:
    return int(text) if text.isdigit() and text.isascii() else chinese_number(text) or 0


def _year(text: str | None) -> int | None:
    if text is None:
        return None
    text = text.lstrip("'’")
    year = _small(text)
    return year + (2000 if year < 70 else 1900) if len(text) == 2 else year


def _exists(date: WrittenDate) -> bool:
    try:
        datetime.date(date.year or 2000, date.month, 1 if date.day is None else date.day)
    except ValueError:
        return False
    return True
