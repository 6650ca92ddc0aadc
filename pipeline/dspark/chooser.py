"""Which of the known outcomes a decision takes: a log-linear model over the document and the record so far, learned online."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.dspark.memory import Decision
from pipeline.dspark.weights import Floats, Hashes, Indices, Weights

_RATE = 0.2
_BAG_VALUE = np.float32(0.35)
_NUM_RIVALS = 3
# Weight of "something never seen", against the number of times the decision was taken.
_NOVELTY = 0.5


class Choice(NamedTuple):
    """Chances of a decision's outcomes in one situation (their sum leaves room for novelty), and the positions used."""

    chances: list[float]
    index: Indices
    facts: Indices


class _View:
    """What of a decision's scores is the same in the whole document."""

    __slots__ = ("bag_index", "bag_scores", "salts", "scores", "stale", "version")

    def __init__(self, decision: Decision, bag: Hashes, weights: Weights) -> None:
        self.version = decision.version
        self.salts = np.array([[o.salt] for o in decision.outcomes], dtype=np.uint32)
        self.bag_index = Weights.index(bag ^ self.salts, decision.salt)
        self.refresh(decision, weights)

    def refresh(self, decision: Decision, weights: Weights) -> None:
        counts = np.array([o.count for o in decision.outcomes], dtype=np.float32)
        self.scores: Floats = np.log((counts + np.float32(0.3)) / np.float32(decision.total + 1.0))
        self.scores += _BAG_VALUE * weights.values.take(self.bag_index).sum(axis=1)
        self.stale = False


class Chooser:
    """Decides in one document; `bag` are the hashes of its words."""

    def __init__(self, bag: Hashes, weights: Weights) -> None:
        self._bag = bag
        self._weights = weights
        self._views: dict[int, _View] = {}

    def _view(self, decision: Decision) -> _View:
        view = self._views.get(decision.salt)
        if view is None or view.version != decision.version:
            view = self._views[decision.salt] = _View(decision, self._bag, self._weights)
        elif view.stale:
            view.refresh(decision, self._weights)
        return view

    def choose(self, decision: Decision, context: list[int], facts: list[tuple[int, int]]) -> Choice:
        """`context` (hashes) holds for all outcomes, `facts[k]` (table positions) for outcome k, shared between outcomes."""
        view = self._view(decision)
        index = Weights.index(np.array(context, dtype=np.uint32) ^ view.salts, decision.salt)
        shared = np.array(facts, dtype=np.int64)
        values = self._weights.values
        scores = values.take(index).sum(axis=1)
        scores += view.scores
        scores += values.take(shared).sum(axis=1)
        scores -= scores.max()
        chances = np.exp(scores)
        chances *= (decision.total + 0.1) / ((decision.total + 0.1 + _NOVELTY) * float(chances.sum()))
        return Choice(chances.tolist(), index, shared)

    def learn(self, decision: Decision, choice: Choice, right: list[int]) -> None:
        """Learn that one of the outcomes `right` (positions) was taken, which one is left to what is believed."""
        chances = choice.chances
        total = sum(chances)
        mass = sum([chances[i] for i in right]) + 1e-6 * len(right)
        slopes = [chance / total for chance in chances]
        for i in right:
            slopes[i] -= (chances[i] + 1e-6) / mass
        rows = [i for i, slope in enumerate(slopes) if abs(slope) > 0.04]
        if len(rows) > _NUM_RIVALS + len(right):
            rows = sorted(rows, key=lambda i: -abs(slopes[i]))[: _NUM_RIVALS + len(right)]
        if not rows:
            return
        slope = np.array([[slopes[i]] for i in rows], dtype=np.float32)
        self._weights.step(choice.index[rows], slope, _RATE)
        view = self._views.get(decision.salt)
        if view is not None and view.version == decision.version:
            self._weights.step(view.bag_index[rows], slope * _BAG_VALUE, _RATE)
        for row in rows:
            self._weights.step(choice.facts[row], np.float32(slopes[row]), _RATE)

    def touch(self, decision: Decision) -> None:
        """The decision's counts or weights changed."""
        view = self._views.get(decision.salt)
        if view is not None:
            view.stale = True
