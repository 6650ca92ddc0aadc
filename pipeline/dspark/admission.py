"""Down to which survival probability drafts have been verified lately: what is less likely need not be drafted."""

from __future__ import annotations

from pipeline.dspark.compiled import Floats

_RISE, _FALL = 0.03, 0.3
# Where all of a draft was verified, more might have been.
_UNTESTED = 0.8
# Drafts go on a little below the level, so that a lower one is noticed.
_BELOW = 0.7


class Admission:
    """Follows the budget's threshold from what it admits; starts with everything.

    A draft ends with the first claim that brings its survival down to `worth_composing`; claims with a survival below
    `worth_encoding` are left out of it.
    """

    __slots__ = ("worth_composing", "worth_encoding")

    def __init__(self) -> None:
        self.worth_composing = 0.0
        self.worth_encoding = 0.0

    def verified(self, survival: Floats, num_verified: int) -> None:
        """Of a draft with these survival probabilities the first `num_verified` were verified."""
        level = self.worth_composing
        if num_verified < len(survival):
            refused = float(survival[num_verified])
            if refused > level:
                level += _RISE * (refused - level)
        elif num_verified:
            level += _FALL * (min(float(survival[-1]), _UNTESTED * level) - level)
        self.worth_composing, self.worth_encoding = level, _BELOW * level
