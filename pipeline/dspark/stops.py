"""Where a copied value stops: a log-linear model over word ends, learned online."""

from __future__ import annotations

import numpy as np

from pipeline.dspark.document import Document
from pipeline.dspark.memory import Node
from pipeline.dspark.weights import Floats, Indices, Weights

_RATE = 0.25
_BIAS = np.float32(-0.7)
_WINDOW = 24
_SALT, _COMMON = 0x7F4A7C15, 0x2545F491
_LENGTHS = np.arange(100, 120, dtype=np.uint32) * np.uint32(0x27D4EB2F)


class Stops:
    """Stop probabilities after each word of a value that starts at a given word of one document."""

    def __init__(self, document: Document, weights: Weights) -> None:
        self._document = document
        self._weights = weights

    def _index(self, node: Node, start: int, first: int, last: int) -> Indices:
        """Table positions (words, features) for the ends of words first..last-1 of a value from `start`."""
        document = self._document
        static = document.stop_features[first:last]
        lengths = _LENGTHS[np.minimum(np.arange(first - start, last - start), 19)]
        left = np.uint32((document.hash_list[start + 1] * 0x85EBCA6B) & 0xFFFFFFFF)
        features = np.concatenate(
            [static, lengths[:, None], (lengths ^ static[:, 3])[:, None], (static[:, 0] ^ left)[:, None]], axis=1
        )
        salt = node.salt ^ _SALT
        return np.concatenate([Weights.index(features, salt), Weights.index(static[:, :5], _COMMON)], axis=1)

    def probabilities(self, node: Node, start: int, first: int) -> list[float]:
        """The chance to stop after word first, first + 1, ... given that it did not stop before; at most 24."""
        last = min(first + _WINDOW, len(self._document))
        scores = self._weights.values[self._index(node, start, first, last)].sum(axis=1) + _BIAS
        chances: list[float] = (1.0 / (1.0 + np.exp(-scores))).tolist()
        return chances

    def learn(self, node: Node, start: int, end: int, stopped: bool) -> None:
        """Learn that a value ran from word `start` to word `end`, and (where `stopped`) ended with it."""
        first = max(start, end - _WINDOW)
        index = self._index(node, start, first, end + 1)
        scores = self._weights.values[index].sum(axis=1) + _BIAS
        gradient: Floats = (1.0 / (1.0 + np.exp(-scores))).astype(np.float32)
        if stopped:
            gradient[-1] -= 1.0
        else:
            gradient = gradient[:-1]
        for row in np.flatnonzero(np.abs(gradient) > 0.05).tolist():
            self._weights.step(index[row], gradient[row], _RATE)
