"""Where a copied value stops: a log-linear model over word ends, learned online."""

from __future__ import annotations

import numpy as np

from pipeline.dspark import kernels
from pipeline.dspark.document import Document
from pipeline.dspark.memory import Node
from pipeline.dspark.weights import Weights

_RATE = 0.25
_WINDOW = 16
_LEARN_BACK = 24
_SALT, _COMMON = 0x7F4A7C15, 0x2545F491
# So many of the features also speak for all paths together.
_NUM_COMMON = 5


class Stops:
    """Stop chances after each word of a value that starts at a given word of one document."""

    def __init__(self, document: Document, weights: Weights) -> None:
        self._document = document
        self._weights = weights

    def chances(self, node: Node, start: int, first: int, last: int | None = None) -> list[float]:
        """The chance to stop after word first, first + 1, … given no stop before; 16 words or up to `last`."""
        document = self._document
        size = min((first + _WINDOW if last is None else last + 1), len(document)) - first
        out = np.empty(max(size, 0), dtype=np.float32)
        kernels.stop_chances(
            self._weights.values,
            document.stop_features,
            document.hashes,
            _NUM_COMMON,
            _COMMON,
            node.salt ^ _SALT,
            start,
            first,
            out,
        )
        chances: list[float] = out.tolist()
        return chances

    def learn(self, node: Node, start: int, end: int, stopped: bool) -> None:
        """Learn that a value ran from word `start` to word `end`, and (where `stopped`) ended with it."""
        first = max(start, end - _LEARN_BACK)
        document = self._document
        for word, chance in enumerate(self.chances(node, start, first, end), first):
            slope = chance - 1.0 if word == end else chance
            if abs(slope) < 0.1 or (word == end and not stopped):
                continue
            kernels.step_stop(
                self._weights.values, self._weights.squares, document.stop_features, document.hashes,
                _NUM_COMMON, _COMMON, node.salt ^ _SALT, start, word, slope, _RATE,
            )  # fmt: skip
