"""Online acceptance estimates: how often what a drafter was so sure of came true."""

from __future__ import annotations

from bisect import bisect_right

_LEVELS = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.87, 0.94, 0.98)
_PRIOR_TRIALS = 2.0
_BACKOFF_TRIALS = 3.0
_MEMORY_TRIALS = 400.0
_MAX_KEYS = 20_000


class _Trials:
    """Decided claims, halved beyond 400."""

    __slots__ = ("num", "num_true")

    def __init__(self) -> None:
        self.num_true = 0.0
        self.num = 0.0

    def count(self, came_true: bool) -> None:
        self.num_true += came_true
        self.num += 1.0
        if self.num > _MEMORY_TRIALS:
            self.num_true *= 0.5
            self.num *= 0.5


class Estimate:
    """What became of the claims of one drafter, about equally sure, at one path (and at all paths together)."""

    __slots__ = ("_everywhere", "_here")

    def __init__(self, everywhere: _Trials) -> None:
        self._everywhere = everywhere
        self._here = _Trials()

    def chance(self, claimed: float) -> float:
        """The probability that a claim of `claimed` comes true."""
        everywhere, here = self._everywhere, self._here
        general = (everywhere.num_true + _PRIOR_TRIALS * claimed) / (everywhere.num + _PRIOR_TRIALS)
        return (here.num_true + _BACKOFF_TRIALS * general) / (here.num + _BACKOFF_TRIALS)

    def learn(self, came_true: bool) -> None:
        """Count one decided claim."""
        self._everywhere.count(came_true)
        self._here.count(came_true)


class Estimates:
    """Acceptance by (drafter, how sure it said it was), refined by JSON path where that has been seen often.

    Trials are halved beyond 400, so the estimate follows a change; at most 20,000 keys are kept.
    """

    __slots__ = ("_everywhere", "_here")

    def __init__(self) -> None:
        self._everywhere: dict[tuple[str, int], _Trials] = {}
        self._here: dict[tuple[str, int, int], Estimate] = {}

    def __len__(self) -> int:
        return len(self._here)

    def of(self, drafter: str, path: int, claimed: float) -> Estimate:
        """The estimate for a drafter that claims `claimed` at `path` (a salt)."""
        key = (drafter, path, bisect_right(_LEVELS, claimed))
        found = self._here.get(key)
        if found is None:
            if len(self._here) >= _MAX_KEYS:
                self._here.clear()
            everywhere = self._everywhere.setdefault((drafter, key[2]), _Trials())
            found = self._here[key] = Estimate(everywhere)
        return found
