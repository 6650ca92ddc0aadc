"""Where in the document a written value was copied from, allowing other separators between its words."""

from __future__ import annotations

from bisect import bisect_left
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
    exact = _exact(document, value.encode("utf-8", "surrogatepass"))
    if exact:
        return exact
    words = words_of(value)[:_MAX_WORDS]
    if not words:
        return []
    found = []
    for start in document.positions(words[0])[:_MAX_PLACES]:
        if document.words[start] == words[0]:
            alignment = _at(document, value, words, start)
            if alignment is not None:
                found.append(alignment)
    return found


def _exact(document: Document, value: bytes) -> list[Alignment]:
    """The places where a value of plain words with single spaces stands as it is."""
    if b"\n" in value or b"  " in value:
        return []
    found = []
    for start in document.occurrences(value, _MAX_PLACES):
        stop = document.start_list[start] + len(value)
        end = bisect_left(document.end_list, stop)
        if end < document.num_words and document.start_list[end] < stop:
            found.append(Alignment(start, end, document.end_list[end] == stop, ()))
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
