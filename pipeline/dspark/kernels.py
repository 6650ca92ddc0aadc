"""The inner loops of the log-linear models, compiled by numba (vLLM brings it), plain Python without it.

Every table position is `(feature ^ salt) * multiplier`, its high bits. All arrays are updated in place.
"""

# ruff: noqa: PLR0917 (compiled code takes arrays by position)
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
_LOW = np.uint64(0xFFFFFFFF)

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


def _compiled(function: _F) -> _F:
    try:
        import numba
    except ImportError:
        _logger.warning("numba is missing: drafting is slow")
        return function
    _hide_library()
    try:
        compiled: _F = numba.njit(cache=True, nogil=True, fastmath=True)(function)
    except RuntimeError:  # no folder to keep compiled code in
        compiled = numba.njit(nogil=True, fastmath=True)(function)
    return compiled


@_compiled
def _at(feature: Any, salt: Any) -> int:
    mixed = ((np.uint64(feature) ^ np.uint64(salt)) * _MULTIPLIER) & _LOW
    return int(mixed >> _SHIFT)


@_compiled
def _step(values: Floats, squares: Floats, at: int, slope: float, rate: float) -> None:
    squares[at] += slope * slope
    values[at] -= rate * slope / math.sqrt(squares[at])


@_compiled
def sum_features(values: Floats, features: Hashes, salt: int, out: Floats) -> None:
    """Add to `out` the weights of each column of `features` (features, words)."""
    for row in range(features.shape[0]):
        for column in range(features.shape[1]):
            out[column] += values[_at(features[row, column], salt)]


@_compiled
def fill_row(
    values: Floats, features: Hashes, salts: Hashes, slot: int, scores: Floats, ahead: Floats, ready: Flags
) -> None:
    """Start scores of all words for the path in one slot, and the best from each word on (-8 behind the last)."""
    size = features.shape[1]
    for column in range(size):
        scores[slot, column] = 0.0
    sum_features(values, features, salts[slot], scores[slot])
    ahead[slot, size] = -8.0
    best = -1e30
    for column in range(size - 1, -1, -1):
        best = max(best, scores[slot, column])
        ahead[slot, column] = best
    ready[slot] = 1


@_compiled
def facts_ahead(
    values: Floats, features: Hashes, salts: Hashes, slots: Slots, scores: Floats, ahead: Floats, ready: Flags,
    end: int, out: Hashes,
) -> None:  # fmt: skip
    """For each path in `slots` two hashes of the class of its best start score from word `end` on."""
    for k in range(slots.shape[0]):
        slot = slots[k]
        if slot < 0 or slot >= ready.shape[0]:
            continue
        if ready[slot] == 0:
            fill_row(values, features, salts, slot, scores, ahead, ready)
        level = math.floor(min(8.0, max(-8.0, ahead[slot, end])) + 0.5) + 8
        out[k, 0] = np.uint32((np.uint64(salts[slot]) * np.uint64(31) + np.uint64(level)) & _LOW)
        out[k, 1] = np.uint32(64 + level)


@_compiled
def step_column(
    values: Floats, squares: Floats, features: Hashes, salt: int, column: int, slope: float, rate: float
) -> None:
    """One AdaGrad step of the weights of one column."""
    for row in range(features.shape[0]):
        _step(values, squares, _at(features[row, column], salt), slope, rate)


@_compiled
def sides(words: Hashes, start: int, word: int) -> int:
    """A hash of the word before a value and the word after its end; `words` has two more in front."""
    mixed = (np.uint64(words[start + 1]) * np.uint64(0x85EBCA6B)) & _LOW
    return int(mixed ^ np.uint64(words[word + 3]))


@_compiled
def stop_chances(
    values: Floats,
    features: Hashes,
    words: Hashes,
    num_common: int,
    common: int,
    salt: int,
    start: int,
    first: int,
    out: Floats,
) -> None:
    """Write the chances that a value from word `start` stops after word first, first + 1, ..."""
    for row in range(out.shape[0]):
        word = first + row
        score = -0.7
        for feature in range(features.shape[0]):
            score += values[_at(features[feature, word], salt)]
            if feature < num_common:
                score += values[_at(features[feature, word], common)]
        score += values[_at(min(word - start, 12) + 401, salt)]
        score += values[_at(sides(words, start, word), salt)]
        out[row] = 1.0 / (1.0 + math.exp(-score))


@_compiled
def step_stop(
    values: Floats, squares: Floats, features: Hashes, words: Hashes, num_common: int, common: int, salt: int,
    start: int, word: int, slope: float, rate: float,
) -> None:  # fmt: skip
    """One AdaGrad step of all weights that speak for one stop."""
    for feature in range(features.shape[0]):
        _step(values, squares, _at(features[feature, word], salt), slope, rate)
        if feature < num_common:
            _step(values, squares, _at(features[feature, word], common), slope, rate)
    _step(values, squares, _at(min(word - start, 12) + 401, salt), slope, rate)
    _step(values, squares, _at(sides(words, start, word), salt), slope, rate)


