"""Numbers as documents write them: digits with separators, fractions, magnitudes, number words, Chinese numerals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise

WIDTHS = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {0x3000: " ", 0x2212: "-"}
"""Full to half width, one character for one, so that offsets stay."""

_DIGITS = re.compile(r"[0-9](?:[0-9]|[.,'’](?=[0-9]))*")  # one digit first: found much faster than a run
_SPACES = " \u00a0\u202f"
_SPACED = re.compile(rf"[0-9](?<![0-9.,][0-9])[0-9]{{0,2}}(?:[{_SPACES}][0-9]{{3}})+(?:[.,][0-9]+)?(?![0-9])")
_AFTER = re.compile(
    r"\s{0,1}(?:(?P<percent>%)|(?P<big>[万萬亿億千百]+)"
    r"|(?P<word>thousand|million|billion|mn|bn|k|m)(?![A-Za-z0-9]))",
    re.IGNORECASE,
)
_FRACTION = re.compile(
    r"(?:(?<![0-9.,/])([0-9]+)\s{0,2})?(?:([½¼¾⅓⅔⅛⅜⅝⅞])|(?<![0-9/])([0-9]{1,3})[/⁄]([0-9]{1,3})(?![0-9/]))"
)
_GLYPHS = {"½": (1, 2), "¼": (1, 4), "¾": (3, 4), "⅓": (1, 3), "⅔": (2, 3)} | {
    glyph: (top, 8) for glyph, top in zip("⅛⅜⅝⅞", (1, 3, 5, 7), strict=True)
}
_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
          "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty")  # fmt: skip
_LARGE = {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
          "hundred": 100, "dozen": 12, "thousand": 1000}  # fmt: skip
_WORDS = {word: number for number, word in enumerate(_SMALL)} | _LARGE
_WORD_VALUES = frozenset(_WORDS.values())
_NO_DIGIT = re.compile(r"[^0-9]")
_PART = re.compile("[0-9]+")
_GROUP = re.compile("[0-9]{3}(?![0-9])")
_WORD = re.compile(r"\b(?:" + "|".join(_WORDS) + r")\b", re.IGNORECASE)
_CHINESE_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_CHINESE = re.compile("[" + "".join(_CHINESE_DIGITS) + "".join(_UNITS) + "]+")
_MAGNITUDES = {"k": 10**3, "thousand": 10**3, "m": 10**6, "mn": 10**6, "million": 10**6, "bn": 10**9, "billion": 10**9}

Found = tuple[Decimal, int, int]
"""A number and the span that says it."""


class WrittenNumbers:
    """The numbers of a text, indexed by their digits; what they mean is worked out when a number is looked for."""

    def __init__(self, text: str) -> None:
        self._plain = text if text.isascii() else text.translate(WIDTHS)
        self._by_digits: dict[str, list[re.Match[str]]] = {}
        self._others: dict[re.Pattern[str], dict[Decimal, list[tuple[int, int]]]] = {}
        runs = list(_DIGITS.finditer(self._plain))
        for matches in (runs, _SPACED.finditer(self._plain)) if self._has_groups(runs) else (runs,):
            for match in matches:
                token = match.group()
                if token.isdigit():
                    self._by_digits.setdefault(token.strip("0"), []).append(match)
                    continue
                parts = _NO_DIGIT.split(token)
                for digits in {"".join(parts).strip("0"), *(part.strip("0") for part in parts)}:
                    self._by_digits.setdefault(digits, []).append(match)

    def _has_groups(self, runs: Sequence[re.Match[str]]) -> bool:
        """Whether somewhere three digits follow others behind a space, without which ``_SPACED`` finds nothing."""
        for left, right in pairwise(runs):
            at = left.end()
            if at + 1 == right.start() and self._plain[at] in _SPACES and _GROUP.match(self._plain, at + 1):
                return True
        return False

    def exact(self, literal: str) -> list[tuple[int, int]]:
        """Spans that are written as ``literal``, which is all digits, and are a number of their own; ascending."""
        found = set()
        for match in self._by_digits.get(literal.strip("0"), ()):
            token, start = match.group(), match.start()
            if token == literal:
                found.add(match.span())
            elif not token.isdigit() and not _values(token):
                found.update(
                    (start + part.start(), start + part.end())
                    for part in _PART.finditer(token)
                    if part.group() == literal
                )
        return sorted(found)

    def places(self, number: Decimal) -> list[tuple[int, int]]:
        """Spans that can be read as ``number``, ascending; ``1.234`` reads as two numbers."""
        digits = "".join(map(str, number.as_tuple().digits)).strip("0")
        found = {
            (start, end)
            for match in self._by_digits.get(digits, ())
            for value, start, end in _readings(self._plain, match)
            if value == number
        }
        if number != number.to_integral_value():
            found.update(self._other(_FRACTION, _fractions).get(number, ()))
        elif number >= 0:
            if not self._plain.isascii():
                found.update(self._other(_CHINESE, _chinese_numerals).get(number, ()))
            if number in _WORD_VALUES:
                found.update(self._other(_WORD, _number_words).get(number, ()))
        return sorted(found)

    def _other(
        self, pattern: re.Pattern[str], read: Callable[[re.Match[str]], Iterator[Decimal]]
    ) -> dict[Decimal, list[tuple[int, int]]]:
        if pattern not in self._others:
            index: dict[Decimal, list[tuple[int, int]]] = {}
            for match in pattern.finditer(self._plain):
                for value in read(match):
                    index.setdefault(value, []).append(match.span())
            self._others[pattern] = index
        return self._others[pattern]


def _fractions(match: re.Match[str]) -> Iterator[Decimal]:
    whole, glyph, top, bottom = match.groups()
    above, below = _GLYPHS[glyph] if glyph else (int(top), int(bottom))
    if below and (glyph or above < below):
        exact = int(whole or 0) + Decimal(above) / below
        yield from (round(exact, places).normalize() for places in (2, 3, 4))


def _chinese_numerals(match: re.Match[str]) -> Iterator[Decimal]:
    number = chinese_number(match.group())
    if number is not None:
        yield Decimal(number)


def _number_words(match: re.Match[str]) -> Iterator[Decimal]:
    yield Decimal(_WORDS[match.group().lower()])


def chinese_number(text: str) -> int | None:
    """``一千二百三十四`` to 1234, ``二〇一八`` to 2018; None where the characters make no number."""
    if all(c in _CHINESE_DIGITS for c in text):
        return int("".join(str(_CHINESE_DIGITS[c]) for c in text))
    if text[0] in _UNITS and text[0] != "十":
        return None
    total = section = digit = 0
    for character in text:
        if character in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[character]
        elif _UNITS[character] >= 10**4:
            total = (total + section + digit) * _UNITS[character]
            section = digit = 0
        else:
            section += (digit or 1) * _UNITS[character]
            digit = 0
    return total + section + digit


def _readings(plain: str, match: re.Match[str]) -> Iterator[Found]:
    start, end = match.span()
    sign = plain[start - 1 : start] == "-" and not plain[start - 2 : start - 1].isalnum()
    values = _values(match.group())
    if not values:  # a version, a date or an address: its parts are numbers of their own
        for part in _PART.finditer(match.group()):
            yield Decimal(part.group()), start + part.start(), start + part.end()
    after = _AFTER.match(plain, end)
    for value in values:
        yield value, start, end
        if sign:
            yield -value, start - 1, end
        if after is not None:
            scaled = _scaled(value, after)
            yield scaled, start, after.end()
            if sign:
                yield -scaled, start - 1, after.end()


def _scaled(value: Decimal, after: re.Match[str]) -> Decimal:
    if after["percent"]:
        return (value / 100).normalize()
    factor = 1
    for unit in after["big"] or "":
        factor *= _UNITS[unit]
    return (value * (_MAGNITUDES[after["word"].lower()] if after["word"] else factor)).normalize()


def _values(token: str) -> list[Decimal]:
    """Readings of digits with separators: groups of thousands, a fraction, or both where it is open."""
    separators = [c for c in token if not "0" <= c <= "9"]
    if not separators:
        return [_decimal(token)]
    last = separators[-1]
    head, tail = token.rsplit(last, 1)
    mixed = len(set(separators)) > 1
    grouped = all(len(group) == 3 for group in re.split(r"[^0-9]", token)[1:])
    readings = []
    if last in ".," and (len(separators) == 1 or (mixed and last not in head)):
        readings.append(_decimal(re.sub(r"[^0-9]", "", head) + "." + tail))
    if grouped and not mixed:
        readings.append(_decimal(re.sub(r"[^0-9]", "", token)))
    return readings


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text).normalize() + 0
    except InvalidOperation:
        return Decimal(0)
