"""Chunks of a document: token-bounded spans, cut at the best borders, with overlap and a repeated preamble."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from pipeline.borders import Border, Unit, character_cut, split_units
from pipeline.data import Chunk, Document
from pipeline.errors import ConfigError
from pipeline.tables import Table, find_tables, header_at

KeyFor = Callable[[str], str]
"""A chunk's text to its key; the caller puts prompt, schema, model and settings into it."""

ELLIPSIS = "\n[...]\n"
"""Stands between a repeated preamble and a later chunk's own text."""

_MAX_UNIT_CHARS = 400
_MAX_PREAMBLE_CHARS = 400
_MAX_TITLE_CHARS = 100
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_SENTENCE_ENDS = (".", "!", "?", ",", ";", "。", "！", "？", "，", "；")
_MIN_FILL = {Border.PARAGRAPH: 0.6, Border.LINE: 0.75, Border.SENTENCE: 0.8, Border.CLAUSE: 0.9, Border.WORD: 0.95}
"""A chunk ends at the strongest border that leaves it at least this full."""


class CountsTokens(Protocol):
    """What splitting asks of a tokenizer: the number of tokens of a text, without special tokens."""

    def count(self, text: str, /) -> int: ...


@dataclass(frozen=True, slots=True)
class _Counted:
    unit: Unit
    num_tokens: int


def split_document(
    document: Document,
    *,
    tokenizer: CountsTokens,
    max_tokens: int,
    overlap_tokens: int,
    repeat_preamble: bool,
    key_for: KeyFor,
) -> list[Chunk]:
    """Split a document into chunks of at most ``max_tokens`` tokens; a document that fits is one chunk.

    ``document.text`` must not be None. Every code point that is not white space lies in a chunk's span, and every
    chunk's text ends with its span: ``chunk.text.endswith(document.text[chunk.char_start:chunk.char_end])``. Equal
    arguments give equal chunks. Time is linear in the text: every code point is tokenised about twice.

    Raises:
        ConfigError: ``max_tokens`` cannot hold a single code point.
    """
    text = document.text
    assert text is not None, "a document without text is rejected before it is split"
    num_tokens = tokenizer.count(text) if len(text) <= 16 * max_tokens else max_tokens + 1
    if num_tokens <= max_tokens or not text.strip():
        return [Chunk(document.doc_id, 0, 1, text, 0, len(text), key_for(text), num_tokens)]
    splitter = _Splitter(text, tokenizer, max_tokens, overlap_tokens, repeat_preamble)
    spans = splitter.spans()
    chunks = []
    for index, (prefix, start, end, num_tokens) in enumerate(spans):
        part = prefix + text[start:end]
        chunks.append(Chunk(document.doc_id, index, len(spans), part, start, end, key_for(part), num_tokens))
    return chunks


