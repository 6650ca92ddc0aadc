"""Which of its known outcomes a decision takes: a log-linear model over document and record so far, learned online."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.dspark import kernels
from pipeline.dspark.memory import Decision
from pipeline.dspark.weights import Floats, Hashes, Weights

_RATE = 0.2
_BAG_VALUE = 0.35


class Choice(NamedTuple):
    """Chances of a decision's outcomes in one situation (their sum leaves room for novelty), and what they rest on."""

    chances: list[float]
    as_array: Floats
    context: Hashes
    facts: Hashes


class Chooser:
    """Decides in one document; `bag` are the hashes of its words."""

    def __init__(self, bag: Hashes, weights: Weights) -> None:
        self._bag = bag
        self._weights = weights
        # What the document says to the outcomes of a decision, until it is learned or has new outcomes.
        self._spread: dict[int, tuple[int, Floats]] = {}

    def choose(self, decision: Decision, context: list[int], facts: Hashes) -> Choice:
        """`context` (hashes) holds for all outcomes, `facts` (outcomes, any) for single ones, shared."""
        values, size = self._weights.values, len(facts)
        kept = self._spread.get(decision.salt)
        if kept is not None and kept[0] == decision.version:
            spread = kept[1]
        else:
            spread = np.empty(size, dtype=np.float32)
            kernels.spread_bag(values, decision.salts, decision.salt, self._bag, _BAG_VALUE, spread)
            self._spread[decision.salt] = (decision.version, spread)
        features = np.array(context, dtype=np.uint32)
        out = np.empty(size, dtype=np.float32)
        kernels.choose(
            values, decision.salts, decision.counts, decision.total, decision.salt, features, spread, facts, out
        )
        return Choice(out.tolist(), out, features, facts)

    def learn(self, decision: Decision, choice: Choice, right: list[int]) -> None:
        """Learn that one of the outcomes `right` (positions) was taken, which one is left to what is believed."""
        self._spread.pop(decision.salt, None)
        kernels.learn_choice(
            self._weights.values, self._weights.squares, decision.salts, decision.salt, choice.context, self._bag,
            choice.facts, _BAG_VALUE, choice.as_array, np.array(right, dtype=np.int64), _RATE,
        )  # fmt: skip
