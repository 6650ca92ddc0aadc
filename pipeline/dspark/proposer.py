"""The proposer vLLM asks for draft tokens: it has none, because only the scheduler knows the grammar.

Being there makes vLLM reserve draft slots and verify drafts; :mod:`pipeline.dspark.scheduler` fills them.
"""

from __future__ import annotations

from typing import Any

from vllm.config import VllmConfig


class EmptyProposer:
    """Implements the interface of ``speculative_config={"method": "custom_class"}``."""

    def __init__(self, vllm_config: VllmConfig) -> None:
        self._empty: list[int] = []

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """There is no model."""

    def propose(self, sampled_token_ids: list[list[int]], *args: Any, **kwargs: Any) -> list[list[int]]:
        """No draft for any of the ``len(sampled_token_ids)`` requests."""
        return [self._empty] * len(sampled_token_ids)
