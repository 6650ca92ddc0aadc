"""Says which requests DSpark does not work on, and why, without a line for each of thousands."""

from __future__ import annotations

import time
from collections.abc import Callable

_INTERVAL_S = 60.0


class Inactive:
    """Counts requests by reason; a line for the first, then at most one a minute and reason.

    ``clock`` is injected for tests; seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: set[str] = set()
        self._said_s: dict[str, float] = {}
        self._num_unsaid: dict[str, int] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._known

    def note(self, request_id: str, reason: str) -> str | None:
        """The line to log for a request seen for the first time; None where none is due."""
        if request_id in self._known:
            return None
        self._known.add(request_id)
        now = self._clock()
        if now - self._said_s.get(reason, -_INTERVAL_S) < _INTERVAL_S:
            self._num_unsaid[reason] = self._num_unsaid.get(reason, 0) + 1
            return None
        self._said_s[reason] = now
        others = self._num_unsaid.pop(reason, 0)
        more = f" (and for {others} others since the last such line)" if others else ""
        return f"dspark inactive for this request: {reason}: {request_id}{more}"

    def forget(self, request_id: str) -> None:
        """The request has ended."""
        self._known.discard(request_id)
