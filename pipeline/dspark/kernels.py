"""The inner loops of the log-linear models, compiled.

Every table position is `(feature ^ salt) * multiplier`, its high bits. All arrays are updated in place.
"""

# ruff: noqa: PLR0917 (compiled code takes arrays by position)
from __future__ import annotations

import math

import numpy as np

from pipeline.dspark.compiled import BITS, LOW, Flags, Floats, Hashes, Slots, at, compiled, step
from pipeline.dspark.stop_kernels import learn_stop, stop_chances
from pipeline.dspark.word_kernels import describe


@compiled
def sum_features(values: Floats, features: Hashes, salt: int, out: Floats) -> None:
    """Add to `out` the weights of each column of `features` (features, words)."""
    for row in range(features.shape[0]):
        for column in range(features.shape[1]):
            out[column] += values[at(features[row, column], salt)]


@compiled
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


@compiled
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
        out[k, 0] = np.uint32((np.uint64(salts[slot]) * np.uint64(31) + np.uint64(level)) & LOW)
        out[k, 1] = np.uint32(64 + level)


@compiled
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


@compiled
def start_scores(
    values: Floats, static: Floats, used: Floats, end: int, salt: int, before: int, out: Floats
) -> tuple[int, float]:
    """Write the scores of all words to be the start; returns (best word, logarithm of the sum of exponentials)."""
    near = np.zeros(13, dtype=np.float32)
    for number in range(13):
        near[number] = values[at(number + 101, salt)] + values[at(number + 201, before)]
    again = values[at(301, salt)]
    best, top = 0, -1e30
    for word in range(static.shape[0]):
        score = static[word] + near[distance_class(word - end)] + again * used[word]
        out[word] = score
        if score > top:
            best, top = word, score
    total = 0.0
    for word in range(static.shape[0]):
        if out[word] > top - 15.0:  # what is left out is nothing, and the exponential is what costs
            total += math.exp(out[word] - top)
    return best, top + math.log(total)


@compiled
def learn_start(
    values: Floats, squares: Floats, features: Hashes, scores: Floats, used: Floats, among: Slots, right: Slots,
    end: int, salt: int, before: int, rate: float,
) -> int:  # fmt: skip
    """Learn that the start was one of `right`, of all words or (where there are any) `among`; returns the likeliest.

    Raises the likeliest of `right` (the earliest where equal) against its strongest rivals, by one AdaGrad step each.
    """
    gold = right[0]
    for word in right:
        if scores[word] > scores[gold]:
            gold = word
    rivals, size = np.empty(7, dtype=np.int64), 1
    rivals[0] = gold
    for number in range(among.shape[0] if among.shape[0] else scores.shape[0]):
        word = among[number] if among.shape[0] else number
        is_right = False
        for other in right:
            is_right = is_right or other == word
        if is_right or (size == 7 and scores[word] <= scores[rivals[6]]):
            continue
        place = size if size < 7 else 6
        while place > 1 and scores[rivals[place - 1]] < scores[word]:
            rivals[place] = rivals[place - 1]
            place -= 1
        rivals[place] = word
        size = min(size + 1, 7)
    top = scores[gold] if size == 1 else max(scores[gold], scores[rivals[1]])
    total = 0.0
    for rank in range(size):
        total += math.exp(scores[rivals[rank]] - top)
    if math.exp(scores[gold] - top) > 0.95 * total:
        return int(gold)
    for rank in range(size):
        word = rivals[rank]
        slope = math.exp(scores[word] - top) / total - (1.0 if rank == 0 else 0.0)
        if abs(slope) <= 0.03:
            continue
        for row in range(features.shape[0]):
            step(values, squares, at(features[row, word], salt), slope, rate)
        near = distance_class(word - end)
        step(values, squares, at(near + 101, salt), slope, rate)
        step(values, squares, at(near + 201, before), slope, rate)
        if used[word] > 0.0:
            step(values, squares, at(301, salt), slope, rate)
    return int(gold)


