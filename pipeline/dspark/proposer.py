"""The proposer vLLM asks for draft tokens: it has none, because only the scheduler knows the grammar.

Being there makes vLLM reserve draft slots and verify drafts; :mod:`pipeline.dspark.scheduler` fills them.

Dated note (2026-11): on the CPU, vLLM 0.32 verifies drafts of requests with a temperature by whatever stands in memory
in the temperature's place (vllm-project/vllm#55005): next to nothing is accepted, and outputs are not distributed as
they should be. The proposer is made where drafts are verified, so it mends that first.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.v1.sample import rejection_sampler

logger = logging.getLogger(__name__)


class EmptyProposer:
    """Implements the interface of ``speculative_config={"method": "custom_class"}``."""

    def __init__(self, vllm_config: VllmConfig) -> None:
        self._empty: list[int] = []
        if vllm_config.device_config.device_type == "cpu":
            mend_sampling()

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """There is no model."""

    def propose(self, sampled_token_ids: list[list[int]], *args: Any, **kwargs: Any) -> list[list[int]]:
        """No draft for any of the ``len(sampled_token_ids)`` requests."""
        return [self._empty] * len(sampled_token_ids)


def mend_sampling() -> None:
    """Replace vLLM's spreading of sampling settings over draft tokens in this process, where it does not work."""
    if not spreads_settings():
        rejection_sampler.expand_batch_to_tokens = spread
        logger.debug("vLLM's expand_batch_to_tokens writes nothing here and is replaced")


def spreads_settings() -> bool:
    """Whether ``expand_batch_to_tokens`` gives each draft token the setting of its request."""
    settings, ends = torch.tensor([0.25, 0.0]), torch.tensor([2, 3], dtype=torch.int32)
    try:
        found = rejection_sampler.expand_batch_to_tokens(settings, ends, 3, replace_from=0, replace_to=1)
    except (TypeError, RuntimeError):  # a kernel that cannot run here
        return False
    return bool(torch.equal(found, torch.tensor([0.25, 0.25, 1.0])))


def spread(
    x: torch.Tensor, cu_num_tokens: torch.Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> torch.Tensor:
    """``x[i]`` for each draft token of request i, ``replace_to`` where it is ``replace_from``; ``[num_tokens]``.

    ``cu_num_tokens[i]`` is how many draft tokens the requests up to i have together; names and order are vLLM's.
    """
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    return torch.repeat_interleave(x.masked_fill(x == replace_from, replace_to), counts, output_size=num_tokens)
