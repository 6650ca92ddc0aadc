"""Text-space drafts as token ids: canonical tokenisation after a tail of output tokens, for any vocabulary."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

# A tail longer than this no longer changes how the text after it is split.
_TAIL_TOKENS = 2
# Stretches that tokenizers split without regard to what stands around them, so that their ids can be kept: words with
# the space before them, and what stands between words. Several spaces stay with what follows: some vocabularies have
# tokens of spaces alone, others put the last one to the word.
_FINE = re.compile(
    rb' ?[^ "]*[A-Za-z0-9\x80-\xff]|[^A-Za-z0-9\x80-\xff]+?(?<!\s)(?= ?[A-Za-z0-9\x80-\xff])|'
    rb'[^A-Za-z0-9\x80-\xff]+(?:[^ "]*[A-Za-z0-9\x80-\xff])?'
)
# Where the vocabulary has tokens with letters and quotes in one, or even several words, fewer borders are sure.
_COARSE = re.compile(rb" ?[^ ]+(?:(?<=\n) +[^ ]+)*| +[^ ]*")
_CROSSES_QUOTES = re.compile(rb'."[A-Za-z0-9]|[A-Za-z0-9]"')
_WHOLE, _CROSSES_SPACES = re.compile(rb"(?s).+"), re.compile(rb"[A-Za-z0-9] [A-Za-z0-9]")
_NO_BORDER = frozenset({b"", b" ", b"\n", b"\t", b"\r"})
_WORD_BYTES = frozenset(bytes([b]) for b in range(256) if b >= 0x80 or chr(b).isalnum())
_MAX_KNOWN = 50_000
_MAX_PIECE_BYTES = 64


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
    def pieces_of(self, token_ids: Sequence[int]) -> list[bytes]: ...
    def encode_after(self, tail_ids: Sequence[int], text: bytes) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A tokenizer with the bytes of each token in a table; `pieces[token_id]` is empty for special tokens.

    Keeps the ids of at most 50,000 short pieces of text (some 20 MiB): encoding a draft anew costs more than all else.
    """

    tokenizer: HuggingFaceTokenizer
    pieces: list[bytes]
    sizes: list[int]
    special_ids: frozenset[int]
    _known: dict[bytes, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _piece: re.Pattern[bytes] = field(default=_WHOLE, init=False, repr=False, compare=False)

    _as_it_is: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A vocabulary that puts no space first needs no text before a text.
        object.__setattr__(self, "_as_it_is", self.decode_bytes(self._raw("a")) == b"a")
        vocabulary = b"\n".join(self.pieces)
        if not _CROSSES_SPACES.search(vocabulary):
            object.__setattr__(self, "_piece", _COARSE if _CROSSES_QUOTES.search(vocabulary) else _FINE)

    def encode(self, text: str) -> list[int]:
        """The ids of `text` as the start of an output, without special tokens or a space put first."""
        if self._as_it_is:
            return self._raw(text)
        ids = self._aligned("\n", text)
        return self._raw(text) if ids is None else ids

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        """The UTF-8 bytes of `token_ids`; special and unknown ids add nothing."""
        pieces, size = self.pieces, len(self.pieces)
        return b"".join([pieces[i] for i in token_ids if i < size])

    def num_bytes(self, token_id: int) -> int:
        """Length in bytes of one token; 0 for special ones."""
        return self.sizes[token_id] if token_id < len(self.sizes) else 0

    def pieces_of(self, token_ids: Sequence[int]) -> list[bytes]:
        """The bytes of each of some tokens of the vocabulary."""
        pieces = self.pieces
        return [pieces[i] for i in token_ids]

    def encode_after(self, tail_ids: Sequence[int], text: bytes) -> list[int]:
        """The ids of `text` (UTF-8, may start inside a character) as a continuation of the output tokens `tail_ids`.

        The tail and the text are encoded together, so that what merges across words comes out as a model writes it;
        where the joined ids do not split at the border the text is encoded alone. Undecodable text gives no ids.
        """
        if tail_ids and text and self._is_border(self.pieces[tail_ids[-1]][-1:], text[:1]):
            return self._encode_alone(text)
        start = max(0, len(tail_ids) - _TAIL_TOKENS)
        tail = self.decode_bytes(tail_ids[start:])
        while start and tail and 0x80 <= tail[0] < 0xC0:
            start -= 1
            tail = self.decode_bytes(tail_ids[start:])
        try:
            if tail:
                ids = self._continued(tail, text)
                if ids is not None:
                    return ids
        except UnicodeDecodeError:
            return []
        return self._encode_alone(text)

    def _is_border(self, last: bytes, first: bytes) -> bool:
        """Whether a token surely ends between these two bytes, so that what stands before does not matter."""
        if first == b" ":
            return last not in _NO_BORDER and self._piece is not _WHOLE
        if self._piece is not _FINE:
            return False
        return (first == b'"' and last in _WORD_BYTES) or (last == b'"' and first in _WORD_BYTES)

    def _encode_alone(self, text: bytes) -> list[int]:
        try:
            return self._encode_pieces(self._piece.findall(text))
        except UnicodeDecodeError:
            return []

    def _continued(self, tail: bytes, text: bytes) -> list[int] | None:
        """The ids of `text` after `tail`, or None where a token goes over the border."""
        border, position = len(tail), 0
        pieces: list[bytes] = self._piece.findall(tail + text)
        for index, piece in enumerate(pieces):
            if position == border:
                return self._encode_pieces(pieces[index:])
            position += len(piece)
            if position > border:
                inside = border - position + len(piece)
                ids = self._split(self._encode_pieces(pieces[index : index + 1]), inside, len(piece))
                return None if ids is None else ids + self._encode_pieces(pieces[index + 1 :])
        return []

    def _encode_pieces(self, pieces: list[bytes]) -> list[int]:
        """The ids of pieces that follow each other; neighbours not met before are encoded together."""
        known, ids, missing = self._known, [], []
        for piece in pieces:
            found = known.get(piece)
            if found is None:
                missing.append(piece)
                continue
            if missing:
                ids += self._encode_missing(missing)
                missing = []
            ids += found
        return ids + self._encode_missing(missing) if missing else ids

    def _encode_missing(self, pieces: list[bytes]) -> list[int]:
        ids = self.encode(b"".join(pieces).decode())
        known, sizes, at, position, end = self._known, self.sizes, 0, 0, 0
        if len(known) > _MAX_KNOWN:
            known.clear()
        for piece in pieces:
            end += len(piece)
            first = at
            while position < end and at < len(ids):
                position += sizes[ids[at]]
                at += 1
            if position != end:  # a token goes over the end of the piece: it has no ids of its own here
                break
            if len(piece) <= _MAX_PIECE_BYTES:
                known[piece] = ids[first:at]
        return ids

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
