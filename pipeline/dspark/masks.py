"""Grammar bitmasks for drafts: all rows of a request in one native call, requests in parallel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Bitmask = NDArray[np.int32]
"""Shape (rows, ceil(vocabulary / 32)); a set bit is a legal token."""

_MIN_ROWS_PER_THREAD = 48  # below, handing rows to another thread costs more than filling them


class Matcher(Protocol):
    """What is used of ``xgrammar.GrammarMatcher``; none of it changes the matcher's state."""

    def traverse_draft_tree(self, next_token: Any, next_sibling: Any, tokens: Any, bitmask: Any) -> bool: ...

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0) -> bool: ...


@dataclass(frozen=True, slots=True)
class Chain:
    """One request's draft: ``len(token_ids) + 1`` rows from ``first_row`` on.

    ``matcher`` None: every token is legal (the grammar has ended).
    """

    matcher: Matcher | None
    token_ids: Sequence[int]
    first_row: int


class MaskFiller:
    """Fills bitmask rows of many drafts; threads help where there are enough rows (the native call drops the GIL)."""

    def __init__(self, *, max_draft_tokens: int, num_threads: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._num_threads = num_threads if num_threads is not None else max(1, min(cores, 8))
        self._pool: ThreadPoolExecutor | None = None
        # Node i of a chain is followed by i + 1 and has no sibling; views of two arrays serve every length.
        self._nexts = [np.append(np.arange(1, n + 1), -1).astype(np.int64) for n in range(max_draft_tokens + 1)]
        self._no_sibling = np.full(max_draft_tokens + 1, -1, dtype=np.int64)

    def fill(self, chains: Sequence[Chain], bitmask: Bitmask) -> None:
        """Fill the rows of all chains. Rows behind a draft token that ends the output allow every token."""
        num_rows = sum(len(chain.token_ids) + 1 for chain in chains)
        num_threads = min(self._num_threads, num_rows // _MIN_ROWS_PER_THREAD, len(chains))
        if num_threads < 2:
            self._fill(chains, bitmask)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._num_threads - 1, thread_name_prefix="dspark-masks")
        shares = [chains[start::num_threads] for start in range(num_threads)]
        others = [self._pool.submit(self._fill, share, bitmask) for share in shares[1:]]
        self._fill(shares[0], bitmask)
        for other in others:
            other.result()

    def _fill(self, chains: Sequence[Chain], bitmask: Bitmask) -> None:
        for chain in chains:
            length = len(chain.token_ids)
            rows = bitmask[chain.first_row : chain.first_row + length + 1]
            if chain.matcher is None:
                rows[:] = -1
            elif length == 0:
                chain.matcher.fill_next_token_bitmask(bitmask, chain.first_row)
            else:
                tokens = np.array([0, *chain.token_ids], dtype=np.int64)
                chain.matcher.traverse_draft_tree(self._nexts[length], self._no_sibling[: length + 1], tokens, rows)
                if not rows[-1].any():  # the last draft token ends the output: xgrammar then allows nothing
                    rows[-1] = -1

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None


def first_legal_token(matcher: Matcher, vocab_size: int) -> int | None:
    """The smallest legal token id; None where the grammar allows nothing."""
    bitmask: Bitmask = np.full((1, (vocab_size + 31) // 32), 0, dtype=np.int32)
    matcher.fill_next_token_bitmask(bitmask, 0)
    words = np.flatnonzero(bitmask[0])
    if words.size == 0:
        return None
    word = int(bitmask[0, words[0]]) & 0xFFFFFFFF
    return int(words[0]) * 32 + ((word & -word).bit_length() - 1)
