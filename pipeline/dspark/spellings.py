"""Token ids a model writes where the canonical tokenisation of the same text has others."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dspark.tokens import Tokenizer

_MAX_TOKENS = 4
_MAX_SPELLINGS = 256


class Spellings:
    """Learned replacements of short runs of ids by others with the same bytes; at most 256, the oldest makes room."""

    __slots__ = ("_firsts", "_longest", "_written")

    def __init__(self) -> None:
        self._written: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._longest = 0
        self._firsts: set[int] = set()

    def respell(self, token_ids: list[int]) -> list[int]:
        """The ids as the model writes them."""
        if self._firsts.isdisjoint(token_ids):
            return token_ids
        ids: list[int] = []
        at = 0
        while at < len(token_ids):
            for size in range(min(self._longest, len(token_ids) - at), 0, -1):
                written = self._written.get(tuple(token_ids[at : at + size]))
                if written is not None:
                    ids.extend(written)
                    at += size
                    break
            else:
                ids.append(token_ids[at])
                at += 1
        return ids

    def learn(self, drafted: Sequence[int], written: Sequence[int], tokenizer: Tokenizer) -> None:
        """Compare a draft with what was written in its place: where ids differ and bytes agree, keep the difference."""
        first = 0
        size = min(len(drafted), len(written))
        while first < size and drafted[first] == written[first]:
            first += 1
        if first == size:
            return
        ours, theirs = first + 1, first + 1
        while ours - first <= _MAX_TOKENS and theirs - first <= _MAX_TOKENS:
            a = tokenizer.decode_bytes(drafted[first:ours])
            b = tokenizer.decode_bytes(written[first:theirs])
            if a == b:
                self._keep(tuple(drafted[first:ours]), tuple(written[first:theirs]))
                return
            if a.startswith(b) and theirs < len(written):
                theirs += 1
            elif b.startswith(a) and ours < len(drafted):
                ours += 1
            else:
                return

    def _keep(self, drafted: tuple[int, ...], written: tuple[int, ...]) -> None:
        if self._written.get(written) == drafted:
            # The replacement itself was wrong here.
            del self._written[written]
            self._firsts = {key[0] for key in self._written}
            return
        self._written[drafted] = written
        self._longest = max(self._longest, len(drafted))
        if len(self._written) > _MAX_SPELLINGS:
            del self._written[next(iter(self._written))]
        self._firsts = {key[0] for key in self._written}
