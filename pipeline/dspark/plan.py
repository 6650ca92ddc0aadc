"""Predicted text with the claims it rests on."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.dspark.estimates import Estimates


class Event(NamedTuple):
    """A claim of one drafter: bytes offset..end of a plan come true.

    `claimed` is the probability it says, `chance` the one experience gives; `path` is the salt of the JSON path.
    """

    offset: int
    end: int
    drafter: str
    path: int
    claimed: float
    chance: float


class Plan(NamedTuple):
    """Predicted text with its claims in order; `complete` where the record ends with it."""

    text: bytes
    events: list[Event]
    complete: bool


class Sketch:
    """A plan in the making; it is `full` when it is long or unsure enough."""

    __slots__ = ("_estimates", "_limit", "_min_survival", "events", "survival", "text")

    def __init__(self, estimates: Estimates, *, limit: int, min_survival: float) -> None:
        self._estimates = estimates
        self._limit = limit
        self._min_survival = min_survival
        self.text = bytearray()
        self.events: list[Event] = []
        self.survival = 1.0

    @property
    def full(self) -> bool:
        return self.survival <= self._min_survival or len(self.text) >= self._limit

    def add(self, text: bytes, drafter: str, path: int, claimed: float) -> None:
        """Append text that `drafter` claims with probability `claimed`; what the grammar forces is certain."""
        offset = len(self.text)
        self.text += text
        chance = 1.0 if drafter == "grammar" else self._estimates.probability(drafter, path, claimed)
        self.survival *= chance
        self.events.append(Event(offset, max(len(self.text), offset + 1), drafter, path, claimed, chance))

    def finished(self, *, complete: bool) -> Plan:
        return Plan(bytes(self.text), self.events, complete)
