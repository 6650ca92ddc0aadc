"""A drafter that fails costs its request the drafts and nobody anything else; inactive requests are named sparingly."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from pipeline.dspark.drafting import Draft, RequestDrafter
from pipeline.dspark.guarded import GuardedDrafter
from pipeline.dspark.inactive import Inactive

LOG = logging.getLogger("test")


class Failing:
    """Fails in the method that it is told."""

    def __init__(self, where: str = "") -> None:
        self.where = where
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.where:
            raise ValueError("text of a document")

    def observe(self, token_ids: Sequence[int]) -> None:
        self._call("observe")

    def propose(self, matcher: Any, max_tokens: int) -> Draft:
        self._call("propose")
        return Draft([7], np.ones(1, dtype=np.float32), ["grammar"])

    def verified(self, num_verified: int, num_accepted: int) -> None:
        self._call("verified")

    def finish(self) -> None:
        self._call("finish")


def live(drafter: GuardedDrafter) -> list[int]:
    drafter.observe([1])
    draft = drafter.propose(cast(Any, None), 4)
    drafter.verified(1, 1)
    drafter.finish()
    return list(draft.token_ids)


def test_a_sound_drafter_is_used_as_it_is() -> None:
    inner = Failing()
    assert live(GuardedDrafter(lambda: cast(RequestDrafter, inner), log=LOG)) == [7]
    assert inner.calls == ["observe", "propose", "verified", "finish"]


@pytest.mark.parametrize(("where", "draft"), [("observe", []), ("propose", []), ("finish", [7])])
def test_a_fault_ends_the_drafts_of_its_request(caplog: pytest.LogCaptureFixture, where: str, draft: list[int]) -> None:
    drafter = GuardedDrafter(lambda: cast(RequestDrafter, Failing(where)), log=LOG)
    assert live(drafter) == draft
    assert live(drafter) == []
    assert "ValueError in Failing._call" in caplog.text
    assert "text of a document" not in caplog.text
    assert len(caplog.records) == 1


def test_a_drafter_that_cannot_be_made_is_no_drafter(caplog: pytest.LogCaptureFixture) -> None:
    def make() -> RequestDrafter:
        raise KeyError("x")

    assert live(GuardedDrafter(make, log=LOG)) == []
    assert "KeyError" in caplog.text


def test_inactive_requests_are_named_once_a_minute_and_reason() -> None:
    now = [0.0]
    inactive = Inactive(clock=lambda: now[0])
    assert inactive.note("a", "plain text") == "dspark inactive for this request: plain text: a"
    assert inactive.note("a", "plain text") is None
    assert inactive.note("b", "plain text") is None
    assert inactive.note("c", "another reason") is not None
    now[0] = 61.0
    line = inactive.note("d", "plain text")
    assert line is not None
    assert line.endswith("d (and for 1 others since the last such line)")
    assert "a" in inactive
    inactive.forget("a")
    assert "a" not in inactive
