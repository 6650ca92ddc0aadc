"""Predicted text with the claims it rests on."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.dspark.estimates import Estimate, Estimates

# A claim of one drafter, (offset, end, drafter, survival, estimate): bytes offset..end of a plan come true. `survival`
# is the probability that all claims up to this one do, `estimate` learns whether it did (None: certain). Thousands are
# made a second, and a plain tuple is made in a tenth of the time of a named one.
Event = tuple[int, int, str, float, Estimate | None]


class Plan(NamedTuple):
    """Predicted text with its claims in order; `complete` where the record ends with it."""

    text: bytes
    events: list[Event]
    complete: bool


class Sketch:
    """A plan in the making; it is `full` when it is long or unsure enough."""

    __slots__ = ("_estimate_of", "_limit", "_min_survival", "events", "full", "size", "survival", "text")

    def __init__(self, estimates: Estimates, *, limit: int, min_survival: float) -> None:
        self._estimate_of = estimates.of
        self._limit = limit
        self._min_survival = min_survival
        self.text = bytearray()
        self.events: list[Event] = []
        self.survival = 1.0
        self.size = 0
        self.full = limit <= 0

    def add(self, text: bytes, drafter: str, path: int, claimed: float) -> None:
        """Append text that `drafter` claims with probability `claimed`; what the grammar forces is certain."""
        offset, survival, estimate = self.size, self.survival, None
        self.text += text
        if drafter != "grammar":
            estimate = self._estimate_of(drafter, path, claimed)
            self.survival = survival = survival * estimate.chance(claimed)
        end = self.size = offset + len(text)
        if survival <= self._min_survival or end >= self._limit:
            self.full = True
        self.events.append((offset, end if text else offset + 1, drafter, survival, estimate))

    def finished(self, *, complete: bool) -> Plan:
        return Plan(bytes(self.text), self.events, complete)
