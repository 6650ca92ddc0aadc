"""A drafter whose faults cost its own request's drafts and nothing else: a server goes on for everybody."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np

from pipeline.dspark.drafting import Draft, Matcher, RequestDrafter

_NOTHING = Draft([], np.zeros(0, dtype=np.float32), [])


class GuardedDrafter:
    """Implements what the coordinator uses of :class:`RequestDrafter`.

    Drafts are proposals, so decoding without them is always right. After a fault the request decodes plainly. The log
    says what failed and where, and nothing of the document.
    """

    def __init__(self, make: Callable[[], RequestDrafter], *, log: logging.Logger) -> None:
        self._log = log
        self._inner: RequestDrafter | None = None
        try:
            self._inner = make()
        except Exception as error:
            self._give_up(error)

    def observe(self, token_ids: Sequence[int]) -> None:
        try:
            if self._inner is not None:
                self._inner.observe(token_ids)
        except Exception as error:
            self._give_up(error)

    def propose(self, matcher: Matcher, max_tokens: int) -> Draft:
        try:
            return _NOTHING if self._inner is None else self._inner.propose(matcher, max_tokens)
        except Exception as error:
            self._give_up(error)
            return _NOTHING

    def verified(self, num_verified: int, num_accepted: int) -> None:
        if self._inner is not None:
            self._inner.verified(num_verified, num_accepted)

    def finish(self) -> None:
        try:
            if self._inner is not None:
                self._inner.finish()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._inner = None
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f"{place.tb_frame.f_code.co_qualname}:{place.tb_lineno}" if place is not None else "?"
        self._log.warning("dspark is off for one request, a drafter failed: %s in %s", type(error).__name__, where)
