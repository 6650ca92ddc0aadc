"""The line a person watches during a run."""

from __future__ import annotations

import time

from pipeline.metrics import Counts


class ProgressLine:
    """Turns counts into one line. ``num_total`` documents, of which ``num_resumed`` were done before.

    Counts are of texts handed to the engine (``num_work`` of them); documents are told in proportion.
    """

    def __init__(self, *, num_total: int, num_resumed: int, num_work: int, now_s: float | None = None) -> None:
        self._num_total = num_total
        self._num_resumed = num_resumed
        self._num_work = max(num_work, 1)
        self._started_s = time.monotonic() if now_s is None else now_s
        self._base: tuple[float, int, int] | None = None

    def render(self, counts: Counts, *, now_s: float | None = None) -> str:
        """``done/total documents, rates, verdicts, time left``."""
        now = time.monotonic() if now_s is None else now_s
        share = min(counts.done / self._num_work, 1.0)
        done = self._num_resumed + int((self._num_total - self._num_resumed) * share)
        head = f"{done}/{self._num_total} documents"
        tokens = counts.prompt_tokens + counts.output_tokens
        if counts.done == 0:
            return f"{head}, starting the engine ({now - self._started_s:.0f} s)"
        if self._base is None:
            self._base = (now, counts.done, tokens)
        elapsed = now - self._base[0]
        verdicts = f"{counts.records} valid, {counts.retried} retried, {counts.rejects} rejected"
        if elapsed < 1 or counts.done == self._base[1]:
            return f"{head}, {verdicts}"
        rate = (counts.done - self._base[1]) / elapsed
        left = format_duration((self._num_work - counts.done) / rate)
        speed = f"{rate:.1f}/s, {(tokens - self._base[2]) / elapsed:.0f} tokens/s{_speculation(counts)}"
        return f"{head}, {speed}, {verdicts}, {left} left"


def _speculation(counts: Counts) -> str:
    """What DSpark gains, once it drafts."""
    steps = counts.engine.get("num_decode_steps")
    return f" ({counts.engine['num_tokens'] / steps:.1f} per step)" if steps else ""


def format_duration(seconds: float) -> str:
    """``7 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
