"""The text that stood after the same words before: in the prompt with its examples, or in the output so far.

Models repeat themselves, across values and structure, and small ones write an example's record instead of the
document's. How long the repetition already is says how likely it goes on.
"""

from __future__ import annotations

from pipeline.dspark.estimates import Estimates
from pipeline.dspark.plan import Event, Plan

_TAILS = (6, 12, 24)
_LONGEST_MATCH = 96
# Searching more takes longer than the rest of drafting.
_MAX_SEARCHED = 1 << 16
# Bytes of one claim: about a token.
_STEP = 4
# What is claimed by bytes repeated already, before anything was learned: 6, 12, 24, 48 and more.
_CLAIMED = (0.3, 0.55, 0.75, 0.9, 0.95)


class Repetition:
    """Continues one request's text; ``prompt`` is all that the model read. The last 64 KiB of both are searched."""

    def __init__(self, prompt: bytes, estimates: Estimates) -> None:
        self._text = bytearray(prompt[-_MAX_SEARCHED:])
        self._estimates = estimates

    def observe(self, data: bytes) -> None:
        """The model wrote ``data``."""
        self._text += data

    def plan(self, *, limit: int, min_survival: float) -> Plan | None:
        """About ``limit`` bytes that followed the last 24, 12 or 6 bytes when they last stood there before.

        None where not even the last 6 did.
        """
        text, found = self._text, -1
        first = max(0, len(text) - _MAX_SEARCHED)
        for size in _TAILS:
            at = text.rfind(text[-size:], first, len(text) - 1) if len(text) > size else -1
            if at < 0:
                break
            found = at + size
        return self._continue(found, limit, min_survival) if found >= 0 else None

    def _continue(self, at: int, limit: int, min_survival: float) -> Plan:
        text = self._text
        matched, longest = 0, min(_LONGEST_MATCH, at)
        while matched < longest and text[at - matched - 1] == text[-matched - 1]:
            matched += 1
        continuation = bytes(text[at : at + limit])
        if len(continuation) < limit:  # a loop: what came once comes again
            continuation = (continuation * (limit // len(continuation) + 1))[:limit]
        continuation = _without_cut_character(continuation)
        events: list[Event] = []
        survival, offset = 1.0, 0
        while offset < len(continuation) and survival > min_survival:
            end = min(offset + _STEP, len(continuation))
            level = (matched + offset).bit_length()
            claimed = _CLAIMED[min(max(level - 3, 0), len(_CLAIMED) - 1)]
            estimate = self._estimates.of("repetition", level, claimed)
            survival *= estimate.chance(claimed)
            events.append((offset, end, "repetition", survival, estimate))
            offset = end
        return Plan(_without_cut_character(continuation[:offset]), events, False)


def _without_cut_character(data: bytes) -> bytes:
    """The bytes without the start of a UTF-8 character whose rest is missing; how they begin does not matter."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if back >= size else data[:-back]
        if byte < 0x80:
            return data
    return data


def expected_bytes(plan: Plan) -> float:
    """How much of a plan is expected to come true."""
    return sum((end - offset) * survival for offset, end, _, survival, _ in plan.events)
