"""Tables inside a text: runs of rows, and the header that explains them."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_MARKDOWN_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)+\|?\s*\Z")
_DELIMITERS = ("\t", "|", ";", ",")
_MIN_ROWS = 3
_MAX_ROW_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Table:
    """``text[start:end)`` is a table whose header is ``text[start:header_end)``, line end included."""

    start: int
    header_end: int
    end: int


def find_tables(text: str) -> list[Table]:
    """Tables that have a header row, in order: Markdown, or rows with one delimiter equally often. Linear time."""
    tables: list[Table] = []
    rows: list[tuple[int, int]] = []
    shape: tuple[str, int] | None = None
    at = 0
    for line in text.splitlines(keepends=True):
        span = (at, at + len(line))
        at = span[1]
        current = _shape(line)
        if current is None or current != shape:
            _close(text, rows, shape, tables)
            rows, shape = [], current
        if current is not None:
            rows.append(span)
    _close(text, rows, shape, tables)
    return tables


def header_at(tables: list[Table], start: int) -> Table | None:
    """The table in whose rows (below its header) ``start`` lies."""
    index = bisect_right(tables, start, key=lambda table: table.header_end) - 1
    if index < 0 or start >= tables[index].end:
        return None
    return tables[index]


def _shape(line: str) -> tuple[str, int] | None:
    if len(line) > _MAX_ROW_CHARS:
        return None
    for delimiter in _DELIMITERS:
        count = line.count(delimiter)
        if count >= 2 or (count == 1 and delimiter == "\t"):
            return delimiter, count
    return None


def _close(text: str, rows: list[tuple[int, int]], shape: tuple[str, int] | None, tables: list[Table]) -> None:
    if shape is None or len(rows) < _MIN_ROWS:
        return
    second = text[slice(*rows[1])]
    if shape[0] == "|" and _MARKDOWN_RULE.match(second):
        tables.append(Table(rows[0][0], rows[1][1], rows[-1][1]))
    elif _is_header(text[slice(*rows[0])], [text[slice(*row)] for row in rows[1:4]], shape[0]):
        tables.append(Table(rows[0][0], rows[0][1], rows[-1][1]))


def _is_header(first: str, others: list[str], delimiter: str) -> bool:
    """A header names columns: it has no numbers, and some column below it has them in every row."""
    cells = [cell.strip() for cell in first.strip().strip("|").split(delimiter)]
    if any(any(c.isdigit() for c in cell) or not cell or len(cell) > 60 for cell in cells):
        return False
    below = [[cell.strip() for cell in row.strip().strip("|").split(delimiter)] for row in others]
    return any(all(any(c.isdigit() for c in row[i]) for row in below if i < len(row)) for i in range(len(cells)))
