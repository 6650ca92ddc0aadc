"""Borders of a text: the places where it may be cut, weakest to strongest."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class Border(IntEnum):
    """How good a place to cut is; a hard-wrapped line of prose counts as WORD."""

    CHARACTER = 0
    WORD = 1
    CLAUSE = 2
    SENTENCE = 3
    LINE = 4
    PARAGRAPH = 5


@dataclass(frozen=True, slots=True)
class Unit:
    """``text[start:end)`` that is never cut inside, white space after it included; ``border`` is what its end is."""

    start: int
    end: int
    border: Border


# Possessive, and a run of points begins once: a text of nothing but points must not take quadratic time.
_STRONG = re.compile(
    r"(?P<line>[\n\r\f\u2028\u2029]\s*)"
    r"|(?P<cjk>[。！？；…｡]++[”’」』）)》\"']*+\s*+)"
    r"|(?P<latin>(?<![.!?])[.!?]++[\"')\]”’»]*+\s++)"
)
_CLAUSE = re.compile(r"[，、：]\s*|[,;:)\]]\s+")
_SPACE = re.compile(r"\s+")
_ABBREVIATION = re.compile(
    r"(?:\b\w|\b(?:mr|mrs|ms|dr|prof|no|nr|st|vs|etc|inc|ltd|co|corp|jr|sr|fig|vol|pp|ed|eds|approx|tel|jan|feb|mar|apr"
    r"|jun|jul|aug|sep|sept|oct|nov|dec))\Z",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8
_JOINERS = "\u200d\ufe0e\ufe0f"


def split_units(text: str, *, max_chars: int, start: int = 0, end: int | None = None) -> Iterator[Unit]:
    """Units of ``text[start:end)`` in order, without gaps, each at most ``max_chars`` code points. Linear time."""
    stop = len(text) if end is None else end
    at = start
    for match in _STRONG.finditer(text, start, stop):
        border = _classify(text, match)
        if border is not None:
            yield from _shorten(text, at, match.end(), border, max_chars)
            at = match.end()
    if at < stop:
        yield from _shorten(text, at, stop, Border.PARAGRAPH, max_chars)


def _classify(text: str, match: re.Match[str]) -> Border | None:
    found = match.group()
    space = found[len(found.rstrip()) :]
    num_lines = space.count("\n") or len(space.strip(" \t"))
    if num_lines > 1 or "\f" in space or "\u2029" in space:
        return Border.PARAGRAPH
    if match.lastgroup == "line":
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        wrapped = after.islower() and (before.islower() or before == ",")
        return Border.WORD if wrapped else Border.LINE
    if num_lines:
        return Border.LINE
    if match.lastgroup == "latin" and found[0] == ".":
        before = text[max(0, match.start() - _LONGEST_ABBREVIATION) : match.start()]
        if _ABBREVIATION.search(before) and not before[-1:].isdigit():
            return None
    return Border.SENTENCE


def _shorten(text: str, start: int, end: int, border: Border, max_chars: int) -> Iterator[Unit]:
    """Cut one stretch at ever weaker borders until every piece is short enough."""
    while end - start > max_chars:
        cut, weak = _weak_cut(text, start, start + max_chars)
        yield Unit(start, cut, weak)
        start = cut
    if start < end:
        yield Unit(start, end, border)


def _weak_cut(text: str, start: int, limit: int) -> tuple[int, Border]:
    """The last clause or word border in the second half of ``[start, limit)``, else a character border."""
    middle = (start + limit) // 2
    for pattern, border in ((_CLAUSE, Border.CLAUSE), (_SPACE, Border.WORD)):
        cut = max((m.end() for m in pattern.finditer(text, middle, limit)), default=0)
        if cut > start:
            return cut, border
    return character_cut(text, start, limit), Border.CHARACTER


def character_cut(text: str, start: int, limit: int) -> int:
    """``limit``, or a place shortly before it that splits no number, no Latin word and no combined character."""
    floor = max(start + 1, limit - 32)
    for cut in range(limit, floor - 1, -1):
        if cut >= len(text) or not _sticks(text[cut - 1], text[cut]):
            return cut
    return limit


def _sticks(left: str, right: str) -> bool:
    if unicodedata.combining(right) or right in _JOINERS or left == "\u200d":
        return True
    return (left.isalnum() or left in ".,") and right.isalnum() and left.isascii() and right.isascii()
