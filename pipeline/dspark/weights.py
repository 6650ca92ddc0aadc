"""One hashed table of online log-linear weights, of fixed size, shared by all decisions of an engine."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Hashes = NDArray[np.uint32]
Indices = NDArray[np.int64]

_BITS = 18
_SHIFT = np.uint32(32 - _BITS)
_MULTIPLIER = np.uint32(0x9E3779B1)


def salt_of(text: bytes, start: int = 0) -> int:
    """A stable 32-bit hash of bytes (Python's own changes from process to process)."""
    return zlib.crc32(text, start)


def mix(a: int, b: int) -> int:
    """A stable 32-bit hash of two integers."""
    return hash((a, b)) & 0xFFFFFFFF


class Weights:
    """2**18 weights with AdaGrad's sums of squares: 2 MiB whatever is learned. Collisions are left to the learning."""

    __slots__ = ("squares", "values")

    def __init__(self) -> None:
        self.values: Floats = np.zeros(1 << _BITS, dtype=np.float32)
        self.squares: Floats = np.full(1 << _BITS, 1e-6, dtype=np.float32)

    @staticmethod
    def index(features: Hashes, salt: int) -> Indices:
        """Table positions of feature hashes (any shape, uint32) under one decision's salt."""
        mixed = features ^ np.uint32(salt)
        mixed *= _MULTIPLIER
        mixed >>= _SHIFT
        return mixed.astype(np.int64)

    @staticmethod
    def index_one(salt: int) -> int:
        """Table position of a feature that is already one hash."""
        return ((salt * 0x9E3779B1) & 0xFFFFFFFF) >> (32 - _BITS)

    def step(self, index: Indices, gradient: Floats | np.float32, rate: float) -> None:
        """One AdaGrad step; `gradient` has the shape of `index` or broadcasts to it; of equal positions the last counts."""
        squares = self.squares.take(index)
        squares += gradient * gradient
        self.squares[index] = squares
        self.values[index] -= rate * gradient / np.sqrt(squares)
