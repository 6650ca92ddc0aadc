"""How long a step takes by what is in it, fitted to recorded steps: for simulating the machine they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Load(NamedTuple):
    """What a step has to do: tokens in it, how many of them are sampled (prompt tokens are not), requests, the sum of
    their context lengths in tokens, and the sum over requests of tokens in the step times context."""

    num_tokens: int
    num_sampled: int
    num_requests: int
    context: int
    products: int

    @classmethod
    def of(cls, parts: Iterable[tuple[int, int, bool]]) -> Load:
        """``parts``: (tokens in the step, context before it, whether it decodes) of each request."""
        tokens = sampled = requests = context = products = 0
        for num_tokens, before, decodes in parts:
            tokens += num_tokens
            sampled += num_tokens if decodes else 1
            requests += 1
            context += before
            products += num_tokens * (before + num_tokens // 2)
        return cls(tokens, sampled, requests, context, products)


class StepModel:
    """A sum of costs, none negative: fixed, per token, per sampled token, per context token, per token and context, and
    for all beyond the first token (on a CPU a matrix product takes another way than a vector's)."""

    def __init__(self, costs_ms: Floats) -> None:
        self._costs_ms = costs_ms

    @classmethod
    def fit(cls, steps: Sequence[tuple[Load, float]]) -> StepModel:
        """Least squares over (load, milliseconds); the sum of all predictions is the sum of all times.

        Raises:
            ValueError: no steps.
        """
        if not steps:
            raise ValueError("no steps to fit")
        rows = np.array([_features(load) for load, _ in steps])
        times = np.array([step_ms for _, step_ms in steps])
        used = np.flatnonzero(rows.any(axis=0))
        costs = np.zeros(rows.shape[1])
        while used.size:
            scale = rows[:, used].max(axis=0)
            found = np.linalg.lstsq(rows[:, used] / scale, times, rcond=None)[0] / scale
            if (found >= 0).all():
                costs[used] = found
                break
            used = np.delete(used, int(np.argmin(found * scale)))
        total = float((rows @ costs).sum())
        return cls(costs * (float(times.sum()) / total) if total > 0 else costs)

    def step_ms(self, load: Load) -> float:
        """Predicted milliseconds of one step."""
        return float(np.array(_features(load)) @ self._costs_ms)


def _features(load: Load) -> tuple[float, ...]:
    return (
        1.0,
        float(load.num_tokens > 1),
        float(load.num_tokens),
        float(load.num_sampled),
        float(load.context),
        float(load.products),
    )
