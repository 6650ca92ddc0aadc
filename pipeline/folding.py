"""Folded text: what is left when case, width, accents, quotes and white space do not matter, with its offsets."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right

_SAME = {
    **dict.fromkeys("“”„‟«»「」『』＂", '"'),
    **dict.fromkeys("‘’‚‛`´", "'"),
    **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
    **dict.fromkeys("。｡", "."),
    **dict.fromkeys("、", ","),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff\ufe0e\ufe0f", ""),
}
_SPACES = re.compile(r"\s+")


class _Table(dict[int, str]):
    """What each character becomes, worked out when first met; white space becomes one space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        folded = _SAME.get(character)
        if folded is None:
            if character.isspace():
                folded = " "
            else:
                parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", character).casefold())
                folded = "".join(part for part in parts if not "\u0300" <= part <= "\u036f")
        self[code] = folded
        return folded


_TABLE = _Table()


def fold(text: str) -> str:
    """Text whose case, width, accents, quotes, dashes and white space are made equal; stripped."""
    return _SPACES.sub(" ", text.translate(_TABLE)).strip()


class FoldedText:
    """A text folded once, searched often. Offsets are code points of the original text."""

    def __init__(self, text: str) -> None:
        folded_starts, starts, pieces = [0], [0], []
        length = last = 0
        ends_with_space = True

        def add(piece: str, start: int) -> None:
            nonlocal length, ends_with_space
            if piece:
                folded_starts.append(length)
                starts.append(start)
                pieces.append(piece)
                length += len(piece)
                ends_with_space = piece[-1] == " "

        for match in _irregular(text).finditer(text):
            add(text[last : match.start()].translate(_TABLE), last)
            last = match.end()
            for at in range(match.start(), last):
                for piece in _TABLE[ord(text[at])]:
                    if piece != " " or not ends_with_space:
                        add(piece, at)
        add(text[last:].translate(_TABLE), last)
        self.folded = "".join(pieces)
        self._folded_starts, self._starts = folded_starts, starts

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original span of the non-empty folded span ``[start, end)``."""
        return self._original(start), self._original(end - 1) + 1

    def _original(self, at: int) -> int:
        index = bisect_right(self._folded_starts, at) - 1
        return self._starts[index] + at - self._folded_starts[index]


def _irregular(text: str) -> re.Pattern[str]:
    """Runs of characters that do not become exactly one character: line ends, double spaces, ligatures, accents."""
    odd = [c for c in set(text) if len(_TABLE[ord(c)]) != 1 or (c != " " and c.isspace())]
    characters = "".join(map(re.escape, sorted(odd)))
    return re.compile(rf"(?:[{characters}]|  )[{characters} ]*" if odd else r"  +")


def is_cjk(character: str) -> bool:
    """True for scripts that put no space between words."""
    return "\u3040" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff" or character >= "\U00020000"


def joins(left: str, right: str) -> bool:
    """True where two neighbours belong to one word or number, so that a match must not end between them."""
    if left.isdigit() and right.isdigit():
        return True
    return left.isalnum() and right.isalnum() and not is_cjk(left) and not is_cjk(right)