def halve(chunk: Chunk, *, tokenizer: CountsTokens, key_for: KeyFor, overlap_tokens: int = 0) -> list[Chunk]:
    """Two halves of a chunk, cut at the strongest border near its middle; no element where it cannot be cut.

    Both keep the repeated text before the chunk's span, the doc_id and the index; their spans tell them apart.
    """
    span_chars = chunk.char_end - chunk.char_start
    prefix, text = chunk.text[: len(chunk.text) - span_chars], chunk.text[len(chunk.text) - span_chars :]
    units = list(split_units(text, max_chars=max(1, min(_MAX_UNIT_CHARS, len(text) // 4))))
    inner = [u for u in units[:-1] if text[: u.end].strip() and text[u.end :].strip()]
    if not inner:
        return []
    middle = len(text) / 2
    near = [u for u in inner if abs(u.end - middle) <= len(text) / 4] or inner
    cut = max(near, key=lambda u: (u.border, -abs(u.end - middle))).end
    start, spent = cut, 0
    for unit in reversed([u for u in units if u.end <= cut]):
        spent += tokenizer.count(text[unit.start : unit.end])
        if spent > overlap_tokens or cut - unit.start > len(text) / 8:
            break
        start = unit.start
    halves = []
    for low, high in ((0, cut), (start, len(text))):
        part = prefix + text[low:high]
        offset = chunk.char_start
        key, num_tokens = key_for(part), tokenizer.count(part)
        halves.append(
            Chunk(chunk.doc_id, chunk.index, chunk.num_chunks, part, offset + low, offset + high, key, num_tokens)
        )
    return halves


def document_text(chunks: Iterable[tuple[str, int, int]]) -> str:
    """A document's text out of (text, char_start, char_end) of all its chunks, with every offset as it was.

    White space that was left out between spans becomes blanks; at the end of a document it is missing.
    """
    pieces: list[str] = []
    at = 0
    for text, start, end in sorted(chunks, key=lambda chunk: chunk[1]):
        if end <= at:
            continue
        pieces.append(" " * (start - at))
        pieces.append(text[len(text) - (end - max(start, at)) :])
        at = end
    return "".join(pieces)


class _Splitter:
    """The state of one split: units with their token counts, tables, the preamble."""

    def __init__(self, text: str, tokenizer: CountsTokens, max_tokens: int, overlap: int, repeat: bool) -> None:
        self._text = text
        self._count = tokenizer.count
        self._max_tokens = max_tokens
        self._overlap = min(overlap, max_tokens // 2)
        self._tables = find_tables(text) if repeat else []
        self._preamble = self._find_preamble() if repeat else ""
        self._units: list[_Counted] = []
        for unit in split_units(text, max_chars=_MAX_UNIT_CHARS):
            self._add(unit)

    def spans(self) -> list[tuple[str, int, int, int]]:
        """(repeated prefix, start, end, tokens) of each chunk."""
        found: list[tuple[str, int, int, int]] = []
        first = covered = 0
        while first < len(self._units):
            start = self._units[first].unit.start
            prefix, end, num_tokens = self._fill(first, start)
            if end <= covered:  # the overlap left no room for anything new
                first = covered
                continue
            stop = self._units[end - 1].unit.end
            if self._text[start:stop].strip():
                found.append((prefix, start, stop, num_tokens))
            covered = end
            first = self._step_back(first, end) if end < len(self._units) else end
        return found

    def _add(self, unit: Unit) -> None:
        """Count a unit; cut it while it is larger than a chunk."""
        piece = self._text[unit.start : unit.end]
        # A space before a word costs nothing in most vocabularies, one after it does: count it in front.
        joins = len(piece) > 1 and piece[-1] == " " and self._text[unit.end : unit.end + 1].isascii()
        num_tokens = self._count(" " + piece[:-1] if joins else piece)
        if num_tokens <= max(1, self._max_tokens // 4) or unit.end - unit.start == 1:
            if num_tokens > self._max_tokens:
                raise ConfigError(
                    f"chunking.max_tokens {self._max_tokens} is less than the {num_tokens} tokens of one character",
                    hint="raise chunking.max_tokens",
                )
            self._units.append(_Counted(unit, num_tokens))
            return
        if num_tokens <= self._max_tokens and unit.border > Border.CLAUSE:
            self._units.append(_Counted(unit, num_tokens))
            return
        middle = character_cut(self._text, unit.start, (unit.start + unit.end) // 2)
        smaller = list(split_units(self._text, max_chars=max(1, middle - unit.start), start=unit.start, end=unit.end))
        for part in smaller[:-1]:
            self._add(part)
        self._add(Unit(smaller[-1].start, smaller[-1].end, unit.border))

    def _fill(self, first: int, start: int) -> tuple[str, int, int]:
        """Prefix, end (unit index) and tokens of the chunk that begins with unit ``first``."""
        prefix = self._prefix(start)
        room = self._max_tokens - (self._count(prefix) if prefix else 0)
        if prefix and self._units[first].num_tokens > room:
            prefix, room = "", self._max_tokens
        end, spent = first, 0
        while end < len(self._units) and spent + self._units[end].num_tokens <= room:
            spent += self._units[end].num_tokens
            end += 1
        end = self._best_end(first, max(end, first + 1), spent, room)
        while True:
            num_tokens = self._count(prefix + self._text[start : self._units[end - 1].unit.end])
            if num_tokens <= self._max_tokens:
                return prefix, end, num_tokens
            if end - first == 1:
                assert prefix, "a single unit fits"
                prefix = ""
            excess = num_tokens - self._max_tokens  # the joined text can have more tokens than its parts
            while excess > 0 and end - first > 1:
                end -= 1
                excess -= self._units[end].num_tokens

    def _best_end(self, first: int, end: int, spent: int, room: int) -> int:
        if end == len(self._units):
            return end
        last_of: dict[Border, int] = {}
        left = spent
        for index in range(end, first, -1):
            border = self._units[index - 1].unit.border
            if left >= _MIN_FILL.get(border, 1.0) * room:
                last_of.setdefault(border, index)
            left -= self._units[index - 1].num_tokens
            if left < _MIN_FILL[Border.PARAGRAPH] * room:
                break
        return last_of[max(last_of)] if last_of else end

    def _step_back(self, first: int, end: int) -> int:
        """The unit where the next chunk begins: the earliest good border within the overlap."""
        best: dict[bool, int] = {}
        index, spent = end - 1, 0
        while index > first:
            spent += self._units[index].num_tokens
            if spent > self._overlap:
                break
            border = self._units[index - 1].unit.border
            if border > Border.CHARACTER:
                best[border >= Border.SENTENCE] = index
            index -= 1
        return best.get(True, best.get(False, end))

    def _prefix(self, start: int) -> str:
        preamble = self._preamble if start >= len(self._preamble) else ""
        prefix = preamble.rstrip() + ELLIPSIS if preamble else ""
        table: Table | None = header_at(self._tables, start)
        header = self._text[table.start : table.header_end] if table else ""
        if header and self._count(prefix + header) <= self._max_tokens // 3:
            prefix += header
        return prefix

    def _find_preamble(self) -> str:
        """The first paragraph if it is short, else a short title line; never a row of a table; "" where neither is."""
        head = self._text[: _MAX_PREAMBLE_CHARS + 1]
        if self._tables:
            head = head[: self._tables[0].start]
        lead = len(head) - len(head.lstrip())
        budget = min(64, self._max_tokens // 8)
        paragraph = _BLANK_LINE.split(head[lead:], maxsplit=1)[0]
        whole = lead + len(paragraph) <= _MAX_PREAMBLE_CHARS
        title = paragraph.split("\n", 1)[0]
        is_title = len(title) <= _MAX_TITLE_CHARS and not title.rstrip().endswith(_SENTENCE_ENDS)
        for block, suits in ((paragraph, whole), (title, is_title)):
            if suits and block.strip() and self._count(block) <= budget:
                return head[:lead] + block
        return ""
