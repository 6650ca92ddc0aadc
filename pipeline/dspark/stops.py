"""Where a copied value stops: a log-linear model over word ends, learned online."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pipeline.dspark import kernels
from pipeline.dspark.document import Document
from pipeline.dspark.memory import Node
from pipeline.dspark.weights import Weights

_RATE = 0.25
_BIAS = -0.7
_WINDOW = 16
_LEARN_BACK = 24
_SALT, _COMMON = 0x7F4A7C15, 0x2545F491
_NUM_COMMON = 5


class Stops:
    """Stop probabilities after each word of a value that starts at a given word of one document."""

    def __init__(self, document: Document, weights: Weights) -> None:
        self._document = document
        self._weights = weights
        # Scores of windows of 16 word ends, without what depends on the start.
        self._windows: dict[tuple[int, int], list[float]] = {}

    def _window(self, node: Node, number: int) -> list[float]:
        key = (node.salt, number)
        found = self._windows.get(key)
        if found is None:
            first = number * _WINDOW
            last = min(first + _WINDOW, len(self._document))
            out = np.full(last - first, _BIAS, dtype=np.float32)
            features = self._document.stop_features
            kernels.sum_features(self._weights.values, features, node.salt ^ _SALT, first, last, out)
            kernels.sum_features(self._weights.values, features[:_NUM_COMMON], _COMMON, first, last, out)
            found = self._windows[key] = out.tolist()
        return found

    def _sides(self, start: int, word: int) -> int:
        """A hash of the word before the value and the word after its end."""
        hashes = self._document.hash_list
        return hash((hashes[start + 1], hashes[word + 3] if word + 3 < len(hashes) else 9)) & 0xFFFFFFFF

    def probabilities(self, node: Node, start: int, first: int) -> Iterator[float]:
        """The chance to stop after word first, first + 1, ... given that it did not stop before; to the last word."""
        values, salt, weight_of = self._weights.values, node.salt, kernels.weight_of
        for word in range(first, len(self._document)):
            score = self._window(node, word // _WINDOW)[word % _WINDOW]
            score += weight_of(values, min(word - start, 12) + 401, salt) + weight_of(values, self._sides(start, word), salt)
            yield 1.0 / (1.0 + math.exp(-score)) if -30.0 < score < 30.0 else float(score > 0)

    def learn(self, node: Node, start: int, end: int, stopped: bool) -> None:
        """Learn that a value ran from word `start` to word `end`, and (where `stopped`) ended with it."""
        first = max(start, end - _LEARN_BACK)
        values, squares, salt = self._weights.values, self._weights.squares, node.salt
        features, learned = self._document.stop_features, False
        for word, chance in zip(range(first, end + 1), self.probabilities(node, start, first), strict=False):
            slope = chance - 1.0 if word == end else chance
            if abs(slope) < 0.1 or (word == end and not stopped):
                continue
            kernels.step_column(values, squares, features, salt ^ _SALT, word, slope, _RATE)
            kernels.step_column(values, squares, features[:_NUM_COMMON], _COMMON, word, slope, _RATE)
            kernels.step_one(values, squares, min(word - start, 12) + 401, salt, slope, _RATE)
            kernels.step_one(values, squares, self._sides(start, word), salt, slope, _RATE)
            learned = True
        if learned:
            for number in range(first // _WINDOW, end // _WINDOW + 1):
                self._windows.pop((salt, number), None)