@_compiled
def distance_class(distance: int) -> int:
    """Class (0..12) of the distance in words from the end of the last copied value."""
    if distance < -8:
        return 0
    if distance < -3:
        return 1
    if distance < 2:
        return distance + 5
    if distance < 4:
        return distance + 5
    if distance < 8:
        return 9 if distance < 6 else 10
    return 11 if distance < 18 else 12


@_compiled
def start_scores(
    values: Floats, static: Floats, used: Floats, end: int, salt: int, before: int, out: Floats
) -> tuple[int, float]:
    """Write the scores of all words to be the start; returns (best word, logarithm of the sum of exponentials)."""
    near = np.zeros(13, dtype=np.float32)
    for number in range(13):
        near[number] = values[_at(number + 101, salt)] + values[_at(number + 201, before)]
    again = values[_at(301, salt)]
    best, top = 0, -1e30
    for word in range(static.shape[0]):
        score = static[word] + near[distance_class(word - end)] + again * used[word]
        out[word] = score
        if score > top:
            best, top = word, score
    total = 0.0
    for word in range(static.shape[0]):
        total += math.exp(out[word] - top)
    return best, top + math.log(total)


@_compiled
def step_start(
    values: Floats,
    squares: Floats,
    features: Hashes,
    word: int,
    end: int,
    used: float,
    salt: int,
    before: int,
    slope: float,
    rate: float,
) -> None:
    """One AdaGrad step of all weights that speak for one start."""
    step_column(values, squares, features, salt, word, slope, rate)
    near = distance_class(word - end)
    _step(values, squares, _at(near + 101, salt), slope, rate)
    _step(values, squares, _at(near + 201, before), slope, rate)
    if used > 0.0:
        _step(values, squares, _at(301, salt), slope, rate)


@_compiled
def choose(
    values: Floats, salts: Hashes, counts: Floats, total: float, salt: int, context: Hashes, bag: Hashes, facts: Hashes,
    bag_value: float, out: Floats,
) -> None:  # fmt: skip
    """Write the chances of outcomes 0..len(facts)-1; their sum leaves room for something never seen."""
    size = facts.shape[0]
    top = -1e30
    for k in range(size):
        own = np.uint64(salts[k])
        score = math.log((counts[k] + 0.3) / (total + 1.0))
        for feature in context:
            score += values[_at(np.uint64(feature) ^ own, salt)]
        spread = 0.0
        for feature in bag:
            spread += values[_at(np.uint64(feature) ^ own, salt)]
        score += bag_value * spread
        for column in range(facts.shape[1]):
            score += values[_at(facts[k, column], salt)]
        out[k] = score
        top = max(top, score)
    mass = 0.0
    for k in range(size):
        out[k] = math.exp(out[k] - top)
        mass += out[k]
    share = (total + 0.1) / (total + 0.6) / mass
    for k in range(size):
        out[k] *= share


@_compiled
def step_choice(
    values: Floats, squares: Floats, salts: Hashes, salt: int, context: Hashes, bag: Hashes, facts: Hashes,
    bag_value: float, slopes: Floats, rate: float,
) -> None:  # fmt: skip
    """One AdaGrad step of the weights of every outcome with a slope worth it."""
    for k in range(slopes.shape[0]):
        slope = slopes[k]
        if abs(slope) < 0.03:
            continue
        own = np.uint64(salts[k])
        for feature in context:
            _step(values, squares, _at(np.uint64(feature) ^ own, salt), slope, rate)
        for feature in bag:
            _step(values, squares, _at(np.uint64(feature) ^ own, salt), slope * bag_value, rate)
        for column in range(facts.shape[1]):
            _step(values, squares, _at(facts[k, column], salt), slope, rate)


def warm_up() -> None:
    """Compile all loops (or load them, compiled before), so that no step of an engine waits for it."""
    values = np.zeros(1 << BITS, dtype=np.float32)
    squares = np.ones(1 << BITS, dtype=np.float32)
    words, features = np.zeros(8, dtype=np.uint32), np.zeros((2, 2), dtype=np.uint32)
    pair, counts = np.zeros(2, dtype=np.float32), np.ones(2, dtype=np.float32)
    sum_features(values, features, 1, pair)
    slots, ready = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint8)
    rows = np.zeros((1, 2), dtype=np.float32), np.zeros((1, 3), dtype=np.float32)
    facts_ahead(values, features, words, slots, *rows, ready, 0, features[:1].copy())
    fill_row(values, features, words, 0, *rows, ready)
    stop_chances(values, features, words, 1, 2, 3, 0, 0, pair)
    step_stop(values, squares, features, words, 1, 2, 3, 0, 1, 0.5, 0.1)
    start_scores(values, pair, counts, 0, 1, 2, pair.copy())
    step_start(values, squares, features, 1, 0, 1.0, 1, 2, 0.5, 0.1)
    choose(values, words, counts, 1.0, 1, words, words, features, 0.5, pair)
    step_choice(values, squares, words, 1, words, words, features, 0.5, pair, 0.1)
