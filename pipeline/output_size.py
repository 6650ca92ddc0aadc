"""How long an output can get: the shortest, a typical one, and what leaves the longest without bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.shape_builder import build_shapes
from pipeline.shapes import AnyValue, Choice, Constants, Fraction, Items, Members, Shape, Text, Whole

CHARS_PER_TOKEN = 3.0
"""Of structured English text with common tokenizers; Chinese text has fewer."""
_TYPICAL_TEXT, _TYPICAL_ITEMS = 25, 3
_PATTERN_CHARS = 20


@dataclass(frozen=True, slots=True)
class OutputSize:
    """Characters of the shortest and of a typical output; ``longest_chars`` is None where nothing bounds it."""

    shortest_chars: int
    typical_chars: int
    longest_chars: int | None

    @property
    def typical_tokens(self) -> int:
        return round(self.typical_chars / CHARS_PER_TOKEN)

    @property
    def longest_tokens(self) -> int | None:
        """An upper bound is one token a character; this is the usual count at that length."""
        return None if self.longest_chars is None else round(self.longest_chars / CHARS_PER_TOKEN)


def output_size(json_schema: Mapping[str, Any], layout: str = "indented") -> OutputSize:
    """Sizes in the one-line layouts; ``indented`` adds line breaks that this counts as two characters a member."""
    table, root, _ = build_shapes(json_schema)
    sizes = _Sizes(table, 2 if layout == "spaced" else 1 if layout == "compact" else 6)
    return OutputSize(int(sizes.of(root, "shortest")), int(sizes.of(root, "typical")), sizes.longest(root))


class _Sizes:
    def __init__(self, table: list[Shape], separator: int) -> None:
        self._table = table
        self._separator = separator
        self._known: dict[tuple[int, str], float] = {}

    def longest(self, root: int) -> int | None:
        size = self.of(root, "longest")
        return None if size == float("inf") else int(size)

    def of(self, index: int, mode: str) -> float:
        """Characters; a shape inside itself counts as infinite for ``longest`` and as nothing otherwise."""
        key = (index, mode)
        if key not in self._known:
            self._known[key] = float("inf") if mode in ("longest", "shortest") else 0.0
            self._known[key] = self._size(self._table[index], mode)
        return self._known[key]

    def _size(self, shape: Shape, mode: str) -> float:
        if isinstance(shape, AnyValue):
            return {"shortest": 1.0, "typical": 25.0}.get(mode, float("inf"))
        if isinstance(shape, Constants):
            lengths = [len(text) for text in shape.texts]
            return {"shortest": min(lengths), "typical": sum(lengths) / len(lengths)}.get(mode, max(lengths))
        if isinstance(shape, Text):
            return 2 + self._text(shape, mode)
        if isinstance(shape, Whole | Fraction):
            return {"shortest": 1.0, "typical": 5.0}.get(mode, 20.0 if isinstance(shape, Whole) else 85.0)
        if isinstance(shape, Items):
            return self._items(shape, mode)
        if isinstance(shape, Members):
            return self._members(shape, mode)
        assert isinstance(shape, Choice)
        sizes = [self.of(option, mode) for option in shape.options]
        return {"shortest": min(sizes), "typical": sum(sizes) / len(sizes)}.get(mode, max(sizes))

    def _text(self, shape: Text, mode: str) -> float:
        if shape.content is not None:
            bounded = "*" not in shape.content and "+" not in shape.content.replace(r"[+\-]", "")
            return {"shortest": 0.0, "typical": float(_PATTERN_CHARS)}.get(mode, 64.0 if bounded else float("inf"))
        if mode == "shortest":
            return shape.shortest
        if mode == "typical":
            return max(shape.shortest, min(_TYPICAL_TEXT, shape.longest or _TYPICAL_TEXT))
        return float("inf") if shape.longest is None else shape.longest * 6  # each may be written as \uXXXX

    def _items(self, shape: Items, mode: str) -> float:
        most = shape.most if shape.most is not None else float("inf")
        count = {"shortest": shape.fewest, "typical": max(shape.fewest, min(_TYPICAL_ITEMS, most))}.get(mode, most)
        if shape.item is None:
            count = min(count, len(shape.prefix))
        total = 2.0
        for position in range(int(min(count, len(shape.prefix)))):
            total += self.of(shape.prefix[position], mode) + self._separator
        if count > len(shape.prefix) and shape.item is not None:
            total += (count - len(shape.prefix)) * (self.of(shape.item, mode) + self._separator)
        return total

    def _members(self, shape: Members, mode: str) -> float:
        total = 2.0
        for name, index, required in shape.properties:
            if mode == "shortest" and not required:
                continue
            share = 0.5 if mode == "typical" and not required else 1.0
            total += share * (len(name) + 2 + 2 * self._separator + self.of(index, mode))
        if shape.extras and mode != "shortest":
            total += 40.0 if mode == "typical" else float("inf")
        return total
