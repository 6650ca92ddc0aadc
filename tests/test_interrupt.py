"""An interrupt inside a run is told as one; an interrupt that the caller deals with is no part of the run."""

from __future__ import annotations

from pipeline.run import _is_interrupt


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
