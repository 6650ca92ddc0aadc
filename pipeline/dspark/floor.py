"""How many draft tokens to verify when verification is nearly free: by survival, holding an acceptance rate."""

from __future__ import annotations

from collections.abc import Sequence

_STEP = 0.004
_LOWEST, _HIGHEST = 0.02, 0.9


class AcceptanceFloor:
    """Admits draft positions down to a survival probability that keeps accepted/drafted at `rate` or above.

    Most accepted tokens at a given rate are had by one threshold for all positions; which one depends on how well
    the drafters do, so it moves: up when a step accepted less than the rate asks for, down when it accepted more.
    """

    def __init__(self, rate: float = 0.6, threshold: float = 0.35) -> None:
        self.rate = rate
        self.threshold = threshold
        self._balance = 0.0

    def admit(self, survival: Sequence[float]) -> int:
        """How many of the first positions to verify; `survival` does not rise."""
        count = 0
        for probability in survival:
            if probability < self.threshold:
                break
            count += 1
        return count

    def verified(self, num_verified: int, num_accepted: int) -> None:
        """The result of one request in one step."""
        surplus = num_accepted - self.rate * num_verified
        self._balance = 0.998 * self._balance + surplus
        pull = 0.0004 * max(-20.0, min(20.0, self._balance))
        self.threshold = min(_HIGHEST, max(_LOWEST, self.threshold - _STEP * surplus / 4 - pull / 4))
