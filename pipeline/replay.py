"""Which rejects may come out otherwise when they are done again, and what helps the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pipeline.data import RejectReason
from pipeline.errors import ConfigError

_AT_FAULT = "the document is at fault: correct the input and run the job again"
_HELP: Mapping[RejectReason, str] = {
    RejectReason.EMPTY_INPUT: _AT_FAULT,
    RejectReason.UNDECODABLE_INPUT: _AT_FAULT,
    RejectReason.PROFILE_LOSS: (
        "the journal has a record, which the profile cannot carry: run the job again with another --profile, "
        "which needs no GPU"
    ),
    RejectReason.UNGROUNDED: (
        "the journal has a record, and the same prompt gives the same one again: run the job again with "
        "--ungrounded null or other --require-grounding fields, which needs no GPU, or with other instructions "
        "into another --output"
    ),
}
"""Reasons that a replay cannot touch: the last two arise when outputs are written, from records that are there."""

REPLAYABLE = tuple(sorted(str(reason) for reason in RejectReason if reason not in _HELP))


def check_replayable(reasons: Iterable[str]) -> None:
    """Refuse reasons whose rejects would stay as they are.

    Raises:
        ConfigError: names the first of them, why, and what to do instead.
    """
    for reason in reasons:
        if reason not in REPLAYABLE:
            raise ConfigError(f"a replay changes no {reason} reject", hint=_HELP[RejectReason(reason)])


def left_alone(rejects_by_reason: Mapping[str, int]) -> Iterator[str]:
    """A line for each reason whose rejects a replay leaves alone, with what helps them."""
    for reason, number in sorted(rejects_by_reason.items()):
        if number and reason not in REPLAYABLE:
            stay = "reject stays as it is" if number == 1 else "rejects stay as they are"
            yield f"{number} {reason} {stay}: {_HELP[RejectReason(reason)]}"
