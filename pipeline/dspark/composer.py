"""A continuation of the output in text space: structure and values in turn, the grammar where nothing is known yet."""

from __future__ import annotations

from typing import Protocol

from pipeline.dspark.evidence import Evidence
from pipeline.dspark.memory import DOMINANT, Memory, Node
from pipeline.dspark.path import PathTracker
from pipeline.dspark.plan import Plan, Sketch
from pipeline.dspark.situation import Situation
from pipeline.dspark.values import ValueWriter

# So often one draft asks the grammar; each time costs a fork of the matcher.
_MAX_FORCED = 6
# How fast a path's typical chance follows.
_FOLLOW = 0.15


class Oracle(Protocol):
    """The grammar: the text it forces after a text; nothing where it forces none or refuses the text."""

    def forced_after(self, text: bytes) -> bytes: ...


class Composer:
    """Composes one plan after another for one request; drafters named in `without` stay silent."""

    def __init__(self, evidence: Evidence, memory: Memory, *, without: frozenset[str]) -> None:
        self._evidence = evidence
        self._estimates = memory.estimates
        self._with_structure = "structure" not in without
        self._with_grammar = "grammar" not in without
        self._values = ValueWriter(evidence, without)

    def compose(
        self, tracker: PathTracker, situation: Situation, *, output: bytearray, oracle: Oracle, limit: int,
        min_survival: float,
    ) -> Plan:  # fmt: skip
        """The likeliest text after `output` (where `tracker` and `situation` stand), about `limit` bytes of it.

        It ends with the first claim that brings its survival down to `min_survival`.
        """
        sketch = Sketch(self._estimates, limit=limit, min_survival=min_survival)
        if tracker.done and tracker.is_glue:
            return sketch.finished(complete=True)
        situation = situation.copy()
        is_glue, node, prefix = tracker.is_glue, tracker.node, bytes(tracker.prefix)
        num_forced = 0 if self._with_grammar else _MAX_FORCED
        while not sketch.full:
            if is_glue:
                step = self._glue(sketch, node, prefix, situation)
                if step is not None:
                    text, following = step
                    situation.after_glue(text)
                    if following is None:
                        return sketch.finished(complete=True)
                    is_glue, node, prefix = False, following, b""
                    continue
            else:
                if not prefix and sketch.survival * node.typical < min_survival and sketch.text:
                    # What comes next here is seldom sure enough: not worth finding out.
                    if node.always_quoted:
                        sketch.add(b'"', "structure", node.salt, 1.0)
                    break
                before, num_events = sketch.survival, len(sketch.events)
                written = self._values.write(sketch, node, prefix, situation)
                if not prefix and len(sketch.events) > num_events:
                    first = sketch.events[min(num_events + 1, len(sketch.events) - 1)]
                    node.typical += _FOLLOW * (first[3] / before - node.typical)
                if written is not None:
                    if not written.closed:
                        break
                    situation.after_value(node, written.text, written.end)
                    is_glue, prefix = True, b""
                    if sketch.full:
                        # A closing quote is seldom a token of its own.
                        self._glue(sketch, node, b"", situation)
                    continue
            forced = oracle.forced_after(bytes(sketch.text)) if num_forced < _MAX_FORCED else b""
            num_forced += 1
            if forced:
                sketch.add(forced, "grammar", 0, 1.0)
                ahead = tracker.clone()
                for _ in ahead.feed(bytes(sketch.text)):
                    pass
                if ahead.done and ahead.is_glue:
                    return sketch.finished(complete=True)
                is_glue, node, prefix = ahead.is_glue, ahead.node, bytes(ahead.prefix)
            elif is_glue or not prefix:
                break
            else:
                end = self._values.end(sketch, node, prefix, output)
                if end is None:
                    break
                situation.after_value(node, end, None)
                is_glue, prefix = True, b""
        return sketch.finished(complete=False)

    def _glue(
        self, sketch: Sketch, node: Node, prefix: bytes, situation: Situation
    ) -> tuple[bytes, Node | None] | None:
        """Write the structure after the value of `node`; returns (all of it, the path of the next value)."""
        decision = node.glue
        outcomes = decision.outcomes
        if not outcomes or not self._with_structure:
            return None
        if len(outcomes) == 1:
            best, claimed = outcomes[0], decision.total / (decision.total + 0.2)
            if not best.text.startswith(prefix):
                return None
        elif decision.dominant >= 0 and not prefix:
            best, claimed = outcomes[decision.dominant], DOMINANT
        else:
            possible = [i for i, o in enumerate(outcomes) if o.text.startswith(prefix)] if prefix else None
            if possible is not None and len(possible) < 2:
                if not possible:
                    return None
                best, claimed = outcomes[possible[0]], 0.97
            else:
                chances = self._evidence.glue_choice(node, situation).chances
                if possible is None:
                    claimed = max(chances)
                    best = outcomes[chances.index(claimed)]
                else:
                    top = max(possible, key=lambda i: chances[i])
                    best, claimed = outcomes[top], chances[top] / (sum([chances[i] for i in possible]) + 0.02)
        sketch.add(best.text[len(prefix) :], "structure", node.salt, claimed)
        return best.text, best.following
