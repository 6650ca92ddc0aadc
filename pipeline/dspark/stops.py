"""Where a copied value stops: a log-linear model over word ends, learned online."""

from __future__ import annotations

import numpy as np

from pipeline.dspark.document import Document
from pipeline.dspark.memory import Node
from pipeline.dspark.stop_kernels import learn_stop, stop_chances
from pipeline.dspark.weights import Weights

# A stop more likely than this is taken.
LIKELY = 0.5
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

    def chances(self, node: Node, start: int, first: int) -> list[float]:
        """The chance to stop after word first, first + 1, … given no stop before; up to a likely one, 16 at most."""
        document = self._document
        out = np.empty(max(0, min(_WINDOW, document.num_words - first)), dtype=np.float32)
        size = stop_chances(
            self._weights.values, document.stop_features, document.hashes, _NUM_COMMON, _COMMON, node.salt ^ _SALT,
            start, first, LIKELY, out,
        )  # fmt: skip
        chances: list[float] = out[:size].tolist()
        return chances

    def learn(self, node: Node, start: int, end: int, stopped: bool) -> None:
        """Learn that a value ran from word `start` to word `end`, and (where `stopped`) ended with it."""
        document = self._document
        learn_stop(
            self._weights.values, self._weights.squares, document.stop_features, document.hashes, _NUM_COMMON, _COMMON,
            node.salt ^ _SALT, start, max(start, end - _LEARN_BACK), end, stopped, _RATE,
        )  # fmt: skip
