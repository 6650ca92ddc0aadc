"""A continuation of the output in text space, with how sure each part of it is."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple, Protocol

import numpy as np

from pipeline.dspark.estimates import Estimates
from pipeline.dspark.evidence import Evidence, escape, unescape
from pipeline.dspark.memory import Memory, Node
from pipeline.dspark.path import PathTracker
from pipeline.dspark.situation import Situation

_STOP = 0.5
_MAX_PLACES = 32
_SUFFIXES = (24, 12, 6, 3)
_MAX_FORCED = 6
_SURE = 0.6
_LONG = 48
_PLAIN = frozenset({b"", b" "})
# Below this a stop is not worth a claim of its own.
_UNLIKELY = 0.03
_KNOWN = frozenset({"literal", "repeat"})


class Oracle(Protocol):
    """The grammar: what it forces after a text, and whether it allows the text at all."""

    def forced_after(self, text: bytes) -> bytes | None: ...


class Event(NamedTuple):
    """A claim of one drafter: bytes offset..end of the plan come true with probability `claimed` (`chance` by experience)."""

    offset: int
    end: int
    drafter: str
    path: int
    claimed: float
    chance: float


class Plan(NamedTuple):
    """Predicted text with its claims in order; `complete` where the record ends with it."""

    text: bytes
    events: list[Event]
    complete: bool


class Composer:
    """Composes one plan after another for one request; drafters named in `without` stay silent."""

    def __init__(self, evidence: Evidence, memory: Memory, min_survival: float, without: frozenset[str]) -> None:
        self._evidence = evidence
        self._memory = memory
        self._estimates: Estimates = memory.estimates
        self._min_survival = min_survival
        self._without = without
        self._text = bytearray()
        self._events: list[Event] = []
        self._survival = 1.0

    def compose(self, tracker: PathTracker, situation: Situation, output: bytearray, oracle: Oracle, limit: int) -> Plan:
        """The likeliest text after `output` (where `tracker` and `situation` stand), about `limit` bytes of it."""
        self._text, self._events, self._survival = bytearray(), [], 1.0
        self._output = output
        self._limit = limit
        situation = situation.copy()
        is_glue, node, prefix = tracker.is_glue, tracker.node, bytes(tracker.prefix)
        forced_left = _MAX_FORCED
        if tracker.done and is_glue:
            return Plan(b"", [], True)
        while len(self._text) < limit and self._survival > self._min_survival:
            if is_glue:
                step = self._glue(node, prefix, situation)
                if step is not None:
                    text, following = step
                    situation.after_glue(text)
                    if following is None:
                        return Plan(bytes(self._text), self._events, True)
                    is_glue, node, prefix = False, following, b""
                    continue
            else:
                written = self._value(node, prefix, situation)
                if written is not None:
                    value, end, closed = written
                    if not closed:
                        break
                    situation.after_value(node, value, end)
                    is_glue, prefix = True, b""
                    continue
            forced_left -= 1
            forced = oracle.forced_after(bytes(self._text)) if "grammar" not in self._without and forced_left >= 0 else None
            if not forced:
                break
            self._add(forced, "grammar", 0, 1.0)
            ahead = tracker.clone()
            for segment in ahead.feed(bytes(self._text)):
                pass
            if ahead.done and ahead.is_glue:
                return Plan(bytes(self._text), self._events, True)
            is_glue, node, prefix = ahead.is_glue, ahead.node, bytes(ahead.prefix)
        return Plan(bytes(self._text), self._events, False)

    def _add(self, text: bytes, drafter: str, path: int, claimed: float) -> None:
        offset = len(self._text)
        self._text += text
        if drafter == "grammar":
            chance = 1.0
        else:
            chance = self._estimates.probability(drafter, path, claimed)
        self._survival *= chance
        self._events.append(Event(offset, max(len(self._text), offset + 1), drafter, path, claimed, chance))

    def _glue(self, node: Node, prefix: bytes, situation: Situation) -> tuple[bytes, Node | None] | None:
        outcomes = node.glue.outcomes
        if not outcomes or "structure" in self._without:
            return None
        if len(outcomes) == 1:
            only = outcomes[0]
            if not only.text.startswith(prefix):
                return None
            self._add(only.text[len(prefix) :], "structure", node.salt, node.glue.total / (node.glue.total + 0.2))
            return only.text, only.following
        possible = [i for i, o in enumerate(outcomes) if o.text.startswith(prefix)]
        if not possible:
            return None
        if len(possible) == 1:
            best, claimed = possible[0], 0.97
        else:
            chances = self._evidence.glue_choice(node, situation).chances
            best = max(possible, key=lambda i: chances[i])
            mass = sum([chances[i] for i in possible])
            claimed = chances[best] / (mass + 0.02) if prefix else chances[best]
        self._add(outcomes[best].text[len(prefix) :], "structure", node.salt, claimed)
        return outcomes[best].text, outcomes[best].following

    def _value(self, node: Node, prefix: bytes, situation: Situation) -> tuple[bytes, int | None, bool] | None:
        """Write the value of `node`; returns (its text, the word after it, whether it is closed)."""
        outcomes = node.value.outcomes
        evidence = self._evidence
        texts: list[tuple[float, bytes, str, int | None]] = []
        mass = 0.0
        copy_chance = 0.0 if outcomes else 0.4
        with_history, with_document = "history" not in self._without, "document" not in self._without
        if len(outcomes) > 1:
            chances = evidence.value_choice(node, situation).chances
        else:
            chances = [node.value.total / (node.value.total + 0.2)] * len(outcomes)
        if not prefix and outcomes:
            surest = max(chances)
            outcome = outcomes[chances.index(surest)]
            if surest > _SURE and outcome.how == "literal" and with_history:
                self._add(outcome.text, "history", node.salt, surest)
                return outcome.text, None, True
        for outcome, chance in zip(outcomes, chances, strict=True):
            if outcome.how == "copy":
                copy_chance = chance
            elif chance < 0.01 and not prefix:
                continue
            elif outcome.how in _KNOWN:
                text = outcome.text or situation.last_values.get(node.salt, b"")
                if text.startswith(prefix) and text != prefix and text and with_history:
                    texts.append((chance, text, "history", None))
                    mass += chance
            elif with_document:
                words, values, _ = evidence.rendered(outcome.how)
                if not values:
                    continue
                shares = evidence.pointer.starts(node, situation.end, situation.before).scores.take(words)
                shares = np.exp(shares - shares.max())
                shares /= shares.sum()
                merged: dict[bytes, tuple[float, int]] = {}
                for value, share, word in zip(values, shares.tolist(), words.tolist(), strict=True):
                    if value.startswith(prefix) and len(value) > len(prefix):
                        merged[value] = (merged.get(value, (0.0, 0))[0] + share, word)
                for value, (share, word) in merged.items():
                    texts.append((chance * share, value, "document", word + 1))
                    mass += chance * share
        best_text = max(texts, key=lambda t: t[0]) if texts else None
        start = None
        copy_weight = 0.0
        if copy_chance > 0.01 and with_document and (not prefix or prefix[0] == 0x22) and len(evidence.document):
            starts = evidence.pointer.starts(node, situation.end, situation.before)
            wanted = unescape(prefix[1:])
            if wanted:
                places = evidence.document.occurrences(wanted, _MAX_PLACES)
                if places:
                    weights = [starts.chance(place) for place in places]
                    copy_weight = max(weights)
                    start = places[weights.index(copy_weight)]
                    copy_weight *= copy_chance
                    mass += copy_chance * sum(weights)
            else:
                start = starts.best
                copy_weight = copy_chance * starts.chance(start)
                mass += copy_chance
        if best_text is not None and best_text[0] >= copy_weight:
            weight, text, drafter, end = best_text
            claimed = weight / (mass + 0.01) if prefix else weight
            self._add(text[len(prefix) :], drafter, node.salt, claimed)
            return text, end, True
        if start is not None:
            claimed = copy_weight / (mass + 0.01) if prefix else copy_weight
            at = evidence.document.start_list[start] + len(unescape(prefix[1:]))
            opening = b"" if prefix else b'"'
            return self._copy(node, start, at, opening, prefix, claimed)
        if len(prefix) > 3 and prefix[0] == 0x22:
            return self._resume(node, prefix, situation)
        return None

    def _copy(self, node: Node, start: int, at: int, opening: bytes, prefix: bytes, claimed: float) -> tuple[bytes, int | None, bool]:
        """Copy from byte `at` of a value that starts at word `start`, up to where it probably stops."""
        document = self._evidence.document
        first = bisect_left(document.end_list, at)
        if first >= len(document):
            return prefix, None, False
        begun = len(self._text)
        stops = self._evidence.stops.chances(node, start, first)
        pending, drafter, sure = opening, "document", claimed
        data, ends, starts = document.data, document.end_list, document.start_list
        last = len(document) - 1
        for index, stop in enumerate(stops, first):
            pending += escape(data[at : ends[index]])
            gap = data[ends[index] : starts[index + 1]] if index < last else b""
            if stop < _UNLIKELY and index < last and len(pending) < _LONG:
                sure *= 1.0 - stop
            else:
                self._add(pending, drafter, node.salt, sure)
                if stop > _STOP or index == last:
                    self._add(b'"', "stop", node.salt, max(stop, 0.05))
                    return prefix + bytes(self._text[begun:]), index + 1, True
                if self._survival < self._min_survival or len(self._text) > self._limit:
                    break
                pending, drafter, sure = b"", "continue", 1.0 - stop
            pending += gap if gap in _PLAIN else escape(self._separator(node, gap, document.words[index]))
            at = starts[index + 1]
        else:
            if pending:
                self._add(pending, drafter, node.salt, sure)
        return prefix, None, False

    @staticmethod
    def _separator(node: Node, gap: bytes, word: str) -> bytes:
        written = node.separators.get((gap[:8], not word.isalnum()))
        if written:
            return max(written, key=lambda w: written[w])
        return b" " if b"\n" in gap else gap

    def _resume(self, node: Node, prefix: bytes, situation: Situation) -> tuple[bytes, int | None, bool] | None:
        """Go on from the last bytes of a value that no drafter foresaw."""
        wanted = unescape(prefix[1:])
        document = self._evidence.document
        behind = document.start_list[situation.end] if situation.end < len(document) else 0
        for size in _SUFFIXES:
            if len(wanted) < size:
                continue
            suffix = wanted[-size:]
            at = document.data.find(suffix, behind)
            if at < 0:
                at = document.data.find(suffix)
            if at >= 0 and "document" not in self._without:
                at += size
                start = max(0, bisect_left(document.end_list, at) - wanted.count(b" ") - 1)
                return self._copy(node, min(start, len(document) - 1), at, b"", prefix, 0.3 + size / 60)
        return None
