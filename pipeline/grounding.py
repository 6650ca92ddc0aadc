"""Grounding: where in its document each value of a record stands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

from pipeline.folding import FoldedText, fold, joins
from pipeline.fuzzy_match import find_similar
from pipeline.written_dates import WrittenDate, find_dates, read_iso, time_after
from pipeline.written_numbers import WrittenNumbers

SpanKind = Literal["exact", "normalised", "fuzzy", "none"]

Place = tuple[int, int, float]
"""Start, end and score of one occurrence."""

_MAX_PLACES = 64
_NEAR_CHARS = 4000
_IN_WORD_SCORE = 0.6
_LEAF_TYPES = (str, int, float, Decimal)
_PARTIAL_DATE_SCORE = 0.8


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value stands: ``text[start:end)`` in code points. ``path`` is a JSON pointer, ``page`` counts from 1.

    ``exact``: the slice is the value's text. ``normalised``: it says the same (white space, case, width, number or
    date format). ``fuzzy``: it is alike, ``score`` says how much. ``none``: nowhere, start and end are None, score 0.
    """

    path: str
    start: int | None
    end: int | None
    kind: SpanKind
    score: float
    page: int | None = None


class Grounder:
    """Grounds any number of values in one document, which is indexed once and only as far as its values ask.

    ``page_starts`` are the offsets at which pages begin, ascending; without them spans carry no page.
    """

    def __init__(self, text: str, *, page_starts: Sequence[int] = ()) -> None:
        self._text = text
        self._page_starts = page_starts
        self._known: dict[str, tuple[SpanKind, list[Place]]] = {}

    def ground(self, value: Any) -> tuple[Span, ...]:
        """A span for every string and number of a JSON value, in document order of the value; booleans have none.

        Of several places, that of a list's item is taken which lies closest to the item's other fields and after the
        item before; elsewhere the first.
        """
        spans: list[Span] = []
        self._visit(value, "", 0, spans)
        return tuple(spans)

    def _visit(self, value: Any, path: str, after: int, spans: list[Span]) -> int:
        """Append the spans of ``value``; return where it begins (``after`` where it is nowhere)."""
        if isinstance(value, Mapping):
            leaves = list(_leaves(value, path))
            anchor = self._anchor([leaf for _, leaf in leaves], after) if _in_list(path) else None
            spans.extend(self._span(where, leaf, anchor, after) for where, leaf in leaves)
            for where, items in _lists(value, path):
                self._visit(items, where, after if anchor is None else anchor, spans)
            return after if anchor is None else anchor
        if isinstance(value, list | tuple):
            at = after
            for index, item in enumerate(value):
                at = self._visit(item, f"{path}/{index}", at, spans)
            return at
        if not _is_leaf(value):
            return after
        span = self._span(path, value, None, after)
        spans.append(span)
        return after if span.end is None or span.kind == "fuzzy" else span.end

    def _span(self, path: str, value: Any, anchor: int | None, after: int) -> Span:
        kind, places = self._places(value)
        if not places:
            return Span(path, None, None, "none", 0.0)
        best = max(score for _, _, score in places)
        places = [place for place in places if place[2] == best]
        if anchor is not None:
            places = self._near(value, kind, anchor) or places
            start, end, score = min(places, key=lambda place: self._distance(anchor, place[0]))
        else:
            start, end, score = next((place for place in places if place[0] >= after), places[0])
        page = bisect_right(self._page_starts, start) or None
        return Span(path, start, end, kind, round(score, 4), page)

    def _distance(self, anchor: int, at: int) -> tuple[int, int]:
        """How far a field is from its item: lines first, then characters; behind is nearer than before."""
        low, high = min(anchor, at), max(anchor, at)
        num_lines = self._text.count("\n", low, high) if high - low <= _NEAR_CHARS else _NEAR_CHARS
        return num_lines, (at - anchor) if at >= anchor else 2 * (anchor - at)

    def _anchor(self, leaves: list[Any], after: int) -> int | None:
        """The place of an item: that of its rarest field, the first one behind the item before."""
        found = [(places, len(str(leaf))) for leaf in leaves for kind, places in [self._places(leaf)] if kind != "none"]
        if not found:
            return None
        places, _ = min(found, key=lambda item: (len(item[0]), -item[1]))
        return next((start for start, _, _ in places if start >= after), places[0][0])

    def _near(self, value: Any, kind: SpanKind, anchor: int) -> list[Place]:
        """Places around ``anchor`` of a text that occurs too often for all its places to be known."""
        needle = _literal(value)
        if kind != "exact" or len(self._known[needle][1]) < _MAX_PLACES:
            return []
        low = max(0, anchor - _NEAR_CHARS)
        if not isinstance(value, str):
            return [place for place in self._numbers_like(needle) if low <= place[0] < anchor + _NEAR_CHARS]
        found = self._occurrences(self._text, needle, low, anchor + _NEAR_CHARS)
        return found if _is_whole(found) else []

    def _places(self, value: Any) -> tuple[SpanKind, list[Place]]:
        """How and where a value occurs: ascending (start, end, score)."""
        key = _literal(value)
        if key not in self._known:
            self._known[key] = self._search(value, key)
        return self._known[key]

    def _search(self, value: Any, literal: str) -> tuple[SpanKind, list[Place]]:
        if not isinstance(value, str):
            return self._search_number(literal)
        if not literal.strip():
            return "none", []
        exact = self._occurrences(self._text, literal)
        if _is_whole(exact):
            return "exact", exact
        folded = fold(literal)
        same = self._occurrences(self._folded.folded, folded) if folded else []
        spans = [(*self._folded.span(start, end), score) for start, end, score in same]
        if _is_whole(spans):
            return "normalised", spans
        said = self._dates_like(literal) or self._numbers_like(literal)
        if said:
            return "normalised", said
        if exact or spans:
            return ("exact", exact) if exact else ("normalised", spans)
        alike = find_similar(self._folded.folded, folded)
        if alike is None:
            return "none", []
        return "fuzzy", [(*self._folded.span(alike[0], alike[1]), alike[2])]

    def _search_number(self, literal: str) -> tuple[SpanKind, list[Place]]:
        if literal.isdigit() and literal.isascii():  # what most are: no reading is worth more than these
            written = [place for place in self._numbers.exact(literal) if self._text[place[0] : place[1]] == literal]
            if written:
                return "exact", [(start, end, self._number_score(start)) for start, end in written[:_MAX_PLACES]]
        said = self._numbers_like(literal)
        exact = [place for place in said if self._text[place[0] : place[1]] == literal]
        if exact:
            return "exact", exact[:_MAX_PLACES]
        return ("normalised", said[:_MAX_PLACES]) if said else ("none", [])

    @staticmethod
    def _occurrences(text: str, needle: str, low: int = 0, high: int | None = None) -> list[Place]:
        """Up to 64 places of ``needle``; those inside a longer word score less, inside a run of digits do not count."""
        found: list[Place] = []
        inside: list[Place] = []
        at = text.find(needle, low, high)
        while at >= 0 and len(found) < _MAX_PLACES:
            end = at + len(needle)
            before, after = text[max(0, at - 2) : at], text[end : end + 2]
            if (before[-1:].isdigit() and needle[0].isdigit()) or (after[:1].isdigit() and needle[-1].isdigit()):
                pass
            elif _continues(before[::-1], needle[0]) or _continues(after, needle[-1]):
                if len(inside) < _MAX_PLACES:
                    inside.append((at, end, _IN_WORD_SCORE))
            else:
                found.append((at, end, 1.0))
            at = text.find(needle, at + 1, high)
        return found or inside

    def _numbers_like(self, literal: str) -> list[Place]:
        try:
            number = Decimal(literal.replace(",", "") if literal.count(",") else literal).normalize() + 0
        except ArithmeticError:
            return []
        if not number.is_finite():
            return []
        return [(start, end, self._number_score(start)) for start, end in self._numbers.places(number)]

    def _number_score(self, start: int) -> float:
        """``12`` inside ``B12`` is a weaker place than ``12``."""
        before = self._text[start - 1 : start]
        return _IN_WORD_SCORE if before.isalpha() and before.isascii() else 1.0

    def _dates_like(self, literal: str) -> list[Place]:
        iso = read_iso(literal)
        if iso is None:
            return []
        day, time = iso
        found = []
        for date in self._dates.get((day.month, day.day), []) + self._dates.get((day.month, None), []):
            if date.year in (day.year, None):
                end = (time_after(self._text, date.end, time) if time else None) or date.end
                score = _PARTIAL_DATE_SCORE if date.year is None or date.day is None else 1.0
                found.append((date.start, end, score))
        return sorted(found)[:_MAX_PLACES]

    @cached_property
    def _folded(self) -> FoldedText:
        return FoldedText(self._text)

    @cached_property
    def _numbers(self) -> WrittenNumbers:
        return WrittenNumbers(self._text)

    @cached_property
    def _dates(self) -> dict[tuple[int, int | None], list[WrittenDate]]:
        index: dict[tuple[int, int | None], list[WrittenDate]] = {}
        for date in find_dates(self._text):
            index.setdefault((date.month, date.day), []).append(date)
        return index


def _continues(outside: str, edge: str) -> bool:
    """True where the characters outside a match (nearest first) belong to the word or number at its edge."""
    if not outside:
        return False
    return joins(outside[0], edge) or (edge.isdigit() and outside[0] in ".," and outside[1:].isdigit())


def _is_whole(places: list[Place]) -> bool:
    return bool(places) and places[0][2] == 1.0


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, _LEAF_TYPES) and not isinstance(value, bool)


def _leaves(value: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Strings and numbers of an object and the objects in it, without those in lists."""
    for name, item in value.items():
        where = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if isinstance(item, Mapping):
            yield from _leaves(item, where)
        elif _is_leaf(item):
            yield where, item


def _lists(value: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        where = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if isinstance(item, Mapping):
            yield from _lists(item, where)
        elif isinstance(item, list | tuple):
            yield where, item


def _in_list(path: str) -> bool:
    return path.rpartition("/")[2].isdigit()
