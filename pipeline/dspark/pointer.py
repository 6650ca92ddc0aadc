"""Where in the document the value of a path starts: a log-linear model over words, learned online."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark import kernels
from pipeline.dspark.document import Document, words_of
from pipeline.dspark.memory import Memory, Node, Slots
from pipeline.dspark.weights import Floats, Hashes, mix

Flags = NDArray[np.uint8]

_RATE = 0.25
_KEY_WEIGHT = 1.5
_MAX_KEPT = 64
_NO_WORDS: Slots = np.zeros(0, dtype=np.int64)


class _View(NamedTuple):
    """One path in one document: start scores without the distance, and the best from each word on."""

    scores: Floats
    ahead: Floats


class Starts(NamedTuple):
    """Scores of all words to be the start (a word's chance is `exp(score - norm)`) and the best word."""

    scores: Floats
    norm: float
    best: int

    def chance(self, word: int) -> float:
        return math.exp(float(self.scores[word]) - self.norm)


class Pointer:
    """Start scores of all paths in one document; what a path's own features add is computed once and kept."""

    def __init__(self, document: Document, memory: Memory) -> None:
        self._document = document
        self._weights = memory.weights
        self._salts = memory.slot_salts
        self._views: dict[int, _View] = {}
        self._starts: dict[tuple[int, int, int], Starts] = {}
        self._used: Floats = np.zeros(len(document), dtype=np.float32)
        # Rows of the paths that have a slot; one is filled when it is first asked for.
        self._num_rows = memory.num_slots
        self._scores: Floats = np.empty((self._num_rows, len(document)), dtype=np.float32)
        self._ahead: Floats = np.empty((self._num_rows, len(document) + 1), dtype=np.float32)
        self._ready: Flags = np.zeros(self._num_rows, dtype=np.uint8)

    def _view(self, node: Node) -> _View:
        found = self._views.get(node.salt)
        if found is None:
            found = self._views[node.salt] = (
                self._row(node.slot) if 0 <= node.slot < self._num_rows else self._new(node)
            )
        return found

    def _row(self, slot: int) -> _View:
        features, values = self._document.start_features, self._weights.values
        if not self._ready[slot]:
            kernels.fill_row(values, features, self._salts, slot, self._scores, self._ahead, self._ready)
        return _View(self._scores[slot], self._ahead[slot])

    def _new(self, node: Node) -> _View:
        size = self._document.num_words
        scores = np.zeros(size, dtype=np.float32)
        kernels.sum_features(self._weights.values, self._document.start_features, node.salt, scores)
        self._add_key_bonus(node, scores)
        return _View(scores, np.maximum.accumulate(scores[::-1])[::-1])

    def facts_ahead(self, slots: Slots, end: int) -> Hashes:
        """(outcomes, 2): for paths in `slots` how well the best start from word `end` on scores, as hashes."""
        facts = np.zeros((len(slots), 2), dtype=np.uint32)
        kernels.facts_ahead(
            self._weights.values, self._document.start_features, self._salts, slots,
            self._scores, self._ahead, self._ready, min(end, self._document.num_words), facts,
        )  # fmt: skip
        return facts

    def _add_key_bonus(self, node: Node, scores: Floats) -> None:
        """A path's own name left of a word makes it a likely start before anything was learned."""
        words = node.name_words
        if words is None:
            named: Node | None = node
            while named is not None and named.key == b"[]":
                named = named.parent
            name = b"" if named is None else named.key
            words = node.name_words = tuple(words_of(name.decode("utf-8", "replace").replace("_", " ")))
        for word in words:
            for position in self._document.positions(word):
                scores[position + 1 : position + 4] += _KEY_WEIGHT

    def best(self, node: Node) -> float:
        """The best start score, without the distance."""
        ahead = self._view(node).ahead
        return float(ahead[0]) if self._document.num_words else -8.0

    def starts(self, node: Node, end: int, before: int) -> Starts:
        """Scores of each word; `end` is the word after the last copied value, `before` the salt of its path."""
        key = (node.salt, end, before)
        found = self._starts.get(key)
        if found is None:
            scores = np.empty(len(self._used), dtype=np.float32)
            static = self._view(node).scores
            best, norm = kernels.start_scores(
                self._weights.values, static, self._used, end, node.salt, mix(node.salt, before), scores
            )
            if len(self._starts) >= _MAX_KEPT:
                self._starts.clear()
            found = self._starts[key] = Starts(scores, norm, best)
        return found

    def learn(self, node: Node, end: int, before: int, right: list[int], among: NDArray[np.int64] | None) -> int:
        """Learn that the value started at one of `right`, of all words or `among`; returns the likeliest of them."""
        scores = self.starts(node, end, before).scores
        weights, pool = self._weights, _NO_WORDS if among is None else among
        gold: int = kernels.learn_start(
            weights.values, weights.squares, self._document.start_features, scores, self._used, pool,
            np.array(right, dtype=np.int64), end, node.salt, mix(node.salt, before), _RATE,
        )  # fmt: skip
        self._starts.clear()
        return gold

    def mark_used(self, start: int, end: int) -> None:
        """Words start..end were copied."""
        self._used[start : end + 1] = 1.0
        self._starts.clear()


def level_of(score: float) -> int:
    """A score as a class 0..16."""
    return 0 if score < -8.0 else 16 if score > 8.0 else math.floor(score + 0.5) + 8
