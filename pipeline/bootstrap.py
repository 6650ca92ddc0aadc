"""Bootstrap intervals over documents, for one run and for the difference of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NUM_RESAMPLES = 2000
_CHUNK = 100


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its interval at ``level`` (percentile bootstrap)."""

    value: float
    low: float
    high: float
    level: float = 0.95

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def bootstrap(
    rows: Sequence[Sequence[float]], statistic: Callable[[Any], Any], *, level: float = 0.95, seed: int = 0
) -> Interval:
    """Interval of a statistic of sums over documents.

    ``rows`` holds one row of numbers per document; ``statistic`` takes an array (resamples, columns) of sums and gives
    one value per resample. The same arguments give the same interval. Without documents everything is 0.
    """
    table = np.asarray(rows, dtype=np.float64)
    if table.size == 0:
        return Interval(0.0, 0.0, 0.0, level)
    value = float(statistic(table.sum(axis=0, keepdims=True))[0])
    random = np.random.default_rng(seed)
    num_documents = len(table)
    values = np.empty(NUM_RESAMPLES)
    for at in range(0, NUM_RESAMPLES, _CHUNK):
        weights = random.multinomial(num_documents, np.full(num_documents, 1.0 / num_documents), size=_CHUNK)
        values[at : at + _CHUNK] = statistic(weights @ table)
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(value, float(low), float(high), level)


def f1_of(sums: Any) -> Any:
    """F1 from columns tp, fp, fn."""
    tp, errors = sums[:, 0], sums[:, 1] + sums[:, 2]
    return np.where(tp + errors > 0, 2 * tp / np.maximum(2 * tp + errors, 1e-12), 1.0)


def share_of(sums: Any) -> Any:
    """Column 0 over column 1."""
    return sums[:, 0] / np.maximum(sums[:, 1], 1e-12)
