"""One hashed table of online log-linear weights, of fixed size, shared by all decisions of an engine."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Hashes = NDArray[np.uint32]
Indices = NDArray[np.int64]

_BITS = 19
_SHIFT = np.uint32(32 - _BITS)
_MULTIPLIER = np.uint32(0x9E3779B1)


def salt_of(*parts: bytes) -> int:
    """A stable 32-bit hash of byte strings (Python's own changes from process to process)."""
    value = 0
    for part in parts:
        value = zlib.crc32(part, zlib.crc32(b"\x1f", value))
    return value


def mix(salt: int, other: int) -> int:
    """A stable 32-bit hash of two."""
    value = ((salt ^ (other * 0x85EBCA6B)) * 0xC2B2AE35) & 0xFFFFFFFF
    return value ^ (value >> 15)


class Weights:
    """2**19 weights with AdaGrad's sums of squares: 4 MiB whatever is learned. Collisions are left to the learning."""

    __slots__ = ("squares", "values")

    def __init__(self) -> None:
        self.values: Floats = np.zeros(1 << _BITS, dtype=np.float32)
        self.squares: Floats = np.full(1 << _BITS, 1e-6, dtype=np.float32)

    @staticmethod
    def index(features: Hashes, salt: int) -> Indices:
        """Table positions of feature hashes (any shape, uint32) under one decision's salt."""
        return (((features ^ np.uint32(salt)) * _MULTIPLIER) >> _SHIFT).astype(np.int64)

    @staticmethod
    def index_one(salt: int) -> int:
        """Table position of a feature that is already one hash."""
        return ((salt * 0x9E3779B1) & 0xFFFFFFFF) >> (32 - _BITS)

    def step(self, index: Indices, gradient: Floats, rate: float) -> None:
        """One AdaGrad step; `gradient` has the shape of `index` or broadcasts to it."""
        squares = self.squares[index] + gradient * gradient
        self.squares[index] = squares
        self.values[index] -= rate * gradient / np.sqrt(squares)
