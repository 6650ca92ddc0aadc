"""A JSON Schema ``pattern`` as EBNF over the characters of a JSON string, never stricter than the pattern.

Patterns are searches: what is not anchored may stand anywhere. Look-around and word boundaries are dropped,
back-references and long counts widened; validation sees to the rest.
"""

from __future__ import annotations

import re
from typing import Any

from pipeline.ebnf import ANY_TEXT, ESCAPE, PLAIN_CLASS, character_class, literal

MAX_COUNT = 256
_Ranges = list[tuple[int, int]]
_LAST = 0x10FFFF
_SHORT = {
    0x22: r'"\\\""', 0x5C: r'"\\\\"', 0x08: r'"\\b"', 0x0C: r'"\\f"', 0x0A: r'"\\n"', 0x0D: r'"\\r"', 0x09: r'"\\t"',
}  # fmt: skip
_SPACE: _Ranges = [
    (9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
]  # fmt: skip
_CATEGORIES: dict[str, _Ranges] = {
    "DIGIT": [(48, 57)], "WORD": [(48, 57), (65, 90), (95, 95), (97, 122)], "SPACE": _SPACE,
}  # fmt: skip


class _Unsupported(Exception):
    pass


def pattern_ebnf(pattern: str) -> tuple[str, bool] | None:
    """(EBNF of the string's content, whether it is exact); None where the pattern cannot be read."""
    try:
        tree = _parse(pattern)
    except (re.error, _Unsupported, OverflowError, RecursionError):
        return None
    translation = _Translation()
    translation.exact = r"\p" not in pattern
    try:
        text = translation.alternatives(list(tree))
    except (_Unsupported, RecursionError):
        return None
    return text, translation.exact


def _parse(pattern: str) -> Any:
    from re import _parser  # type: ignore[attr-defined]

    if re.search(r"\\u\{|\\c[A-Za-z]|\(\?[a-zA-Z]+[:)]", pattern):
        raise _Unsupported
    if re.search(r"\\[pP]\{", pattern):
        if re.search(r"\[\^[^\]]*\\[pP]\{", pattern) or r"\P" in pattern:
            raise _Unsupported
        pattern = re.sub(r"\\p\{[^}]*\}", r"\\W\\w" if "[" in pattern else ".", pattern)
        if r"\W\w" in re.sub(r"\[[^\]]*\]", "", pattern):
            raise _Unsupported
    return _parser.parse(re.sub(r"\(\?<([A-Za-z_]\w*)>", r"(?P<\1>", pattern), re.ASCII | re.DOTALL)


class _Translation:
    def __init__(self) -> None:
        self.exact = True

    def alternatives(self, tree: list[Any]) -> str:
        """The whole pattern: each top-level alternative with its own anchors."""
        branches = [tree]
        if len(tree) == 1 and str(tree[0][0]) == "BRANCH":
            branches = [list(branch) for branch in tree[0][1][1]]
        elif len(tree) == 1 and str(tree[0][0]) == "SUBPATTERN":
            return self.alternatives(list(tree[0][1][3]))
        return " | ".join(self._anchored(branch) for branch in branches)

    def _anchored(self, items: list[Any]) -> str:
        start = bool(items) and str(items[0][0]) == "AT" and str(items[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")
        end = bool(items) and str(items[-1][0]) == "AT" and str(items[-1][1]) in ("AT_END", "AT_END_STRING")
        items = items[1 if start else 0 : len(items) - 1 if end and len(items) > (1 if start else 0) else len(items)]
        body = self._sequence(items)
        parts = ([] if start else [ANY_TEXT]) + ([body] if body else []) + ([] if end else [ANY_TEXT])
        return " ".join(parts) or '""'

    def _sequence(self, items: Any) -> str:
        return " ".join(part for part in (self._item(*item) for item in items) if part)

    def _item(self, operation: Any, argument: Any) -> str:
        name = str(operation)
        if name == "LITERAL":
            return _character([(argument, argument)])
        if name in ("NOT_LITERAL", "ANY", "IN"):
            return self._one(self._class(name, argument))
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, inner = argument
            return self._repeat(int(low), None if int(high) > 2**31 else int(high), list(inner))
        if name == "SUBPATTERN":
            if argument[1] or argument[2]:
                raise _Unsupported
            body = self._sequence(argument[3])
            return f"({body})" if body else ""
        if name == "ATOMIC_GROUP":
            return f"({self._sequence(argument)})"
        if name == "BRANCH":
            return "(" + " | ".join(self._sequence(branch) or '""' for branch in argument[1]) + ")"
        self.exact = False
        if name in ("ASSERT", "ASSERT_NOT"):
            return ""
        if name == "AT":
            if str(argument) in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
                return ""
            raise _Unsupported  # an anchor in the middle
        if name == "GROUPREF":
            return f"({ANY_TEXT})"
        raise _Unsupported

    def _repeat(self, low: int, high: int | None, inner: list[Any]) -> str:
        if (high is not None and high > MAX_COUNT) or low > MAX_COUNT:
            self.exact = False
            low, high = min(low, MAX_COUNT), None
        if len(inner) == 1 and str(inner[0][0]) in ("NOT_LITERAL", "ANY", "IN", "LITERAL"):
            name, argument = str(inner[0][0]), inner[0][1]
            ranges = [(argument, argument)] if name == "LITERAL" else self._class(name, argument)
            plain, escapes = _split(ranges)
            if escapes and plain:
                return self._escaped_run(low, high, plain, self._escapes(escapes))
            body = _character(ranges)
        else:
            body = f"({self._sequence(inner)})"
            if body == "()":
                return ""
        if low == 1 and high == 1:
            return body
        suffix = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
        body = body if body[0] in "[(" else f"({body})"
        return body + (suffix or f"{{{low},{'' if high is None else high}}}")

    def _escaped_run(self, low: int, high: int | None, plain: str, escapes: str) -> str:
        """Runs of a class that holds quotes or control characters, without a star over alternatives."""
        one = f"({plain} | {escapes})"
        run = f"{plain}* ({escapes} {plain}*)*"
        if high == 1:
            return one + ("?" if low == 0 else "")
        if high is None or high > 8:
            self.exact = self.exact and high is None
            return " ".join([one] * min(low, 8) + [run]) if low <= 8 else f"{one} {run}"
        return f"{one}{{{low},{high}}}"

    def _one(self, ranges: _Ranges) -> str:
        plain, escapes = _split(ranges)
        if not escapes:
            return plain
        texts = self._escapes(escapes)
        return f"({plain} | {texts})" if plain else f"({texts})"

    def _escapes(self, codes: list[int]) -> str:
        if len(codes) > 16:
            self.exact = self.exact and len(codes) == 34
            return ESCAPE
        return " | ".join(_SHORT.get(code, literal(f"\\u{code:04x}")) for code in codes)

    def _class(self, name: str, argument: Any) -> _Ranges:
        if name == "ANY":
            self.exact = False  # a line break, which the dot excludes, is let through
            return [(0, _LAST)]
        if name == "NOT_LITERAL":
            return _invert([(argument, argument)])
        ranges: _Ranges = []
        negated = False
        for operation, value in argument:
            kind = str(operation)
            if kind == "NEGATE":
                negated = True
            elif kind == "LITERAL":
                ranges.append((value, value))
            elif kind == "RANGE":
                ranges.append((value[0], value[1]))
            elif kind == "CATEGORY":
                category = str(value).removeprefix("CATEGORY_")
                inverse = category.startswith("NOT_")
                known = _CATEGORIES[category.removeprefix("NOT_")]
                ranges += _invert(known) if inverse else known
            else:
                raise _Unsupported
        return _invert(ranges) if negated else _merge(ranges)


def _merge(ranges: _Ranges) -> _Ranges:
    merged: _Ranges = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _invert(ranges: _Ranges) -> _Ranges:
    result: _Ranges = []
    start = 0
    for low, high in _merge(ranges):
        if start < low:
            result.append((start, low - 1))
        start = high + 1
    if start <= _LAST:
        result.append((start, _LAST))
    return result


def _split(ranges: _Ranges) -> tuple[str, list[int]]:
    """(class of the characters written as they are, code points that need an escape)."""
    plain = _cut(_merge(ranges), [(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0xD800, 0xDFFF)])
    escapes = [code for code in [*range(0x20), 0x22, 0x5C] if any(low <= code <= high for low, high in ranges)]
    if plain == _cut([(0, _LAST)], [(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0xD800, 0xDFFF)]):
        return PLAIN_CLASS, escapes
    return (character_class(plain) if plain else ""), escapes


def _cut(ranges: _Ranges, holes: _Ranges) -> _Ranges:
    outside = _invert(holes)
    return [
        (max(low, left), min(high, right))
        for low, high in ranges
        for left, right in outside
        if max(low, left) <= min(high, right)
    ]


def _character(ranges: _Ranges) -> str:
    plain, escapes = _split(ranges)
    if escapes and not plain:
        texts = [_SHORT.get(code, literal(f"\\u{code:04x}")) for code in escapes]
        return texts[0] if len(texts) == 1 else "(" + " | ".join(texts) + ")"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return literal(chr(ranges[0][0]))
    return plain
