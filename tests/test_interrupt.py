"""An interrupt inside a run is told as one; an interrupt that the caller deals with is no part of the run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from pipeline.run import _is_interrupt
from pipeline.session import _uninterrupted


def chained(error: BaseException, context: BaseException | None) -> BaseException:
    error.__context__ = context
    return error


def test_a_fault_that_an_interrupt_caused_is_an_interrupt() -> None:
    assert _is_interrupt(KeyboardInterrupt(), None)
    assert _is_interrupt(chained(ConnectionError(), chained(OSError(), KeyboardInterrupt())), None)


def test_a_fault_of_its_own_is_none_also_while_the_caller_handles_an_interrupt() -> None:
    handled = KeyboardInterrupt()
    assert not _is_interrupt(ValueError(), None)
    assert not _is_interrupt(chained(ValueError(), handled), handled)


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """As in a terminal: what a shell starts in the background ignores interrupts, and so would the test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_waits_until_spark_has_started() -> None:
    before = signal.getsignal(signal.SIGINT)
    reached = []

    def start() -> None:
        with _uninterrupted():
            signal.raise_signal(signal.SIGINT)
            reached.append("end")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == ["end"]
    assert signal.getsignal(signal.SIGINT) is before


def test_threads_start_spark_as_ever() -> None:
    done = []

    def start() -> None:
        with _uninterrupted():
            done.append(True)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert done == [True]
