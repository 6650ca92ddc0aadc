"""The place in a long text that resembles a short one most."""

from __future__ import annotations

import re
from collections import Counter
from difflib import Match, SequenceMatcher

from pipeline.folding import is_cjk, joins

MIN_SCORE = 0.75
"""Less alike than this is not the same text."""

_WORD = re.compile(r"\w+")
_MAX_SEEDS = 8
_MAX_HITS = 40
_MAX_PLACES = 3
_MAX_CHARS = 400


def find_similar(folded: str, value: str) -> tuple[int, int, float] | None:
    """(start, end, score) in ``folded`` of the stretch most like the folded ``value``; score is at least MIN_SCORE.

    Seeds (words, or pairs of characters in scripts without spaces) vote for places; only the best few are compared.
    None for values of less than four or more than 400 characters.
    """
    if not 4 <= len(value) <= _MAX_CHARS:
        return None
    slack = max(4, len(value) // 5)
    votes: Counter[int] = Counter()
    for offset, seed in _seeds(value):
        at = folded.find(seed)
        for _ in range(_MAX_HITS):
            if at < 0:
                break
            votes[(at - offset) // slack] += len(seed)
            at = folded.find(seed, at + len(seed))
    joined = Counter({place: count + votes.get(place + 1, 0) for place, count in votes.items()})
    best: tuple[int, int, float] | None = None
    for place, _ in sorted(joined.items(), key=lambda item: (-item[1], item[0]))[:_MAX_PLACES]:
        found = _compare(folded, value, place * slack, slack)
        if found is not None and (best is None or found[2] > best[2]):
            best = found
    return best


def _seeds(value: str) -> list[tuple[int, str]]:
    found: dict[str, int] = {}
    for match in _WORD.finditer(value):
        word = match.group()
        if any(is_cjk(c) for c in word):
            for index in range(len(word) - 1):
                found.setdefault(word[index : index + 2], match.start() + index)
        elif len(word) > 1:
            found.setdefault(word, match.start())
    longest = sorted(found.items(), key=lambda item: (-len(item[0]), item[1]))[:_MAX_SEEDS]
    return [(offset, seed) for seed, offset in longest]


def _compare(folded: str, value: str, place: int, slack: int) -> tuple[int, int, float] | None:
    low = max(0, place - slack)
    window = folded[low : place + len(value) + 3 * slack]
    blocks = [
        block for block in SequenceMatcher(None, window, value, autojunk=False).get_matching_blocks() if block.size
    ]
    while len(blocks) > 1 and _is_chance(blocks[0], window):
        del blocks[0]
    while len(blocks) > 1 and _is_chance(blocks[-1], window):
        del blocks[-1]
    if not blocks:
        return None
    start, end = blocks[0].a, blocks[-1].a + blocks[-1].size
    first, last = max(0, start - slack), min(len(window), end + slack)
    while start > first and joins(window[start - 1], window[start]):  # whole words
        start -= 1
    while end < last and joins(window[end - 1], window[end]):
        end += 1
    score = 2 * sum(block.size for block in blocks) / (end - start + len(value))
    return (low + start, low + end, score) if score >= MIN_SCORE else None


def _is_chance(block: Match, window: str) -> bool:
    """A single letter at an end matches anywhere."""
    return block.size == 1 and not is_cjk(window[block.a])
