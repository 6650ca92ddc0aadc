"""Strict JSON text: parsing that refuses what other parsers dispute, and canonical writing without loss.

Defined results: duplicate keys, NaN and Infinity, lone surrogates, raw control characters, trailing text, a byte order
mark, nesting beyond ``max_depth`` and numbers beyond ``MAX_NUMBER_CHARS`` are errors. A fraction becomes a float where
the float's shortest form is the same number, else a Decimal, so that no digit is lost.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

MAX_NUMBER_CHARS = 400
"""Longest number literal taken; Jackson refuses 1000 digits, a double needs at most 309 before the point."""

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
_MAX_EXPONENT = 400


class JsonTextError(ValueError):
    """The text is not strict JSON; ``position`` is a character offset, ``number`` marks a number out of any range."""

    def __init__(self, message: str, *, position: int | None = None, number: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.number = number


def loads(text: str, *, max_depth: int = 128) -> Any:
    """Parse one JSON value; raise :class:`JsonTextError` for anything that is not strict JSON."""
    _check_unicode(text)
    if text.count("[") + text.count("{") > max_depth:
        _check_depth(text, max_depth)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise JsonTextError(_reason(text, error), position=error.pos) from None
    except RecursionError:
        raise JsonTextError("nesting is too deep") from None
    if _ESCAPED_SURROGATE.search(text):
        _check_surrogates(value)
    return value


_quoted = json.JSONEncoder(ensure_ascii=False).encode
"""A string in quotes."""


def dumps(value: Any, *, separators: tuple[str, str] = (",", ":")) -> str:
    """Write a parsed value as one line of JSON: keys in their order, non-ASCII as it is, Decimals digit by digit."""
    try:
        return _encoder(separators).encode(value)
    except TypeError:  # it holds a Decimal, or a container that is no dict or list
        parts: list[str] = []
        _write(value, parts, separators)
        return "".join(parts)


@cache
def _encoder(separators: tuple[str, str]) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=separators)


def _write(value: Any, parts: list[str], separators: tuple[str, str]) -> None:
    if isinstance(value, str):
        parts.append(_quoted(value))
    elif isinstance(value, Mapping):
        parts.append("{")
        for index, (key, item) in enumerate(value.items()):
            parts.append((separators[0] if index else "") + _quoted(key) + separators[1])
            _write(item, parts, separators)
        parts.append("}")
    elif isinstance(value, Sequence):
        parts.append("[")
        for index, item in enumerate(value):
            if index:
                parts.append(separators[0])
            _write(item, parts, separators)
        parts.append("]")
    elif isinstance(value, Decimal):
        parts.append(decimal_text(value))
    elif type(value) is int:
        parts.append(repr(value))
    else:
        parts.append(json.dumps(value, allow_nan=False))


def whole_numbers(value: Any) -> Any:
    """A copy with whole floats as integers: ``2.0`` and ``2`` are the same value, and ``2`` is how it is written."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}
    return [whole_numbers(item) for item in value] if isinstance(value, list) else value


def decimal_text(value: Decimal) -> str:
    """All digits without exponent where that stays short (every parser reads it), else Decimal's own form."""
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -100 and value.adjusted() <= 100:
        return format(value, "f")
    return str(value)


def _parse_float(text: str) -> float | Decimal:
    _, _, exponent = text.lower().partition("e")
    if len(text) > MAX_NUMBER_CHARS or (exponent and abs(int(exponent)) > _MAX_EXPONENT):
        raise JsonTextError(f"the number {text[:20]}… is out of every range", number=True)
    number = Decimal(text)
    short = float(text)
    return short if math.isfinite(short) and Decimal(repr(short)) == number else number


def _parse_int(text: str) -> int:
    if len(text) > MAX_NUMBER_CHARS:
        raise JsonTextError(f"the number {text[:20]}… is out of every range", number=True)
    return int(text)


def _parse_constant(text: str) -> Any:
    raise JsonTextError(f"{text} is not JSON")


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonTextError(f"the key {json.dumps(key, ensure_ascii=False)} is written twice in one object")
            seen.add(key)
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_parse_object, parse_float=_parse_float, parse_int=_parse_int, parse_constant=_parse_constant
)


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonTextError("a lone surrogate is not text", position=error.start) from None
    if text.startswith("\ufeff"):
        raise JsonTextError("the text starts with a byte order mark", position=0)


def _check_depth(text: str, max_depth: int) -> None:
    depth = 0
    for match in _BRACKETS.finditer(_STRING.sub("", text)):
        depth += 1 if match.group() in "[{" else -1
        if depth > max_depth:
            raise JsonTextError(f"nesting is deeper than {max_depth} levels")


def _check_surrogates(value: Any) -> None:
    """An escaped pair became one character when it was parsed; what is left is half a pair."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise JsonTextError("a string holds half of a surrogate pair (\\uD800-\\uDFFF)") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_surrogates(key)
            _check_surrogates(item)
    elif isinstance(value, list):
        for item in value:
            _check_surrogates(item)


def _reason(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "the output is empty"
    if error.msg == "Extra data":
        return f"text follows the JSON value at character {error.pos}: {text[error.pos : error.pos + 20]!r}"
    if error.msg.startswith("Invalid control character"):
        return f"a raw control character stands in a string at character {error.pos}; write it as an escape"
    return f"{error.msg} at character {error.pos} of {len(text)}"
