"""The cost table: how long one engine step takes, by the number of tokens in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_KEPT = 24  # newest step times kept per size: enough for a quantile, few enough to follow a change
_REFIT_EVERY = 32  # steps, once more than a few sizes are known
_FEW_SIZES = 12
_MAX_KNEES = 20
_WORTH = 0.9  # a bend that leaves more than this part of the error is none
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


class Bend(NamedTuple):
    """A line that gets steeper once: milliseconds for none, per token, and per token beyond ``knee`` on top."""

    base: float
    slope: float
    extra: float
    knee: float

    def at(self, num_tokens: Floats) -> Floats:
        """Milliseconds; same shape."""
        straight: Floats = self.base + self.slope * num_tokens
        bent: Floats = straight + self.extra * np.maximum(num_tokens - self.knee, 0.0)
        return bent


def fit_bend(sizes: Floats, times: Floats, weights: Floats) -> Bend:
    """A bend with nearly the least weighted squared relative error and no coefficient negative.

    At most 20 knees are tried, at the sizes and between them; fewer coefficients and a smaller knee are preferred where
    the error is about the same.
    """
    knees = np.sort(np.concatenate([sizes, (sizes[1:] + sizes[:-1]) / 2.0]))
    knees = knees[np.linspace(0, len(knees) - 1, min(len(knees), _MAX_KNEES)).astype(np.int64)]
    columns = np.ones((len(knees), len(sizes), 3))  # (knees, sizes, coefficients)
    columns[:, :, 1] = sizes
    columns[:, :, 2] = np.maximum(sizes - knees[:, None], 0.0)
    scale = np.sqrt(weights) / times
    columns *= scale[:, None]
    wanted = times * scale
    best, least = Bend(float(times.min()), 0.0, 0.0, 0.0), np.inf
    for used in ((0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        part = columns[:, :, used]
        squares = part.transpose(0, 2, 1) @ part
        # So little that no figure shows it, enough for sizes that do not tell all coefficients.
        squares += 1e-9 * np.eye(len(used)) * np.trace(squares, axis1=1, axis2=2)[:, None, None]
        found = np.linalg.solve(squares, (part.transpose(0, 2, 1) @ wanted)[:, :, None])[:, :, 0]
        errors = np.square((part @ found[:, :, None])[:, :, 0] - wanted).sum(axis=1)
        errors[(found < 0.0).any(axis=1)] = np.inf
        first = int((errors <= errors.min() + 1e-6 * weights.sum()).argmax())
        # More coefficients must tell more; a tenth of a percent is right enough.
        if errors[first] < _WORTH * least - 1e-6 * weights.sum():
            least = float(errors[first])
            known = dict(zip(used, found[first].tolist(), strict=True))
            best = Bend(known.get(0, 0.0), known.get(1, 0.0), known.get(2, 0.0), float(knees[first]))
    return best


class CostTable:
    """Step time in milliseconds by tokens per step, measured and monotone.

    ``observe`` takes measured steps; the table keeps a low quantile of the newest per size. What it predicts lies on a
    line with one bend upwards, fitted to all sizes: a machine reads its weights in a time that tokens do not change
    much and then computes in one that they do. Predictions that followed each size's own noise would draw the budget
    to the sizes that were measured a little too fast (seen: half the steps at 16 in flight had one of four sizes).
    Until two sizes are known, a step of 64 tokens is assumed to take twice as long as an empty one, so that early
    drafts are bounded but not forbidden.
    """

    def __init__(self, points: Sequence[tuple[int, float]] = ()) -> None:
        self._samples: dict[int, deque[float]] = {}
        self._num_new = 0
        self._bend: Bend | None = None
        for num_tokens, step_ms in points:
            self.observe(num_tokens, step_ms)

    def observe(self, num_tokens: int, step_ms: float) -> None:
        """Add one measured step."""
        if num_tokens < 1 or step_ms <= 0.0:
            return
        size = _bin(num_tokens)
        self._samples.setdefault(size, deque(maxlen=_KEPT)).append(step_ms)
        self._num_new += 1

    @property
    def num_sizes(self) -> int:
        return len(self._samples)

    def points(self) -> list[tuple[int, float]]:
        """What was measured as (tokens, milliseconds), ascending in both."""
        sizes, times, weights = self._measured()
        fitted = isotonic(times, weights) if len(sizes) else times
        return [(int(size), float(time)) for size, time in zip(sizes, fitted, strict=True)]

    def step_ms(self, num_tokens: Floats | Sequence[int]) -> Floats:
        """Predicted step time for each number of tokens (1 or more); same shape as ``num_tokens``."""
        wanted = np.asarray(num_tokens, dtype=np.float64)
        if len(self._samples) < 2:
            assumed: Floats = 1.0 + wanted / _EXPECTED_KNEE_TOKENS
            for size, samples in self._samples.items():
                assumed *= _lower_quartile(samples) / (1.0 + size / _EXPECTED_KNEE_TOKENS)
            return assumed
        every = 1 if self._bend is None or len(self._samples) <= _FEW_SIZES else _REFIT_EVERY
        if self._bend is None or self._num_new >= every:
            self._num_new = 0
            self._bend = fit_bend(*self._measured())
        return self._bend.at(wanted)

    def _measured(self) -> tuple[Floats, Floats, Floats]:
        """Sizes, their times, and how often each was measured."""
        sizes = sorted(self._samples)
        times = [_lower_quartile(self._samples[size]) for size in sizes]
        weights = [float(len(self._samples[size])) for size in sizes]
        return np.array(sizes, dtype=np.float64), np.array(times), np.array(weights)


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
