"""Where a copied value stops: a log-linear model over word ends, learned online."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pipeline.dspark.document import Document
from pipeline.dspark.memory import Node
from pipeline.dspark.weights import Indices, Weights, mix

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

    def _index(self, node: Node, first: int, last: int) -> Indices:
        """Table positions (features, words) for the ends of words first..last-1."""
        static = self._document.stop_features[:, first:last]
        return np.concatenate([Weights.index(static, node.salt ^ _SALT), Weights.index(static[:_NUM_COMMON], _COMMON)])

    def _window(self, node: Node, number: int) -> list[float]:
        key = (node.salt, number)
        found = self._windows.get(key)
        if found is None:
            index = self._index(node, number * _WINDOW, (number + 1) * _WINDOW)
            found = self._windows[key] = self._weights.values.take(index).sum(axis=0).tolist()
        return found

    def _dependent(self, node: Node, start: int, word: int) -> tuple[int, int]:
        """Table positions of what depends on the start: the length so far, and the word before against the next one."""
        hashes = self._document.hash_list
        following = hashes[word + 3] if word + 3 < len(hashes) else 9
        one = Weights.index_one
        return one(mix(node.salt, min(word - start, 12))), one(hash((node.salt, hashes[start + 1], following)) & 0xFFFFFFFF)

    def probabilities(self, node: Node, start: int, first: int) -> Iterator[float]:
        """The chance to stop after word first, first + 1, ... given that it did not stop before; to the last word."""
        values = self._weights.values
        for word in range(first, len(self._document)):
            length, sides = self._dependent(node, start, word)
            score = self._window(node, word // _WINDOW)[word % _WINDOW] + float(values[length]) + float(values[sides]) + _BIAS
            yield 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, score))))

    def learn(self, node: Node, start: int, end: int, stopped: bool) -> None:
        """Learn that a value ran from word `start` to word `end`, and (where `stopped`) ended with it."""
        first = max(start, end - _LEARN_BACK)
        index = None
        for word, chance in zip(range(first, end + 1), self.probabilities(node, start, first), strict=False):
            slope = chance - 1.0 if word == end else chance
            if abs(slope) < 0.1 or (word == end and not stopped):
                continue
            if index is None:
                index = self._index(node, first, end + 1)
            self._weights.step(np.append(index[:, word - first], self._dependent(node, start, word)), np.float32(slope), _RATE)
        if index is not None:
            for number in range(first // _WINDOW, end // _WINDOW + 1):
                self._windows.pop((node.salt, number), None)
