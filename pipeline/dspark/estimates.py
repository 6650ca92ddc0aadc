"""Online acceptance estimates: how often what a drafter was so sure of came true."""

from __future__ import annotations

from bisect import bisect_right

_LEVELS = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.87, 0.94, 0.98)
_PRIOR_TRIALS = 2.0
_BACKOFF_TRIALS = 3.0
_MEMORY_TRIALS = 400.0
_MAX_KEYS = 20_000


class Estimates:
    """Acceptance by (drafter, how sure it said it was), refined by JSON path where that has been seen often.

    Trials are halved beyond 400, so the estimate follows a change; at most 20,000 keys are kept.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int, int], list[float]] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def probability(self, drafter: str, path: int, claimed: float) -> float:
        """The estimate for a drafter that claims `claimed` at `path` (a salt)."""
        level = bisect_right(_LEVELS, claimed)
        general = self._counts.get((drafter, 0, level))
        estimate = claimed
        if general is not None:
            estimate = (general[0] + _PRIOR_TRIALS * claimed) / (general[1] + _PRIOR_TRIALS)
        special = self._counts.get((drafter, path, level))
        if special is not None:
            estimate = (special[0] + _BACKOFF_TRIALS * estimate) / (special[1] + _BACKOFF_TRIALS)
        return estimate

    def learn(self, drafter: str, path: int, claimed: float, came_true: bool) -> None:
        """Count one decided claim."""
        level = bisect_right(_LEVELS, claimed)
        for key in ((drafter, 0, level), (drafter, path, level)):
            counts = self._counts.get(key)
            if counts is None:
                if len(self._counts) >= _MAX_KEYS:
                    self._counts.clear()
                counts = self._counts[key] = [0.0, 0.0]
            counts[0] += came_true
            counts[1] += 1.0
            if counts[1] > _MEMORY_TRIALS:
                counts[0] *= 0.5
                counts[1] *= 0.5
