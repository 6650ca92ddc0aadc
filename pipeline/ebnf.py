"""Pieces of EBNF text in xgrammar's notation: literals, character classes, JSON strings and numbers."""

from __future__ import annotations

from collections.abc import Iterable

PLAIN_CLASS = r'[^"\\\x00-\x1f]'
"""A character that stands for itself in a JSON string."""
ESCAPE = r'"\\" json_escape'
ANY_TEXT = rf"{PLAIN_CLASS}* ({ESCAPE} {PLAIN_CLASS}*)*"
"""Any string content. This form keeps masks cheap; a star over a rule costs 10,000 times as much per token."""

ESCAPE_RULES = {
    "json_escape": (
        r'["\\/bfnrt] | "u" ([0-9A-CE-Fa-ce-f] json_hex json_hex json_hex | [Dd] [0-7] json_hex json_hex | '
        r'[Dd] [89ABab] json_hex json_hex "\\u" [Dd] [C-Fc-f] json_hex json_hex)'
    ),
    "json_hex": "[0-9A-Fa-f]",
}
"""Escapes of a JSON string; half a surrogate pair cannot be written, a pair is one character."""

FRACTION_DIGITS = 40
INTEGER_DIGITS = 40


def literal(text: str) -> str:
    """A text as one terminal, or several where xgrammar (0.2.8) would read a character together with the next.

    It writes U+007F to U+00FF as ``\\xHH`` and reads any hexadecimal digits after that as part of it: ``£20`` would
    become U+A320.
    """
    parts = []
    before = ""
    for character in text:
        if "\x7f" <= before <= "\xff" and character in "0123456789abcdefABCDEF":
            parts.append('" "')
        before = character
        if character in '"\\':
            parts.append("\\" + character)
        elif character == "\n":
            parts.append("\\n")
        elif ord(character) < 0x20 or ord(character) == 0x7F:
            parts.append(f"\\x{ord(character):02x}")
        else:
            parts.append(character)
    return '"' + "".join(parts) + '"'


def class_character(code: int) -> str:
    """One character inside ``[…]``."""
    character = chr(code)
    if character in "[]\\^-\"'":
        return "\\" + character if character in "]\\^-[" else character
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return character


def character_class(ranges: Iterable[tuple[int, int]]) -> str:
    """Inclusive code point ranges as ``[…]``."""
    body = "".join(class_character(low) + (f"-{class_character(high)}" if high != low else "") for low, high in ranges)
    return f"[{body}]"


def number(*, low_sign: bool, high_sign: bool, integer_digits: int, fraction_digits: int, exponent: bool) -> str:
    """A JSON number. ``low_sign`` allows the minus, ``high_sign`` its absence."""
    sign = '"-"? ' if low_sign and high_sign else '"-" ' if low_sign else ""
    whole = f'("0" | [1-9] [0-9]{{0,{integer_digits - 1}}})' if integer_digits > 1 else '("0" | [1-9])'
    fraction = f' ("." [0-9]{{1,{fraction_digits}}})?' if fraction_digits else ""
    return sign + whole + fraction + (r" ([eE] [+\-]? [0-9]{1,3})?" if exponent else "")


def integer_range(low: int | None, high: int | None, digits: int) -> str:
    """Exactly the integers of a range, without leading zeros; an open side ends at ``digits`` digits."""
    if low is not None and high is not None and low > high:
        raise ValueError("empty range")
    parts = []
    if low is None or low < 0:
        smallest = None if low is None else -low
        largest = 1 if high is None or high >= 0 else -high
        parts += [f'"-" {piece}' for piece in _magnitudes(largest, smallest, digits)]
    if high is None or high >= 0:
        parts += _magnitudes(max(low or 0, 0), high, digits)
    return " | ".join(parts)


def _magnitudes(low: int, high: int | None, digits: int) -> list[str]:
    """Alternatives for ``low <= n <= high``, all non-negative."""
    parts = []
    if low == 0:
        parts.append('"0"')
        low = 1
    if high is not None and low > high:
        return parts
    if high is None:
        length = len(str(low))
        if length < digits:
            if low == 10 ** (length - 1):
                return [*parts, f"[1-9] {_digits(length - 1, digits - 1)}".strip()]
            parts.append(f"[1-9] {_digits(length, digits - 1)}".strip())
        return parts + _same_length(str(low), "9" * length)
    while low <= high:
        length = len(str(low))
        top = min(high, 10**length - 1)
        if low == 10 ** (length - 1) and top == 10**length - 1:
            last = length
            while 10 ** (last + 1) - 1 <= high:
                last += 1
            parts.append(f"[1-9] {_digits(length - 1, last - 1)}".strip())
            top = 10**last - 1
        else:
            parts += _same_length(str(low), str(top))
        low = top + 1
    return parts


def _digits(least: int, most: int) -> str:
    if most == 0:
        return ""
    return f"[0-9]{{{least},{most}}}" if least != most else f"[0-9]{{{most}}}" if most > 1 else "[0-9]"


def _same_length(low: str, high: str) -> list[str]:
    """Alternatives for numbers between two of equal length."""
    if not low:
        return [""]
    if low == high:
        return [literal(low)]
    rest = len(low) - 1
    if low[1:] == "0" * rest and high[1:] == "9" * rest:
        return [f"{_digit(low[0], high[0])} {_digits(rest, rest)}".strip()]
    if low[0] == high[0]:
        return [f"{literal(low[0])} ({' | '.join(_same_length(low[1:], high[1:]))})"]
    parts = []
    first, last = int(low[0]), int(high[0])
    if low[1:] != "0" * rest:
        parts.append(f"{literal(low[0])} ({' | '.join(_same_length(low[1:], '9' * rest))})")
        first += 1
    if high[1:] != "9" * rest:
        last -= 1
    if first <= last:
        parts.append(f"{_digit(str(first), str(last))} {_digits(rest, rest)}".strip())
    if high[1:] != "9" * rest:
        parts.append(f"{literal(high[0])} ({' | '.join(_same_length('0' * rest, high[1:]))})")
    return parts


def _digit(low: str, high: str) -> str:
    return f"[{low}]" if low == high else f"[{low}-{high}]"
