"""An engine made to write the gold records: decoding as with a model that makes no mistake, timed for real.

How far drafts come true depends on how well a model extracts, and small models invent values. Here the mask of each
position leaves one token, the gold record's next, whatever is drafted and whoever drafts. All else is the engine's
own: prompts, forward passes, the schema's grammar and its masks, drafts, their verification, batching. Drafters are
told nothing; they see the document, the schema's grammar, and what has been written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.forced_share import byte_matcher

Bitmask = NDArray[np.int32]


class GoldMasks:
    """vLLM's ``StructuredOutputManager`` whose masks leave only ``gold[request id]``'s next token.

    ``gold`` holds token ids, the end token last; a request that it does not name is left alone. vLLM appends ``-`` and
    a suffix to request ids.
    """

    def __init__(self, manager: Any, gold: Mapping[str, Sequence[int]]) -> None:
        self._manager = manager
        self._gold = gold

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def grammar_bitmask(
        self, requests: Mapping[str, Any], request_ids: list[str], drafts: Mapping[str, list[int]]
    ) -> Bitmask | None:
        """Rows for each request in order: one per draft token and one more; None without requests."""
        bitmask: Bitmask | None = self._manager.grammar_bitmask(requests, request_ids, drafts)
        if bitmask is None:
            return None
        first = 0
        for request_id in request_ids:
            num_rows = 1 + len(drafts.get(request_id, ()))
            gold = self._gold.get(request_id) or self._gold.get(request_id.rpartition("-")[0])
            if gold is not None:
                written = len(requests[request_id].output_token_ids)
                _leave(bitmask[first : first + num_rows], gold, written)
            first += num_rows
        return bitmask


def _leave(rows: Bitmask, gold: Sequence[int], at: int) -> None:
    """Row i allows the token ``gold[at + i]`` and no other; behind the end only the last."""
    rows[:] = 0
    for index in range(len(rows)):
        token = gold[min(at + index, len(gold) - 1)]
        # The bit of 31 is the sign of an int32.
        rows[index, token // 32] = np.uint32(1 << token % 32).astype(np.int32)


def make_write(engine: Any, gold: Mapping[str, Sequence[int]]) -> None:
    """Narrow the masks of an ``LLMEngine`` in this process to ``gold``, which may be filled later."""
    scheduler = engine.engine_core.engine_core.scheduler
    scheduler.structured_output_manager = GoldMasks(scheduler.structured_output_manager, gold)


def is_legal(grammar: str, text: str) -> bool:
    """Whether the grammar (EBNF) accepts the whole text."""
    matcher = byte_matcher(grammar)
    return bool(matcher.accept_string(text)) and bool(matcher.is_terminated())
