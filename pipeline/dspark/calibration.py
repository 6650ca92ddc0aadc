"""How far the drafters' survival probabilities can be trusted, learned from what was verified."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pipeline.dspark.costs import Floats, isotonic

_NUM_BINS = 20
_PRIOR = 12.0  # pseudo verifications per bin that say "the drafters are right"
_MEMORY = 4000.0  # verifications per bin after which older ones fade


class Calibration:
    """Maps a promised survival probability to the observed one, monotone, by bins of equal width."""

    def __init__(self) -> None:
        centres = (np.arange(_NUM_BINS) + 0.5) / _NUM_BINS
        self._promised: Floats = centres * _PRIOR
        self._survived: Floats = centres * _PRIOR
        self._verified: Floats = np.full(_NUM_BINS, _PRIOR)
        self._factors: Floats = np.ones(_NUM_BINS)
        self._num_pending = 0

    def observe(self, survivals: Sequence[float], num_accepted: int) -> None:
        """``survivals`` of the verified draft tokens of one request, the first ``num_accepted`` of which survived."""
        for position, promised in enumerate(survivals):
            bin_ = min(int(promised * _NUM_BINS), _NUM_BINS - 1)
            self._promised[bin_] += promised
            self._verified[bin_] += 1.0
            self._survived[bin_] += position < num_accepted
        self._num_pending += len(survivals)
        if self._num_pending >= 64:
            self._refit()

    def corrected(self, survivals: ArrayLike) -> Floats:
        """Observed survival for each promised one; same length, within [0, 1]."""
        promised = np.asarray(survivals, dtype=np.float64)
        bins = np.minimum((promised * _NUM_BINS).astype(np.int64), _NUM_BINS - 1)
        corrected: Floats = np.minimum(promised * self._factors[bins], 1.0)
        return corrected

    def _refit(self) -> None:
        self._num_pending = 0
        rates = isotonic(self._survived / self._verified, self._verified)
        self._factors = rates * self._verified / self._promised
        fading = self._verified > _MEMORY
        for sums in (self._promised, self._survived, self._verified):
            sums[fading] *= 0.5
