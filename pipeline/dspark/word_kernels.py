"""The inner loop that describes what stands around each word of a document, compiled."""

# ruff: noqa: PLR0917 (compiled code takes arrays by position)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.compiled import LOW, Hashes, compiled

NUM_START_FEATURES = 10
NUM_STOP_FEATURES = 7
_PRIME = np.uint64(0x85EBCA6B)
_TAG = np.uint64(0x27D4EB2F)
_NO_WORD = np.uint64(4)

Offsets = NDArray[np.int64]


@compiled
def _pair(a: int, b: int) -> int:
    return ((np.uint64(a) * _PRIME) & LOW) ^ np.uint64(b)  # type: ignore[return-value]


@compiled
def _mixed(a: int, number: int) -> int:
    """A joined feature, with the number of its kind."""
    return np.uint64(a) ^ (np.uint64(a) >> np.uint64(15)) ^ ((np.uint64(number) * _TAG) & LOW)  # type: ignore[return-value]


@compiled
def _tagged(a: int, number: int) -> int:
    return np.uint64(a) ^ ((np.uint64(number) * _TAG) & LOW)  # type: ignore[return-value]


@compiled
def gap_before(data: NDArray[np.uint8], starts: Offsets, ends: Offsets, word: int) -> int:
    """What separates a word from the one before: 0 nothing, 1 a space, 2 more, 3 a line end, 4 no word."""
    if word < 1 or word >= starts.shape[0]:
        return 4
    for offset in range(ends[word - 1], starts[word]):
        if data[offset] == 10:
            return 3
    return int(min(starts[word] - ends[word - 1], 2))


@compiled
def describe(
    data: NDArray[np.uint8], starts: Offsets, ends: Offsets, hashes: Hashes, shapes: Hashes, begin: Hashes, stop: Hashes
) -> None:
    """Write the features of each word for "a value starts here" (10, N) and "a value stops after it" (7, N).

    `hashes` and `shapes` (N + 5) have two entries before the first word and three behind the last.
    """
    size = starts.shape[0]
    first, named = 0, 0
    gap = 4
    for i in range(size):
        h2, h1, h0, n1, n2 = hashes[i], hashes[i + 1], hashes[i + 2], hashes[i + 3], hashes[i + 4]
        s2, s1, s0, t1, t2 = shapes[i], shapes[i + 1], shapes[i + 2], shapes[i + 3], shapes[i + 4]
        following = gap_before(data, starts, ends, i + 1)
        if gap >= 3:
            first = i
        if (s1 >= 8 and s1 < 32) or s1 == 1:
            named = i
        begin[0, i] = _mixed(_pair(h1, gap), 1)
        begin[1, i] = _mixed(_pair(h2, h1), 2)
        begin[2, i] = _tagged(h0, 3)
        begin[3, i] = _mixed(_pair(_pair(s1, gap), s0), 4)
        begin[4, i] = _mixed(_pair(_pair(_pair(s2, s1), s0), t1), 5)
        begin[5, i] = _mixed(_pair(h0, n1), 6)
        begin[6, i] = _tagged(min(i, 6), 7)
        begin[7, i] = _mixed(_pair(hashes[first + 2], min(i - first, 3)), 8)
        begin[8, i] = _tagged(hashes[named + 1], 9)
        begin[9, i] = _mixed(_pair(min(size - i, 4), s0), 10)
        stop[0, i] = _mixed(_pair(n1, following), 21)
        stop[1, i] = _mixed(_pair(h0, n1), 22)
        stop[2, i] = _mixed(_pair(h0, following), 23)
        stop[3, i] = _mixed(_pair(_pair(s0, following), t1), 24)
        stop[4, i] = _mixed(_pair(n1, n2), 25)
        stop[5, i] = _mixed(_pair(_pair(_pair(s0, following), t1), t2), 26)
        stop[6, i] = _tagged(following, 27)
        gap = following
