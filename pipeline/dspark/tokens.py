"""Text-space drafts as token ids: canonical tokenisation after a tail of output tokens, for any vocabulary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# A tail longer than this no longer changes how the text after it is split.
_TAIL_TOKENS = 2


class Encoding(Protocol):
    """What `tokenizers` returns for one text."""

    @property
    def ids(self) -> list[int]: ...


class HuggingFaceTokenizer(Protocol):
    """The part of `tokenizers.Tokenizer` used here, so that this module imports none of it."""

    def encode(self, sequence: str, *, add_special_tokens: bool) -> Encoding: ...
    def get_vocab(self, with_added_tokens: bool) -> dict[str, int]: ...
    def to_str(self) -> str: ...


class Tokenizer(Protocol):
    """What drafting needs of a tokenizer: ids of a text (no special tokens) and the bytes of ids."""

    def encode(self, text: str) -> list[int]: ...
    def decode_bytes(self, token_ids: Sequence[int]) -> bytes: ...
    def num_bytes(self, token_id: int) -> int: ...
    def encode_after(self, tail_ids: Sequence[int], text: bytes) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A tokenizer with the bytes of each token in a table; `pieces[token_id]` is empty for special tokens."""

    tokenizer: HuggingFaceTokenizer
    pieces: list[bytes]
    sizes: list[int]
    special_ids: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """The ids of `text` as the start of an output, without special tokens or a space put first."""
        ids = self._aligned("\n", text)
        return self._raw(text) if ids is None else ids

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        """The UTF-8 bytes of `token_ids`; special and unknown ids add nothing."""
        pieces, size = self.pieces, len(self.pieces)
        return b"".join([pieces[i] for i in token_ids if i < size])

    def num_bytes(self, token_id: int) -> int:
        """Length in bytes of one token; 0 for special ones."""
        return self.sizes[token_id] if token_id < len(self.sizes) else 0

    def encode_after(self, tail_ids: Sequence[int], text: bytes) -> list[int]:
        """The ids of `text` (UTF-8, may start inside a character) as a continuation of the output tokens `tail_ids`.

        The tail and the text are encoded together, so that what merges across words comes out as a model writes it;
        where the joined ids do not split at the border the text is encoded alone. Undecodable text gives no ids.
        """
        start = max(0, len(tail_ids) - _TAIL_TOKENS)
        tail = self.decode_bytes(tail_ids[start:])
        while start and tail and 0x80 <= tail[0] < 0xC0:
            start -= 1
            tail = self.decode_bytes(tail_ids[start:])
        try:
            joined = (tail + text).decode()
        except UnicodeDecodeError:
            return []
        if tail:
            ids = self._split(self._raw(joined), len(tail), len(tail) + len(text))
            if ids is not None:
                return ids
        try:
            return self.encode(text.decode())
        except UnicodeDecodeError:
            return []

    def _raw(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _aligned(self, tail: str, text: str) -> list[int] | None:
        size = len(tail.encode())
        return self._split(self._raw(tail + text), size, size + len(text.encode()))

    def _split(self, ids: list[int], border: int, total: int) -> list[int] | None:
        """The ids after `border` bytes, or None where no token ends there."""
        known = self.sizes
        sizes = [known[i] for i in ids]
        # A vocabulary that writes a space before the first word makes the whole longer than the text.
        position = total - sum(sizes)
        for index, size in enumerate(sizes):
            if position >= border:
                return ids[index:] if position == border else None
            position += size
        return [] if position == border else None


def build_token_table(tokenizer: HuggingFaceTokenizer) -> TokenTable:
    """The table for a `tokenizers.Tokenizer`: byte-level BPE, or SentencePiece with byte fallback."""
    described = json.loads(tokenizer.to_str())
    special = frozenset(t["id"] for t in described.get("added_tokens", ()) if t.get("special"))
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    pieces = [b""] * (max(vocabulary.values(), default=-1) + 1)
    added = {t["id"]: t["content"] for t in described.get("added_tokens", ())}
    byte_level = _is_byte_level(described)
    for token, token_id in vocabulary.items():
        if token_id in special:
            continue
        if token_id in added:
            pieces[token_id] = added[token_id].encode()
        else:
            pieces[token_id] = _byte_level_piece(token) if byte_level else _sentence_piece(token)
    return TokenTable(tokenizer, pieces, [len(p) for p in pieces], special)


def _is_byte_level(described: dict[str, object]) -> bool:
    return '"ByteLevel"' in json.dumps([described.get("pre_tokenizer"), described.get("decoder")])


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-in of each byte in byte-level BPE vocabularies (GPT-2's mapping)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(0x100) if b not in set(shown)]
    return {chr(b): b for b in shown} | {chr(0x100 + i): b for i, b in enumerate(hidden)}


_ALPHABET = _byte_alphabet()


def _byte_level_piece(token: str) -> bytes:
    if all(c in _ALPHABET for c in token):
        return bytes(_ALPHABET[c] for c in token)
    return token.encode()


def _sentence_piece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()
