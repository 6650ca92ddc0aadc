"""Where in the document a written value was copied from, allowing other separators between its words."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.dspark.document import Document, words_of

_MAX_PLACES = 16
_MAX_WORDS = 400


class Alignment(NamedTuple):
    """Words start..end (inclusive) of the document; `whole` is False where the value ends inside the last word."""

    start: int
    end: int
    whole: bool
    separators: tuple[tuple[bytes, bool, bytes], ...]


def align(document: Document, value: str) -> list[Alignment]:
    """All places (at most 16) whose words are the words of `value`; empty for a value without words."""
    words = words_of(value)[:_MAX_WORDS]
    if not words:
        return []
    starts = document.positions.get(words[0], ())
    found = []
    for start in starts[:_MAX_PLACES]:
        alignment = _at(document, value, words, start)
        if alignment is not None:
            found.append(alignment)
    return found


def _at(document: Document, value: str, words: list[str], start: int) -> Alignment | None:
    text, at, last = document.words, start, len(words) - 1
    offset = len(words[0])
    written_from = offset
    separators = []
    position = 1
    whole = True
    while position <= last:
        at += 1
        if at >= len(text):
            return None
        word, there = words[position], text[at]
        begin = value.index(word, offset)
        if word != there:
            if position == last and there.startswith(word):
                whole = False
            elif not word.isalnum() and len(word) == 1 and position < last and words[position + 1] == there:
                # A sign that the document does not have: it belongs to the separator.
                position += 1
                begin = value.index(there, begin + 1)
                word = there
            else:
                return None
        gap = document.gap(at - 1)
        written = value[written_from:begin].encode()
        if gap != written or len(gap) > 1 or gap == b"\n":
            separators.append((gap, not text[at - 1].isalnum(), written))
        offset = written_from = begin + len(word)
        position += 1
    return Alignment(start, at, whole, tuple(separators))
