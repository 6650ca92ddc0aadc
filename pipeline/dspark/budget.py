"""The draft budget: which draft tokens of which requests are verified in a step.

Confidence-scheduled verification after DeepSeek's DSpark (DeepSpec, arXiv 2607.05147): a draft token is worth its
survival probability times what a token costs otherwise, and costs what the step gets longer by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pipeline.dspark.costs import CostTable, Floats

_MIN_SURVIVAL = 0.02  # a surer loss than the cost table is precise


@dataclass(frozen=True, slots=True)
class Admission:
    """Verification length of each request, and what the step is expected to bring."""

    num_tokens: list[int]
    expected_tokens: float
    expected_ms: float


class Budget:
    """Chooses verification lengths so that expected tokens per millisecond are highest.

    ``costs`` are those of steps that only decode, ``mixed_costs`` of steps that also read prompts (None: the same).
    ``max_token_budget`` bounds the draft tokens of one step over all requests.
    """

    def __init__(self, costs: CostTable, mixed_costs: CostTable | None = None, *, max_token_budget: int) -> None:
        self._costs = costs
        self._mixed_costs = costs if mixed_costs is None else mixed_costs
        self._max_token_budget = max_token_budget

    def admit(self, survivals: Sequence[ArrayLike], *, num_plain: int = 0, num_prefill: int = 0) -> Admission:
        """Admit a prefix of each draft.

        ``survivals[i]`` holds the survival probabilities of request i's draft tokens (made non-increasing here).
        ``num_plain`` further requests decode one token without a draft; ``num_prefill`` prompt tokens share the step:
        they make it longer but are no reason to draft more, so a draft token's worth comes from a decode step alone.
        What it costs there is what it costs in either kind of step, whichever is more: prompt tokens can be cheaper
        than verified ones (no sampling, little context) and can fill a step that had room.
        """
        num_requests = len(survivals) + num_plain
        rows = [np.asarray(row, dtype=np.float64) for row in survivals]
        lengths = [row.size for row in rows]
        total = sum(lengths)
        if total == 0:
            return Admission([0] * len(survivals), float(num_requests), 0.0)
        values = np.concatenate([np.minimum.accumulate(row) for row in rows])
        owners = np.repeat(np.arange(len(survivals)), lengths)
        order = np.argsort(-values, kind="stable")
        worthwhile = int(np.searchsorted(-values[order], -_MIN_SURVIVAL, side="right"))
        order = order[: min(worthwhile, self._max_token_budget)]
        # expected[n], decode_ms[n], step_ms[n]: with the n surest draft tokens admitted
        expected: Floats = num_requests + np.concatenate([[0.0], np.cumsum(values[order])])
        counts = np.arange(order.size + 1, dtype=np.float64)
        # A server under load may read prompts in each of its first steps.
        costs = self._costs if self._costs.num_sizes or not num_prefill else self._mixed_costs
        decode_ms = costs.step_ms(num_requests + counts)
        per_token = decode_ms / expected
        best = int(per_token.argmin())
        step_ms = decode_ms
        if num_prefill:
            step_ms = self._mixed_costs.step_ms(num_prefill + num_requests + counts)
            added_ms = np.maximum(step_ms - step_ms[0], decode_ms - decode_ms[0])
            best = int((per_token[best] * expected - added_ms).argmax())
        admitted = np.bincount(owners[order[:best]], minlength=len(survivals))
        return Admission(admitted.tolist(), float(expected[best]), float(step_ms[best]))