@compiled
def spread_bag(values: Floats, salts: Hashes, salt: int, bag: Hashes, bag_value: float, out: Floats) -> None:
    """Write what the words of a document say to outcomes 0..len(out)-1, whatever the situation."""
    for k in range(out.shape[0]):
        own = np.uint64(salts[k])
        spread = 0.0
        for feature in bag:
            spread += values[at(np.uint64(feature) ^ own, salt)]
        out[k] = bag_value * spread


@compiled
def choose(
    values: Floats, salts: Hashes, counts: Floats, total: float, salt: int, context: Hashes, spread: Floats,
    facts: Hashes, out: Floats,
) -> None:  # fmt: skip
    """Write the chances of outcomes 0..len(facts)-1; their sum leaves room for something never seen."""
    size = facts.shape[0]
    top = -1e30
    for k in range(size):
        own = np.uint64(salts[k])
        score = math.log((counts[k] + 0.3) / (total + 1.0)) + spread[k]
        for feature in context:
            score += values[at(np.uint64(feature) ^ own, salt)]
        for column in range(facts.shape[1]):
            score += values[at(facts[k, column], salt)]
        out[k] = score
        top = max(top, score)
    mass = 0.0
    for k in range(size):
        out[k] = math.exp(out[k] - top)
        mass += out[k]
    share = (total + 0.1) / (total + 0.6) / mass
    for k in range(size):
        out[k] *= share


@compiled
def learn_choice(
    values: Floats, squares: Floats, salts: Hashes, salt: int, context: Hashes, bag: Hashes, facts: Hashes,
    bag_value: float, chances: Floats, right: Slots, rate: float,
) -> None:  # fmt: skip
    """Learn that one of the outcomes `right` was taken: an AdaGrad step for every outcome with a slope worth it."""
    total, mass = 0.0, 0.0
    for chance in chances:
        total += chance
    for k in right:
        mass += chances[k] + 1e-6
    for k in range(chances.shape[0]):
        slope = chances[k] / total
        for other in right:
            if other == k:
                slope -= (chances[k] + 1e-6) / mass
        if abs(slope) < 0.03:
            continue
        own = np.uint64(salts[k])
        for feature in context:
            step(values, squares, at(np.uint64(feature) ^ own, salt), slope, rate)
        for feature in bag:
            step(values, squares, at(np.uint64(feature) ^ own, salt), slope * bag_value, rate)
        for column in range(facts.shape[1]):
            step(values, squares, at(facts[k, column], salt), slope, rate)


def warm_up() -> None:
    """Compile all loops (or load them, compiled before), so that no step of an engine waits for it."""
    values = np.zeros(1 << BITS, dtype=np.float32)
    squares = np.ones(1 << BITS, dtype=np.float32)
    words, features = np.zeros(8, dtype=np.uint32), np.zeros((2, 2), dtype=np.uint32)
    pair, counts = np.zeros(2, dtype=np.float32), np.ones(2, dtype=np.float32)
    sum_features(values, features, 1, pair)
    spans, letters = np.array([[0, 1], [2, 3]]), np.zeros(3, dtype=np.uint8)
    begin, stop = np.empty((10, 2), dtype=np.uint32), np.empty((7, 2), dtype=np.uint32)
    describe(letters, spans[:, 0], spans[:, 1], words, words, begin, stop)
    slots, ready = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint8)
    rows = np.zeros((1, 2), dtype=np.float32), np.zeros((1, 3), dtype=np.float32)
    facts_ahead(values, features, words, slots, *rows, ready, 0, features[:1].copy())
    fill_row(values, features, words, 0, *rows, ready)
    stop_chances(values, features, words, 1, 2, 3, 0, 0, 0.5, pair)
    learn_stop(values, squares, features, words, 1, 2, 3, 0, 0, 1, True, 0.1)
    start_scores(values, pair, counts, 0, 1, 2, pair.copy())
    learn_start(values, squares, features, pair, counts, slots[:0], slots, 0, 1, 2, 0.1)
    spread_bag(values, words, 1, words, 0.5, pair)
    choose(values, words, counts, 1.0, 1, words, pair.copy(), features, pair)
    learn_choice(values, squares, words, 1, words, words, features, 0.5, pair, slots, 0.1)
