"""The text that stood after the same words before: in the prompt with its examples, or in the output so far.

Models repeat themselves, and small ones write an example's record instead of the document's. No other drafter expects
that; how long the repetition already is says how likely it goes on.
"""

from __future__ import annotations

from pipeline.dspark.estimates import Estimates
from pipeline.dspark.plan import Event, Plan

_TAILS = (24, 12, 6)
_LONGEST_MATCH = 96
# Searching more takes longer than the rest of drafting.
_MAX_PROMPT_BYTES = 1 << 16
# Bytes of one claim: about a token.
_STEP = 4
# What is claimed by bytes repeated already, before anything was learned: 6, 12, 24, 48 and more.
_CLAIMED = (0.3, 0.55, 0.75, 0.9, 0.95)


class Repetition:
    """Continues one request's text; ``prompt`` is all that the model read, of which the last 64 KiB are kept."""

    def __init__(self, prompt: bytes, estimates: Estimates) -> None:
        self._text = bytearray(prompt[-_MAX_PROMPT_BYTES:])
        self._estimates = estimates

    def observe(self, data: bytes) -> None:
        """The model wrote ``data``."""
        self._text += data

    def plan(self, *, limit: int, min_survival: float) -> Plan | None:
        """About ``limit`` bytes that followed the longest repeated end of the text; None where nothing repeats."""
        text = self._text
        for size in _TAILS:
            if len(text) <= size:
                continue
            at = text.rfind(text[-size:], 0, len(text) - 1)
            if at >= 0:
                return self._continue(at + size, size, limit, min_survival)
        return None

    def _continue(self, at: int, size: int, limit: int, min_survival: float) -> Plan:
        text = self._text
        matched, longest = size, min(_LONGEST_MATCH, at)
        while matched < longest and text[at - matched - 1] == text[-matched - 1]:
            matched += 1
        # Ends where a character ends.
        continuation = text[at : at + limit].decode("utf-8", "ignore").encode()
        events: list[Event] = []
        survival, offset = 1.0, 0
        while offset < len(continuation) and survival > min_survival:
            end = min(offset + _STEP, len(continuation))
            level = (matched + offset).bit_length()
            claimed = _CLAIMED[min(max(level - 3, 0), len(_CLAIMED) - 1)]
            estimate = self._estimates.of("output", level, claimed)
            survival *= estimate.chance(claimed)
            events.append((offset, end, "output", survival, estimate))
            offset = end
        return Plan(continuation[:offset], events, False)


def expected_bytes(plan: Plan) -> float:
    """How much of a plan is expected to come true."""
    return sum((end - offset) * survival for offset, end, _, survival, _ in plan.events)
