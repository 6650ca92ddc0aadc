"""The inner loops of the model of where a copied value stops."""

# ruff: noqa: PLR0917 (compiled code takes arrays by position)
from __future__ import annotations

import math

import numpy as np

from pipeline.dspark.compiled import LOW, Floats, Hashes, at, compiled, step


@compiled
def sides(words: Hashes, start: int, word: int) -> int:
    """A hash of the word before a value and the word after its end; `words` has two more in front."""
    mixed = (np.uint64(words[start + 1]) * np.uint64(0x85EBCA6B)) & LOW
    return int(mixed ^ np.uint64(words[word + 3]))


@compiled
def _stop_chance(
    values: Floats, features: Hashes, words: Hashes, num_common: int, common: int, salt: int, start: int, word: int
) -> float:
    score = -0.7
    for feature in range(features.shape[0]):
        score += values[at(features[feature, word], salt)]
        if feature < num_common:
            score += values[at(features[feature, word], common)]
    score += values[at(min(word - start, 12) + 401, salt)]
    score += values[at(sides(words, start, word), salt)]
    return 1.0 / (1.0 + math.exp(-score))


@compiled
def stop_chances(
    values: Floats, features: Hashes, words: Hashes, num_common: int, common: int, salt: int, start: int, first: int,
    enough: float, out: Floats,
) -> int:  # fmt: skip
    """Write the chances that a value from word `start` stops after word first, first + 1, ... up to one above `enough`.

    Returns how many it wrote.
    """
    for row in range(out.shape[0]):
        out[row] = _stop_chance(values, features, words, num_common, common, salt, start, first + row)
        if out[row] > enough:
            return row + 1
    return int(out.shape[0])


@compiled
def learn_stop(
    values: Floats, squares: Floats, features: Hashes, words: Hashes, num_common: int, common: int, salt: int,
    start: int, first: int, last: int, stopped: bool, rate: float,
) -> None:  # fmt: skip
    """One AdaGrad step for each word first..last that did not stop the value, and for `last`, where it `stopped`."""
    for word in range(first, last + 1):
        if word == last and not stopped:
            return
        slope = _stop_chance(values, features, words, num_common, common, salt, start, word)
        if word == last:
            slope -= 1.0
        if abs(slope) < 0.1:
            continue
        for feature in range(features.shape[0]):
            step(values, squares, at(features[feature, word], salt), slope, rate)
            if feature < num_common:
                step(values, squares, at(features[feature, word], common), slope, rate)
        step(values, squares, at(min(word - start, 12) + 401, salt), slope, rate)
        step(values, squares, at(sides(words, start, word), salt), slope, rate)
