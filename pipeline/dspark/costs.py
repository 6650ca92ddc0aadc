"""The cost table: how long one engine step takes, by the number of tokens in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_KEPT = 24  # newest step times kept per size: enough for a quantile, few enough to follow a change
_EXPECTED_KNEE_TOKENS = 64.0  # before anything is measured: a step of this many tokens costs twice an empty one


def isotonic(values: Floats, weights: Floats) -> Floats:
    """Non-decreasing least-squares fit of ``values`` (pool adjacent violators); same shape."""
    means: list[float] = []
    sums: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        means.append(value)
        sums.append(weight)
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            total = sums[-2] + sums[-1]
            means[-2] = (means[-2] * sums[-2] + means[-1] * sums[-1]) / total
            sums[-2] = total
            counts[-2] += counts[-1]
            del means[-1], sums[-1], counts[-1]
    return np.repeat(np.array(means), np.array(counts))


class CostTable:
    """Step time in milliseconds by tokens per step, measured and monotone.

    ``observe`` takes measured steps; the table keeps a low quantile of the newest per size, makes the sizes monotone,
    interpolates between them and continues the last slope beyond the largest. Until two sizes are known, it assumes
    that a step of 64 tokens takes twice as long as an empty one, so that early drafts are bounded but not forbidden.
    """

    def __init__(self, points: Sequence[tuple[int, float]] = ()) -> None:
        self._samples: dict[int, deque[float]] = {}
        self._stale = True
        self._sizes: Floats = np.zeros(0)
        self._times: Floats = np.zeros(0)
        for num_tokens, step_ms in points:
            self.observe(num_tokens, step_ms)

    def observe(self, num_tokens: int, step_ms: float) -> None:
        """Add one measured step."""
        if num_tokens < 1 or step_ms <= 0.0:
            return
        size = _bin(num_tokens)
        self._samples.setdefault(size, deque(maxlen=_KEPT)).append(step_ms)
        self._stale = True

    @property
    def num_sizes(self) -> int:
        return len(self._samples)

    def points(self) -> list[tuple[int, float]]:
        """The fitted table as (tokens, milliseconds), ascending in both."""
        self._refit()
        return [(int(size), float(time)) for size, time in zip(self._sizes, self._times, strict=True)]

    def step_ms(self, num_tokens: Floats | Sequence[int]) -> Floats:
        """Predicted step time for each number of tokens; same shape as ``num_tokens``."""
        self._refit()
        wanted = np.asarray(num_tokens, dtype=np.float64)
        if self._sizes.size == 0:
            return 1.0 + wanted / _EXPECTED_KNEE_TOKENS
        if self._sizes.size == 1:
            base = self._times[0] / (1.0 + self._sizes[0] / _EXPECTED_KNEE_TOKENS)
            fitted: Floats = base * (1.0 + wanted / _EXPECTED_KNEE_TOKENS)
            return fitted
        inside = np.interp(wanted, self._sizes, self._times)
        beyond = np.maximum(wanted - self._sizes[-1], 0.0) * self._last_slope()
        table: Floats = inside + beyond
        return table

    def _last_slope(self) -> float:
        # The mean slope from the middle of the table on: one noisy end point must not decide about all larger steps.
        middle = int(np.searchsorted(self._sizes, self._sizes[-1] / 2.0))
        middle = min(middle, self._sizes.size - 2)
        return float((self._times[-1] - self._times[middle]) / (self._sizes[-1] - self._sizes[middle]))

    def _refit(self) -> None:
        if not self._stale:
            return
        self._stale = False
        sizes = sorted(self._samples)
        self._sizes = np.array(sizes, dtype=np.float64)
        times = np.array([_lower_quartile(self._samples[size]) for size in sizes], dtype=np.float64)
        weights = np.array([len(self._samples[size]) for size in sizes], dtype=np.float64)
        self._times = isotonic(times, weights) if sizes else times


def _lower_quartile(samples: deque[float]) -> float:
    """Whatever disturbs a step makes it longer, so the typical undisturbed time lies below the median."""
    ordered = sorted(samples)
    return ordered[len(ordered) // 4]


def _bin(num_tokens: int) -> int:
    """Exact up to 32, then steps of about an eighth: neighbouring sizes cost nearly the same."""
    if num_tokens <= 32:
        return num_tokens
    step = 1 << (num_tokens.bit_length() - 4)
    return num_tokens // step * step + step // 2
