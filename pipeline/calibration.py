"""Calibration: does a confidence of 0.8 mean that eight in ten such values are right?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NUM_BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Values whose confidence lies in ``[low, high)`` (the last bin includes 1)."""

    low: float
    high: float
    count: int
    mean_confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Reliability curve (empty bins left out) with the expected calibration error and the Brier score.

    ``ece`` is the mean distance of accuracy and confidence over the bins, weighted by their counts.
    """

    bins: tuple[Bin, ...]
    num_values: int
    ece: float
    brier: float


def calibrate(pairs: Iterable[tuple[float, bool]], *, num_bins: int = NUM_BINS) -> Calibration:
    """Calibration of (confidence, is right) pairs; confidences are in [0, 1]."""
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(num_bins)]
    for confidence, is_right in pairs:
        groups[min(num_bins - 1, int(confidence * num_bins))].append((confidence, is_right))
    bins = []
    for index, group in enumerate(groups):
        if group:
            mean = sum(confidence for confidence, _ in group) / len(group)
            accuracy = sum(is_right for _, is_right in group) / len(group)
            bins.append(Bin(index / num_bins, (index + 1) / num_bins, len(group), mean, accuracy))
    num_values = sum(bin_.count for bin_ in bins)
    ece = sum(bin_.count * abs(bin_.accuracy - bin_.mean_confidence) for bin_ in bins) / max(1, num_values)
    brier = sum((c - r) ** 2 for group in groups for c, r in group) / max(1, num_values)
    return Calibration(tuple(bins), num_values, ece, brier)
