"""Where in the document the value of a path starts: a log-linear model over words, learned online."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.document import Document, words_of
from pipeline.dspark.memory import Node
from pipeline.dspark.weights import Floats, Hashes, Indices, Weights, mix, salt_of

_RATE = 0.25
_NUM_RIVALS = 8
_KEY_WEIGHT = 1.5
# Distance in words from the end of the last copied value, -16..47, to a class.
_CLASSES = np.array([0] * 8 + [1] * 5 + [2, 3, 4] + [5, 6, 7, 8, 9, 9, 10, 10, 10, 10] + [11] * 10 + [12] * 28, dtype=np.int64)
_NUM_CLASSES = 13
_CLASS_HASHES: Hashes = np.arange(1, _NUM_CLASSES + 1, dtype=np.uint32) * np.uint32(0x9E3779B1) ^ np.uint32(0x51ED270B)
_USED = 0x3C6EF372
_NEGATIVE = np.float32(-30.0)


class Pointer:
    """Start scores of all paths in one document; scores of a path are computed once and kept."""

    def __init__(self, document: Document, weights: Weights) -> None:
        self._document = document
        self._weights = weights
        self._static: dict[int, tuple[Floats, Floats, Indices]] = {}
        self._at = np.arange(len(document), dtype=np.int64)
        self.used: Floats = np.zeros(len(document), dtype=np.float32)

    def _view(self, node: Node) -> tuple[Floats, Floats, Indices]:
        """(scores, best score from each word on, table positions) of a path without the distance."""
        found = self._static.get(node.salt)
        if found is None:
            index = Weights.index(self._document.start_features, node.salt)
            scores = self._weights.values[index].sum(axis=1) + self._key_bonus(node)
            ahead = np.maximum.accumulate(scores[::-1])[::-1] if len(scores) else scores
            found = self._static[node.salt] = (scores, ahead, index)
        return found

    def _key_bonus(self, node: Node) -> Floats:
        """A path's own name left of a word makes it a likely start before anything was learned."""
        bonus = np.zeros(len(self._document), dtype=np.float32)
        if node.copied > 20:
            return bonus
        named: Node | None = node
        while named is not None and named.key == b"[]":
            named = named.parent
        if named is None:
            return bonus
        key = named.key.decode("utf-8", "replace").replace("_", " ").replace("-", " ")
        for word in words_of(key):
            for position in self._document.positions.get(word, ()) or self._document.positions.get(word.capitalize(), ()):
                bonus[position + 1 : position + 4] = _KEY_WEIGHT
        return bonus

    def _distance_index(self, node: Node, before: int) -> tuple[Indices, int]:
        first = Weights.index(_CLASS_HASHES, node.salt ^ 0x1234567)
        second = Weights.index(_CLASS_HASHES, mix(node.salt, before))
        return np.stack([first, second]), Weights.index_one(mix(node.salt, _USED))

    def best_ahead(self, node: Node, end: int) -> float:
        """The best start score from word `end` on, without the distance."""
        ahead = self._view(node)[1]
        return float(ahead[end]) if 0 <= end < len(ahead) else -8.0

    def scores(self, node: Node, end: int, before: int) -> Floats:
        """Log-probabilities of each word to be the start; `end` is the word after the last copied value, `before` its path."""
        static, _, _ = self._view(node)
        values = self._weights.values
        index, used = self._distance_index(node, before)
        distance = values[index].sum(axis=0)
        scores = static + distance[_CLASSES[np.clip(self._at - (end - 16), 0, 63)]] + self.used * values[used]
        top = scores.max() if len(scores) else 0.0
        return np.asarray(scores - (top + np.log(np.exp(scores - top).sum())), dtype=np.float32)

    def learn(self, node: Node, end: int, before: int, right: list[int], among: NDArray[np.int64] | None) -> int:
        """Learn that the value started at one of `right`, out of all words or `among`; returns the likeliest of them."""
        scores = self.scores(node, end, before)
        gold = max(right, key=lambda word: (scores[word], -word))
        pool = scores if among is None else scores[among]
        rivals = np.argpartition(-pool, _NUM_RIVALS)[:_NUM_RIVALS] if len(pool) > _NUM_RIVALS else np.arange(len(pool))
        if among is not None:
            rivals = among[rivals]
        rivals = np.array([gold, *[r for r in rivals.tolist() if r not in right]], dtype=np.int64)
        chances = np.exp(scores[rivals] - scores[rivals].max())
        chances /= chances.sum()
        if chances[0] > 0.97:
            return gold
        gradient = chances.astype(np.float32)
        gradient[0] -= 1.0
        static = self._view(node)[2][rivals]
        index, used = self._distance_index(node, before)
        distance = index[:, _CLASSES[np.clip(rivals - (end - 16), 0, 63)]]
        step = self._weights.step
        # One after the other: of two rivals that share a feature both must count.
        for row in range(len(rivals)):
            if abs(gradient[row]) > 0.02:
                step(np.concatenate([static[row], distance[:, row]]), np.float32(gradient[row]), _RATE)
        used_gradient = float((gradient * self.used[rivals]).sum())
        if used_gradient:
            step(np.array([used]), np.float32(used_gradient), _RATE)
        return gold


def distance_salt(node: Node) -> int:
    """How `before` is named for a path."""
    return salt_of(b"before", node.salt.to_bytes(4, "little"))
