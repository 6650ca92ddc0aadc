"""Down to which survival probability drafts have been verified lately: what is less likely need not be drafted."""

from __future__ import annotations

from collections.abc import Sequence

_RISE, _FALL = 0.03, 0.3
# Where all of a draft was verified, more might have been.
_UNTESTED = 0.8
# Drafts go on a little below the level, so that a lower one is noticed.
_BELOW = 0.7


class Admission:
    """Follows the budget's threshold from what it admits; starts with everything."""

    __slots__ = ("_level",)

    def __init__(self) -> None:
        self._level = 0.0

    @property
    def worth_composing(self) -> float:
        """A draft ends with the first claim that brings its survival below this."""
        return self._level

    @property
    def worth_encoding(self) -> float:
        """Claims below this are left out of a draft."""
        return _BELOW * self._level

    def verified(self, survival: Sequence[float], num_verified: int) -> None:
        """Of a draft with these survival probabilities the first `num_verified` were verified."""
        if num_verified < len(survival):
            refused = float(survival[num_verified])
            if refused > self._level:
                self._level += _RISE * (refused - self._level)
        elif num_verified:
            self._level += _FALL * (min(float(survival[-1]), _UNTESTED * self._level) - self._level)
