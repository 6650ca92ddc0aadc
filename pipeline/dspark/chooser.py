"""Which of its known outcomes a decision takes: a log-linear model over document and record so far, learned online."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.dspark import kernels
from pipeline.dspark.memory import Decision
from pipeline.dspark.weights import Hashes, Weights

_RATE = 0.2
_BAG_VALUE = 0.35


class Choice(NamedTuple):
    """Chances of a decision's outcomes in one situation (their sum leaves room for novelty), and what they rest on."""

    chances: list[float]
    context: Hashes
    facts: Hashes


class Chooser:
    """Decides in one document; `bag` are the hashes of its words."""

    def __init__(self, bag: Hashes, weights: Weights) -> None:
        self._bag = bag
        self._weights = weights

    def choose(self, decision: Decision, context: list[int], facts: Hashes) -> Choice:
        """`context` (hashes) holds for all outcomes, `facts` (outcomes, any) for single ones, shared."""
        features = np.array(context, dtype=np.uint32)
        out = np.empty(len(facts), dtype=np.float32)
        kernels.choose(
            self._weights.values, decision.salts, decision.counts, decision.total, decision.salt,
            features, self._bag, facts, _BAG_VALUE, out,
        )  # fmt: skip
        return Choice(out.tolist(), features, facts)

    def learn(self, decision: Decision, choice: Choice, right: list[int]) -> None:
        """Learn that one of the outcomes `right` (positions) was taken, which one is left to what is believed."""
        chances = choice.chances
        total = sum(chances)
        mass = sum([chances[i] for i in right]) + 1e-6 * len(right)
        slopes = [chance / total for chance in chances]
        for i in right:
            slopes[i] -= (chances[i] + 1e-6) / mass
        kernels.step_choice(
            self._weights.values, self._weights.squares, decision.salts, decision.salt,
            choice.context, self._bag, choice.facts, _BAG_VALUE, np.array(slopes, dtype=np.float32), _RATE,
        )  # fmt: skip
