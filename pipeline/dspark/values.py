"""One value in text space: a literal of the history, a rendering of the document, or a copy up to where it stops."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from pipeline.dspark.evidence import Evidence, escape, unescape
from pipeline.dspark.memory import DOMINANT, Node, Outcome
from pipeline.dspark.plan import Sketch
from pipeline.dspark.situation import Situation
from pipeline.dspark.stops import LIKELY

_SURE = 0.6
_MAX_PLACES = 32
# One over how likely a value goes on as it does at the only place where its start stands.
_ONLY = 1.1
_SUFFIXES = (24, 12, 6, 3)
_MAX_REPEATED = 64
# A copy without claims in between is at most this long; a stop less likely than this is no claim of its own.
_LONG = 48
_UNLIKELY = 0.03
_PLAIN = frozenset({b"", b" "})
_QUOTE = 0x22


class Written(NamedTuple):
    """A value so far; `end` is the word after it in the document, `closed` whether all of it is written."""

    text: bytes
    end: int | None
    closed: bool


# A whole value: (joint probability, text, drafter, the word after it in the document).
_Guess = tuple[float, bytes, str, int | None]


def _has_rival(outcomes: list[Outcome], prefix: bytes, last: bytes) -> bool:
    """Whether something else than a copy may have begun with `prefix`; `last` is the value before at this path."""
    for outcome in outcomes:
        how = outcome.how
        if how == "literal":
            if outcome.text.startswith(prefix):
                return True
        elif how == "repeat":
            if last.startswith(prefix):
                return True
        elif how != "copy" and (prefix == b'"' or prefix[:2].strip(b'"-').isdigit()):
            return True
    return False


class ValueWriter:
    """Writes values into sketches for one document; drafters named in `without` stay silent."""

    def __init__(self, evidence: Evidence, without: frozenset[str]) -> None:
        self._evidence = evidence
        self._with_history = "history" not in without
        self._with_document = "document" not in without
        self._with_output = "output" not in without

    def write(self, sketch: Sketch, node: Node, prefix: bytes, situation: Situation) -> Written | None:
        """Write on the value of `node`, of which `prefix` stands already; None where nobody knows it."""
        decision, evidence = node.value, self._evidence
        outcomes = decision.outcomes
        if len(outcomes) < 2:
            chances = [decision.total / (decision.total + 0.2)] * len(outcomes)
        elif decision.dominant >= 0 and not prefix:
            chances = [0.0] * len(outcomes)
            chances[decision.dominant] = DOMINANT
        elif prefix and not _has_rival(outcomes, prefix, situation.last(node)):
            chances = [1.0 if outcome.how == "copy" else 0.0 for outcome in outcomes]
        else:
            chances = evidence.value_choice(node, situation).chances
        negligible = 0.0 if prefix else 0.01
        if not prefix and outcomes and self._with_history:
            surest = max(chances)
            outcome = outcomes[chances.index(surest)]
            if surest > _SURE and outcome.how == "literal":
                sketch.add(outcome.text, "history", node.salt, surest)
                return Written(outcome.text, None, True)
            # What the value is may be unsure and that it is a string certain.
            quoted = sum([c for o, c in zip(outcomes, chances, strict=True) if o.is_quoted])
            if quoted > _SURE:
                sketch.add(b'"', "structure", node.salt, quoted)
                prefix = b'"'
        best: _Guess | None = None
        mass, copy_chance, size = 0.0, 0.0 if outcomes else 0.4, len(prefix)
        for outcome, chance in zip(outcomes, chances, strict=True):
            if chance <= negligible:
                continue
            how = outcome.how
            if how == "copy":
                copy_chance = chance
            elif how in {"literal", "repeat"}:
                text = outcome.text or situation.last(node)
                if text.startswith(prefix) and len(text) > size and self._with_history:
                    mass += chance
                    if best is None or chance > best[0]:
                        best = (chance, text, "history", None)
            elif self._with_document:
                for guess in self._rendered(how, chance, node, prefix, situation):
                    mass += guess[0]
                    if best is None or guess[0] > best[0]:
                        best = guess
        start, weight = None, 0.0
        if copy_chance > 0.01 and self._with_document and prefix[:1] in b'"' and evidence.document.num_words:
            wanted = unescape(prefix[1:])
            places = evidence.document.occurrences(wanted, _MAX_PLACES) if wanted else None
            if places is None or len(places) > 1 or (places and best is not None):
                starts = evidence.pointer.starts(node, situation.end, situation.before)
            if places is None:
                start = starts.best
                weight = copy_chance * starts.chance(start)
                mass += copy_chance
            elif len(places) == 1 and best is None:
                # Whatever the chance of the only place is, it goes on there.
                start, weight, mass = places[0], 1.0, _ONLY
            elif places:
                weights = [copy_chance * starts.chance(place) for place in places]
                weight = max(weights)
                start = places[weights.index(weight)]
                mass += sum(weights)
        if best is not None and best[0] >= weight:
            share, text, drafter, end = best
            sketch.add(text[size:], drafter, node.salt, share / (mass + 0.01) if prefix else share)
            return Written(text, end, True)
        if start is None:
            return self._resume(sketch, node, prefix, situation) if len(prefix) > 3 else None
        at = evidence.document.start_list[start] + len(unescape(prefix[1:]))
        return self._copy(sketch, node, start, at, prefix, weight / (mass + 0.01) if prefix else weight)

    def _rendered(self, how: str, chance: float, node: Node, prefix: bytes, situation: Situation) -> list[_Guess]:
        """The values of the document in one rendering that go on from `prefix`."""
        words, values, _ = self._evidence.rendered(how)
        if not values:
            return []
        scores = self._evidence.pointer.starts(node, situation.end, situation.before).scores.take(words)
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        merged: dict[bytes, tuple[float, int]] = {}
        for value, share, word in zip(values, shares.tolist(), words.tolist(), strict=True):
            if value.startswith(prefix) and len(value) > len(prefix):
                merged[value] = (merged.get(value, (0.0, 0))[0] + share, word)
        return [(chance * share, value, "document", word + 1) for value, (share, word) in merged.items()]

    def _copy(  # noqa: PLR0917 (called in the innermost place)
        self, sketch: Sketch, node: Node, start: int, at: int, prefix: bytes, claimed: float
    ) -> Written | None:
        """Copy from byte `at` of a value that starts at word `start`, up to where it probably stops."""
        document = self._evidence.document
        first = bisect_left(document.end_list, at)
        if first >= document.num_words:
            return None
        begun = len(sketch.text)
        pending, drafter, sure = b"" if prefix else b'"', "document", claimed
        data, ends, starts = document.data, document.end_list, document.start_list
        last, has_signs = document.num_words - 1, document.has_signs
        for index, stop in enumerate(self._evidence.stops.chances(node, start, first), first):
            word = data[at : ends[index]]
            pending += escape(word) if has_signs else word
            if stop < _UNLIKELY and index < last and len(pending) < _LONG:
                sure *= 1.0 - stop
            else:
                sketch.add(pending, drafter, node.salt, sure)
                if stop > LIKELY or index == last:
                    sketch.add(b'"', "stop", node.salt, max(stop, 0.05))
                    return Written(prefix + bytes(sketch.text[begun:]), index + 1, True)
                if sketch.full:
                    return Written(prefix, None, False)
                pending, drafter, sure = b"", "continue", 1.0 - stop
            gap = data[ends[index] : starts[index + 1]]
            pending += gap if gap in _PLAIN else escape(self._separator(node, gap, document.words[index]))
            at = starts[index + 1]
        if pending:
            sketch.add(pending, drafter, node.salt, sure)
        return Written(prefix, None, False)

    @staticmethod
    def _separator(node: Node, gap: bytes, word: str) -> bytes:
        """What records write for `gap` after `word`."""
        written = node.separators.get((gap[:8], not word.isalnum()))
        if written:
            return max(written, key=lambda w: written[w])
        return b" " if b"\n" in gap else gap

    def _resume(self, sketch: Sketch, node: Node, prefix: bytes, situation: Situation) -> Written | None:
        """Go on from the last bytes of a string that no drafter foresaw, where they stand in the document."""
        if prefix[0] != _QUOTE or not self._with_document:
            return None
        wanted = unescape(prefix[1:])
        document = self._evidence.document
        behind = document.start_list[situation.end] if situation.end < document.num_words else 0
        for size in _SUFFIXES:
            if len(wanted) < size:
                continue
            suffix = wanted[-size:]
            at = document.data.find(suffix, behind)
            if at < 0:
                at = document.data.find(suffix)
            if at >= 0:
                at += size
                start = max(0, bisect_left(document.end_list, at) - wanted.count(b" ") - 1)
                return self._copy(sketch, node, min(start, document.num_words - 1), at, prefix, 0.3 + size / 60)
        return None

    def end(self, sketch: Sketch, node: Node, prefix: bytes, output: bytearray) -> bytes | None:
        """A value neither known nor in the document: repeat the output, or end here; returns it where it ends."""
        if not self._with_output:
            return None
        text = bytes(output) + bytes(sketch.text)
        for size in _SUFFIXES[:3]:
            at = text.rfind(text[-size:], 0, len(text) - 1) if len(text) > size else -1
            if at >= 0:
                repeated = text[at + size : at + size + _MAX_REPEATED]
                if prefix[0] == _QUOTE:
                    close = repeated.find(b'"')
                    repeated = repeated[: close + 1] if close >= 0 else repeated
                if repeated:
                    sketch.add(repeated, "output", node.salt, 0.3 + size / 60)
                    return prefix + repeated if repeated.endswith(b'"') else None
        if prefix[0] != _QUOTE:
            sketch.add(b"", "end", node.salt, 0.4)
            return prefix
        if prefix[-1] >= 0x80 or prefix[-1] == 0x5C or len(prefix) < 2:
            return None
        sketch.add(b'"', "end", node.salt, 0.3)
        return prefix + b'"'
