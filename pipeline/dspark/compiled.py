"""Compiling of inner loops by numba (vLLM brings it), plain Python without it; the table they all look into."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_F = TypeVar("_F", bound=Callable[..., object])
_logger = logging.getLogger(__name__)

BITS = 18
_SHIFT = np.uint64(32 - BITS)
_MULTIPLIER = np.uint64(0x9E3779B1)
LOW = np.uint64(0xFFFFFFFF)

Floats = NDArray[np.float32]
Hashes = NDArray[np.uint32]
Flags = NDArray[np.uint8]
Slots = NDArray[np.int64]


def _hide_library() -> None:
    """vLLM's CPU worker asks every value of every module for its ``__dict__``; llvmlite's library answers with a C
    function of that name, on which the worker fails to start (seen with vLLM 0.32, llvmlite 0.47)."""
    with suppress(ImportError, AttributeError):
        from llvmlite.binding import ffi

        ffi.lib._fntab.setdefault("__dict__", {})


def compiled(function: _F) -> _F:
    try:
        import numba
    except ImportError:
        _logger.warning("numba is missing: drafting is slow")
        return function
    _hide_library()
    try:
        made: _F = numba.njit(cache=True, nogil=True, fastmath=True)(function)
    except RuntimeError:  # no folder to keep compiled code in
        made = numba.njit(nogil=True, fastmath=True)(function)
    return made


@compiled
def at(feature: Any, salt: Any) -> int:
    mixed = ((np.uint64(feature) ^ np.uint64(salt)) * _MULTIPLIER) & LOW
    return int(mixed >> _SHIFT)


@compiled
def step(values: Floats, squares: Floats, index: int, slope: float, rate: float) -> None:
    squares[index] += slope * slope
    values[index] -= rate * slope / math.sqrt(squares[index])
