"""A document as words with features: where values start, where they stop, where a text occurs."""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left
from functools import cached_property
from itertools import islice

import numpy as np

from pipeline.dspark.weights import Hashes
from pipeline.dspark.word_kernels import NUM_START_FEATURES, NUM_STOP_FEATURES, Offsets, describe

_IDEOGRAPHS = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d"
_WORD = re.compile(rf"([{_IDEOGRAPHS}])|(\d+)|([^\W\d_{_IDEOGRAPHS}]+)|([^\s])")
_ESCAPED = re.compile(rb'[\x00-\x08\x0b\x0c\x0e-\x1f"\\]')
# Longer documents are indexed this far; the rest is still found by its text.
MAX_WORDS = 20_000
_MAX_BAG = 48


def words_of(text: str) -> list[str]:
    """The words of a text: runs of letters, runs of digits, single ideographs, single signs."""
    return [m.group() for m in _WORD.finditer(text)]


# Words come back from document to document: their hash and shape are kept, at most this many.
_MAX_KNOWN = 50_000
_known: dict[str, tuple[int, int]] = {}


def _look(word: str, group: int) -> tuple[int, int]:
    """(hash with case and digits folded, a small class of kind, case and length) of a word."""
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    folded = "0" * len(word) if group == 2 else word.lower()
    found = _known[word] = (zlib.crc32(folded.encode("utf-8", "surrogatepass")), _shape(word, group))
    return found


def hash_of_first_word(text: bytes) -> int:
    """The hash of the first word of a UTF-8 text as documents have it; 0 without words."""
    m = _WORD.search(text.decode("utf-8", "replace"))
    return 0 if m is None else (_known.get(m[0]) or _look(m[0], m.lastindex or 4))[0]


def _shape(word: str, group: int) -> int:
    if group == 3:
        size = min(len(word), 4)
        if word.islower():
            return 8 + size
        return (16 if word[0].isupper() and not word.isupper() else 24) + size
    if group == 2:
        return 32 + min(len(word), 8)
    return 1 if group == 1 else 48 + (zlib.crc32(word.encode("utf-8", "surrogatepass")) & 0xFF)


class Document:
    """Words of one text with their byte offsets in `data` (UTF-8); N words, features hashed to uint32."""

    def __init__(self, text: str) -> None:
        self.data = text.encode("utf-8", "surrogatepass")
        hashes: list[int] = [0, 0]
        shapes: list[int] = [0, 0]
        spans: list[tuple[int, int]] = []
        words: list[str] = []
        get = _known.get
        for m in islice(_WORD.finditer(text), MAX_WORDS):
            word = m[0]
            known = get(word) or _look(word, m.lastindex or 4)
            words.append(word)
            hashes.append(known[0])
            shapes.append(known[1])
            spans.append(m.span())
        self.words = words
        self.num_words = len(words)
        self.char_starts = [start for start, _ in spans]
        bounds = np.array(spans, dtype=np.int64).reshape(-1, 2)
        self.bytes = np.frombuffer(self.data, dtype=np.uint8)
        if len(self.data) != len(text):
            char_starts = np.append(np.flatnonzero((self.bytes & 0xC0) != 0x80), len(self.data))
            bounds = char_starts[bounds]
        self.starts: Offsets = bounds[:, 0]
        self.ends: Offsets = bounds[:, 1]
        self.start_list: list[int] = self.starts.tolist()
        self.end_list: list[int] = self.ends.tolist()
        self.hash_list = hashes
        self.hashes = np.array([*hashes, 0, 0, 0], dtype=np.uint32)
        self._shapes = np.array([*shapes, 0, 0, 0], dtype=np.uint32)

    def __len__(self) -> int:
        return self.num_words

    @cached_property
    def _features(self) -> tuple[Hashes, Hashes]:
        start = np.empty((NUM_START_FEATURES, self.num_words), dtype=np.uint32)
        stop = np.empty((NUM_STOP_FEATURES, self.num_words), dtype=np.uint32)
        describe(self.bytes, self.starts, self.ends, self.hashes, self._shapes, start, stop)
        return start, stop

    @cached_property
    def start_features(self) -> Hashes:
        """(10, N): what stands left and right of each word, for "a value starts here"."""
        return self._features[0]

    @cached_property
    def stop_features(self) -> Hashes:
        """(7, N): what stands left and right of the end of each word, for "a value stops after it"."""
        return self._features[1]

    @cached_property
    def bag(self) -> Hashes:
        """Hashes of at most 48 different words, the first and last ones marked: what the document is about."""
        n = self.num_words
        body = list(dict.fromkeys(self.hash_list[2:]))
        if len(body) > _MAX_BAG:
            body = body[: _MAX_BAG // 2] + body[-_MAX_BAG // 2 :]
        marks = [self.hash_list[i + 2] ^ 0x5BD1E995 * (i + 1) & 0xFFFFFFFF for i in range(min(2, n))]
        marks += [self.hash_list[n + 1 - i] ^ 0x1B873593 * (i + 1) & 0xFFFFFFFF for i in range(min(2, n))]
        return np.array([*body, *marks], dtype=np.uint32)

    @cached_property
    def hash_set(self) -> frozenset[int]:
        return frozenset(self.hash_list)

    @cached_property
    def lowered(self) -> bytes:
        return self.data.lower()

    def word_at(self, offset: int) -> int:
        """Index of the word that starts at byte `offset`; -1 where none does."""
        index = bisect_left(self.start_list, offset)
        return index if index < self.num_words and self.start_list[index] == offset else -1

    def word_at_char(self, offset: int) -> int:
        """Index of the word that starts at character `offset`; -1 where none does."""
        index = bisect_left(self.char_starts, offset)
        return index if index < self.num_words and self.char_starts[index] == offset else -1

    def positions(self, word: str) -> list[int]:
        """Where the word stands, in any case; digits are all the same."""
        folded = "0" * len(word) if word.isdigit() else word.lower()
        wanted = zlib.crc32(folded.encode("utf-8", "surrogatepass"))
        found: list[int] = np.flatnonzero(self.hashes[2 : self.num_words + 2] == wanted).tolist()
        return found

    @cached_property
    def has_signs(self) -> bool:
        """Whether a word may need escaping inside a JSON string."""
        return _ESCAPED.search(self.data) is not None

    def gap(self, index: int) -> bytes:
        """The text between word `index` and the next."""
        if index + 1 >= self.num_words:
            return b""
        return self.data[self.end_list[index] : self.start_list[index + 1]]

    def occurrences(self, text: bytes, limit: int) -> list[int]:
        """Word indices where `text` stands from a word's start on, at most `limit`."""
        found: list[int] = []
        data = self.data
        at = data.find(text)
        while at >= 0 and len(found) < limit:
            index = self.word_at(at)
            if index >= 0:
                found.append(index)
            at = data.find(text, at + 1)
        return found
