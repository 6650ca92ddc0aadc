"""The forms that a value may be written in: what a grammar is made from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnyValue:
    """Any JSON value."""


@dataclass(frozen=True, slots=True)
class Constants:
    """One of fixed values, kept as compact JSON texts so that the shape stays hashable."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A string: its content as EBNF, or a length range in characters (``longest`` None: no bound)."""

    shortest: int = 0
    longest: int | None = None
    content: str | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer within bounds (None: as many digits as ``digits``)."""

    low: int | None
    high: int | None
    digits: int


@dataclass(frozen=True, slots=True)
class Fraction:
    """A number: which signs it may have, how many digits."""

    minus: bool
    plus: bool
    integer_digits: int
    fraction_digits: int
    exponent: bool


@dataclass(frozen=True, slots=True)
class Items:
    """A list; numbers are indices into the table of shapes."""

    prefix: tuple[int, ...]
    item: int | None
    fewest: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Members:
    """An object: (name, shape, required) in order, then (key content or None, shape) for undeclared keys."""

    properties: tuple[tuple[str, int, bool], ...]
    extras: tuple[tuple[Text | Constants, int], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of several shapes."""

    options: tuple[int, ...]


Shape = AnyValue | Constants | Text | Whole | Fraction | Items | Members | Choice
