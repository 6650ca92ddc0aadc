"""How long to wait before a request is sent again: exponential with jitter, longer where the server says so."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_S = 300.0
"""Longest wait that a server may ask for; beyond, it is asked again."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of ``first_s`` doubled up to ``longest_s``, each drawn from the upper half ("equal jitter").

    Tasks that were refused together thus come back at different times and never at once.
    """

    first_s: float = 0.5
    longest_s: float = 30.0
    draw: Callable[[], float] = random.random

    def wait_s(self, num_failures: int) -> float:
        """Seconds before the next try after ``num_failures`` (from 1) failures in a row."""
        full = min(self.longest_s, self.first_s * 2.0 ** min(num_failures - 1, 32))
        return full * (0.5 + 0.5 * self.draw())


def retry_after_s(value: str | None, *, now: Callable[[], float] = time.time) -> float | None:
    """The header ``Retry-After`` (seconds, or a date) as seconds from now; None where it says nothing usable."""
    if value is None:
        return None
    text = value.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now()
        except ValueError:
            return None
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)
