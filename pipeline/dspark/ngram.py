"""The baseline: prompt lookup of the last tokens, as vLLM's `ngram` method does it."""

from __future__ import annotations

from collections.abc import Sequence


class NgramLookup:
    """Continues the last `shortest`..`longest` tokens from their first earlier occurrence in document and output."""

    def __init__(self, document_ids: Sequence[int], shortest: int = 2, longest: int = 4) -> None:
        self._ids = list(document_ids)
        self._shortest, self._longest = shortest, longest
        self._places: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def observe(self, token_ids: Sequence[int]) -> None:
        """Take output tokens."""
        self._ids.extend(token_ids)

    def propose(self, max_tokens: int) -> list[int]:
        """At most `max_tokens` tokens that followed the longest earlier match."""
        ids, size = self._ids, len(self._ids)
        for end in range(self._indexed, size):
            for length in range(self._shortest, self._longest + 1):
                # An n-gram counts only once something follows it.
                if end - length >= 0:
                    self._places.setdefault(tuple(ids[end - length : end]), end)
        self._indexed = size
        for length in range(min(self._longest, size), self._shortest - 1, -1):
            at = self._places.get(tuple(ids[size - length :]))
            if at is not None:
                return ids[at : at + max_tokens]
        return []
