"""Where in the document the value of a path starts: a log-linear model over words, learned online."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pipeline.dspark.document import MAX_WORDS, Document, words_of
from pipeline.dspark.memory import Node
from pipeline.dspark.weights import Floats, Hashes, Indices, Weights, mix

_RATE = 0.25
_NUM_RIVALS = 4
_SURE = 0.95
_KEY_WEIGHT = 1.5
# Distance in words from the end of the last copied value to a class of distances: a slice of this serves a whole document.
_NEAR = [1] * 5 + [2, 3, 4] + [5, 6, 7, 8, 9, 9, 10, 10, 10, 10] + [11] * 10
_CLASSES = np.array([0] * (MAX_WORDS - 8) + _NEAR + [12] * (MAX_WORDS - 20), dtype=np.int64)
_CLASS_HASHES: Hashes = np.arange(1, 14, dtype=np.uint32) * np.uint32(0x9E3779B1) ^ np.uint32(0x51ED270B)
_USED = 0x3C6EF372
_MAX_KEPT = 64


class _View(NamedTuple):
    """One path in one document: start scores without the distance, the best from each word on, table positions."""

    scores: Floats
    ahead: Floats
    index: Indices


class Starts(NamedTuple):
    """Scores of all words to be the start (a word's chance is `exp(score - norm)`) and the best word."""

    scores: Floats
    norm: float
    best: int

    def chance(self, word: int) -> float:
        return math.exp(float(self.scores[word]) - self.norm)


class Pointer:
    """Start scores of all paths in one document; what a path's own features add is computed once and kept."""

    def __init__(self, document: Document, weights: Weights) -> None:
        self._document = document
        self._weights = weights
        self._views: dict[int, _View] = {}
        self._starts: dict[tuple[int, int, int], Starts] = {}
        self._used: Floats = np.zeros(len(document), dtype=np.float32)
        self._any_used = False

    def _view(self, node: Node) -> _View:
        found = self._views.get(node.salt)
        if found is None:
            index = Weights.index(self._document.start_features, node.salt)
            scores = self._weights.values.take(index).sum(axis=0)
            if node.copied <= 20:
                self._add_key_bonus(node, scores)
            found = self._views[node.salt] = _View(scores, np.maximum.accumulate(scores[::-1])[::-1], index)
        return found

    def _add_key_bonus(self, node: Node, scores: Floats) -> None:
        """A path's own name left of a word makes it a likely start before anything was learned."""
        named: Node | None = node
        while named is not None and named.key == b"[]":
            named = named.parent
        if named is None:
            return
        positions = self._document.positions
        for word in words_of(named.key.decode("utf-8", "replace").replace("_", " ")):
            for position in positions.get(word, ()) or positions.get(word.capitalize(), ()):
                scores[position + 1 : position + 4] += _KEY_WEIGHT

    def _distances(self, node: Node, before: int) -> Indices:
        return np.concatenate([Weights.index(_CLASS_HASHES, node.salt ^ 0x1234567), Weights.index(_CLASS_HASHES, mix(node.salt, before))])

    def best_ahead(self, node: Node, end: int) -> float:
        """The best start score from word `end` on, without the distance."""
        ahead = self._view(node).ahead
        return float(ahead[end]) if end < len(ahead) else -8.0

    def starts(self, node: Node, end: int, before: int) -> Starts:
        """Scores of each word; `end` is the word after the last copied value, `before` the salt of its path."""
        key = (node.salt, end, before)
        found = self._starts.get(key)
        if found is None:
            values = self._weights.values
            distance = values.take(self._distances(node, before))
            distance = distance[:13] + distance[13:]
            size = len(self._used)
            scores = distance.take(_CLASSES[MAX_WORDS - end : MAX_WORDS - end + size])
            scores += self._view(node).scores
            if self._any_used:
                scores += self._used * values[Weights.index_one(mix(node.salt, _USED))]
            best = int(scores.argmax())
            top = float(scores[best])
            norm = top + math.log(float(np.exp(scores - top).sum()))
            if len(self._starts) >= _MAX_KEPT:
                self._starts.clear()
            found = self._starts[key] = Starts(scores, norm, best)
        return found

    def learn(self, node: Node, end: int, before: int, right: list[int], among: Indices | None) -> int:
        """Learn that the value started at one of `right`, out of all words or `among`; returns the likeliest of them."""
        scores = self.starts(node, end, before).scores
        gold = right[0] if len(right) == 1 else max(right, key=lambda word: (scores[word], -word))
        pool = scores if among is None else scores.take(among)
        if len(pool) > _NUM_RIVALS + 1:
            best = np.argpartition(pool, -_NUM_RIVALS)[-_NUM_RIVALS:]
        else:
            best = np.arange(len(pool))
        rivals = (best if among is None else among.take(best)).tolist()
        rivals = [gold, *[r for r in rivals if r not in right]]
        top = float(pool.max())
        chances = [math.exp(float(scores[r]) - top) for r in rivals]
        total = sum(chances)
        if chances[0] > _SURE * total:
            return gold
        index = self._view(node).index
        distances = self._distances(node, before)
        step = self._weights.step
        used_gradient = 0.0
        # One after the other: of two rivals that share a feature both must count.
        for rank, word in enumerate(rivals):
            slope = chances[rank] / total - (rank == 0)
            if abs(slope) > 0.03:
                near = int(_CLASSES[MAX_WORDS - end + word])
                step(np.append(index[:, word], (distances[near], distances[13 + near])), np.float32(slope), _RATE)
                used_gradient += slope * float(self._used[word])
        if used_gradient:
            step(np.array([Weights.index_one(mix(node.salt, _USED))]), np.float32(used_gradient), _RATE)
        self._starts.clear()
        return gold

    def mark_used(self, start: int, end: int) -> None:
        """Words start..end were copied."""
        self._used[start : end + 1] = 1.0
        self._any_used = True
        self._starts.clear()
