"""One hashed table of online log-linear weights, of fixed size, shared by all decisions of an engine."""

from __future__ import annotations

import zlib

import numpy as np

from pipeline.dspark.compiled import BITS, Floats, Hashes
from pipeline.dspark.kernels import warm_up

__all__ = ["Floats", "Hashes", "Weights", "mix", "salt_of"]


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
        warm_up()
        self.values: Floats = np.zeros(1 << BITS, dtype=np.float32)
        self.squares: Floats = np.full(1 << BITS, 1e-6, dtype=np.float32)
