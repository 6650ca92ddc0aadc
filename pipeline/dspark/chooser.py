"""Which of the known outcomes a decision takes: a log-linear model over the document and the record so far, learned online."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.dspark.memory import Decision
from pipeline.dspark.weights import Floats, Hashes, Indices, Weights

_RATE = 0.2
_BAG_VALUE = 0.35
# Weight of "something never seen", against the number of times the decision was taken.
_NOVELTY = 0.5


@dataclass(frozen=True, slots=True)
class Choice:
    """Probabilities of a decision's outcomes in one situation (their sum leaves room for novelty), with what learning needs."""

    chances: Floats
    index: Indices
    facts: Indices


class Chooser:
    """Decides in one document; `bag` are the hashes of its words."""

    def __init__(self, bag: Hashes, weights: Weights) -> None:
        self._bag = bag
        self._weights = weights

    def choose(self, decision: Decision, context: list[int], facts: list[list[int]]) -> Choice:
        """`context` (hashes) holds for all outcomes, `facts[k]` (hashes) for outcome k, shared between outcomes."""
        outcomes = decision.outcomes
        features = np.concatenate([np.array(context, dtype=np.uint32), self._bag])
        salts = np.array([o.salt for o in outcomes], dtype=np.uint32)
        index = Weights.index(features[None, :] ^ salts[:, None], decision.salt)
        shared = Weights.index(np.array(facts, dtype=np.uint32).reshape(len(outcomes), -1), decision.salt)
        values = self._weights.values
        found = values[index]
        size = len(context)
        counts = np.array([o.count for o in outcomes], dtype=np.float32)
        scores = found[:, :size].sum(axis=1) + _BAG_VALUE * found[:, size:].sum(axis=1) + values[shared].sum(axis=1)
        scores += np.log((counts + 0.3) / (decision.total + 1.0))
        chances = np.exp(scores - scores.max())
        chances *= (decision.total + 0.1) / ((decision.total + 0.1 + _NOVELTY) * chances.sum())
        return Choice(chances.astype(np.float32), index, shared)

    def learn(self, choice: Choice, right: list[int], context_size: int) -> None:
        """Learn that one of the outcomes `right` (positions) was taken, which one is left to what is believed."""
        chances = choice.chances / choice.chances.sum()
        belief = np.zeros_like(chances)
        belief[right] = chances[right] + 1e-6
        belief /= belief.sum()
        gradient = chances - belief
        for row in np.flatnonzero(np.abs(gradient) > 0.03).tolist():
            slope = gradient[row]
            self._weights.step(choice.index[row, :context_size], slope, _RATE)
            self._weights.step(choice.index[row, context_size:], slope * np.float32(_BAG_VALUE), _RATE)
            self._weights.step(choice.facts[row], slope, _RATE)
