"""Learning from what the model wrote: each finished value and each piece of structure."""

from __future__ import annotations

import json

import numpy as np

from pipeline.dspark.alignment import align
from pipeline.dspark.chooser import Choice
from pipeline.dspark.evidence import Evidence
from pipeline.dspark.memory import MAX_TEXT_BYTES, Decision, Memory, Node
from pipeline.dspark.path import Segment
from pipeline.dspark.renderings import DATES, NUMBERS
from pipeline.dspark.situation import Situation

_SURE = 0.96
_decode = json.JSONDecoder(strict=False).decode


class Learner:
    """Takes the segments of one record in order and keeps its `situation`."""

    def __init__(self, evidence: Evidence, memory: Memory) -> None:
        self._evidence = evidence
        self._memory = memory
        self.situation = Situation()

    def take(self, segment: Segment) -> None:
        """Learn from one finished segment, then move the situation past it."""
        if segment.is_glue:
            self._glue(segment)
        else:
            end = self._value(segment.node, segment.text)
            self.situation.after_value(segment.node, segment.text, end)

    def _glue(self, segment: Segment) -> None:
        decision = segment.node.glue
        if len(segment.text) <= 4 * MAX_TEXT_BYTES:
            taken = decision.position(segment.text, "glue", segment.following)
            if len(decision.outcomes) > 1 and taken != decision.dominant:
                self._decide(decision, self._evidence.glue_choice(segment.node, self.situation), [taken])
            else:
                decision.count(taken, 1.0)
                decision.close()
        self.situation.after_glue(segment.text)

    def _value(self, node: Node, raw: bytes) -> int | None:
        """Learn a value; returns the word after it in the document, None where it is not there."""
        evidence, situation = self._evidence, self.situation
        text = _string(raw)
        places = align(evidence.document, text) if text else []
        right: list[tuple[bytes, str]] = [(b"", "copy")] if places else []
        if situation.last(node) == raw:
            right.append((b"", "repeat"))
        rendered: list[tuple[str, list[int]]] = []
        for how in _renderings_of(raw):
            found = evidence.rendered(how).places.get(raw)
            if found:
                rendered.append((how, found))
                right.append((b"", how))
        literal = (raw, "literal")
        if len(raw) <= MAX_TEXT_BYTES and (literal in node.value.positions or node.meet(raw) or not right):
            right.append(literal)
        if not right:
            return None
        decision = node.value
        # Of two made at once the later may have pushed out the earlier, never the other way round.
        taken = {decision.position(value, how): how for value, how in right}
        belief = [1.0]
        if len(decision.outcomes) > 1 and not (len(taken) == 1 and decision.dominant in taken):
            belief = self._decide(decision, evidence.value_choice(node, situation), list(taken))
        else:
            decision.count(next(iter(taken)), 1.0)
            decision.close()
        end = None
        for how, found in rendered:
            words = evidence.rendered(how).words
            end = evidence.pointer.learn(node, situation.end, situation.before, found, np.unique(words)) + 1
        if places and ("copy" in taken.values()) and belief[list(taken.values()).index("copy")] > 0.2:
            gold = evidence.pointer.learn(node, situation.end, situation.before, [p.start for p in places], None)
            place = next(p for p in places if p.start == gold)
            self._memory.copied(node)
            evidence.stops.learn(node, place.start, place.end, place.whole)
            for gap, after_sign, written in place.separators:
                written_as = node.separators.setdefault((gap[:8], after_sign), {})
                if written in written_as or len(written_as) < 8:
                    written_as[written] = written_as.get(written, 0) + 1
                if len(node.separators) > 64:
                    node.separators.clear()
            evidence.pointer.mark_used(place.start, place.end)
            end = place.end + 1
        return end

    def _decide(self, decision: Decision, choice: Choice, right: list[int]) -> list[float]:
        """Learn a decision; returns how far each of `right` is believed to be what happened."""
        chances = [choice.chances[i] for i in right]
        total = sum(chances)
        if total < _SURE:
            self._evidence.chooser.learn(decision, choice, right)
        belief = [c / total if total > 0 else 1.0 / len(right) for c in chances]
        for position, part in zip(right, belief, strict=True):
            decision.count(position, part)
        decision.close()
        return belief


def _string(raw: bytes) -> str | None:
    """The text of a JSON string; None for another scalar, empty where it cannot be read."""
    if raw[:1] != b'"':
        return None
    try:
        text = raw.decode("utf-8")
        if b"\\" not in raw and raw[-1:] == b'"':
            return text[1:-1]
        value = _decode(text)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _renderings_of(raw: bytes) -> tuple[str, ...]:
    if raw[:1] == b'"':
        return DATES if len(raw) == 12 and raw[5:6] == raw[8:9] == b"-" else ()
    return NUMBERS if raw[:1].isdigit() else ()
