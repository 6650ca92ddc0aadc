"""Waits before another try: growing, spread, and as the server asks."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from pipeline.backoff import MAX_RETRY_AFTER_S, Backoff, retry_after_s


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(first_s=1.0, longest_s=8.0, draw=lambda: 1.0)
    assert [backoff.wait_s(n) for n in (1, 2, 3, 4, 5, 500)] == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_waits_are_spread_over_the_upper_half() -> None:
    assert Backoff(first_s=1.0, draw=lambda: 0.0).wait_s(2) == 1.0
    waits = {Backoff(first_s=1.0).wait_s(2) for _ in range(20)}
    assert len(waits) > 10
    assert all(1.0 <= wait <= 2.0 for wait in waits)


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    assert retry_after_s("3") == 3.0
    date = format_datetime(datetime.fromtimestamp(1_000_007, UTC), usegmt=True)
    assert retry_after_s(date, now=lambda: 1_000_000.0) == 7.0
    assert retry_after_s(date, now=lambda: 2_000_000.0) == 0.0


@pytest.mark.parametrize("value", [None, "", "soon", "nan", "Wed, 99 Foo"])
def test_an_unusable_retry_after_says_nothing(value: str | None) -> None:
    assert retry_after_s(value) is None


def test_a_server_cannot_ask_to_wait_for_days() -> None:
    assert retry_after_s("864000") == MAX_RETRY_AFTER_S
    assert retry_after_s("-5") == 0.0
    assert retry_after_s("inf") == MAX_RETRY_AFTER_S
