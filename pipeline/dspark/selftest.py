"""The test at start: the cost table is measured, then a few prompts are decoded with and without DSpark.

At temperature 0 both must give the same tokens under the grammar. The prompts repeat a record, so that the model's
choices are clear and a difference is a fault and not a near-tie that another batch shape tips; where one is found, the
prompt is decoded plainly once more, alone and so in another batch shape, and either counts as right.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

GRAMMAR = r"""root ::= "{" id ", " name ", " kind ", " count "}"
id ::= "\"id\": \"" [A-Z] [0-9]{3} "\""
name ::= "\"name\": \"" [A-Za-z] [A-Za-z ]{0,30} "\""
kind ::= "\"kind\": \"" ("letter" | "parcel" | "pallet") "\""
count ::= "\"count\": " [1-9]
"""
_RECORDS = (
    {"id": "K407", "name": "Anna Lindgren", "kind": "parcel", "count": 3},
    {"id": "B215", "name": "Tomas Okafor", "kind": "letter", "count": 7},
    {"id": "Q998", "name": "Maria del Campo", "kind": "pallet", "count": 1},
)
_MAX_TOKENS = 80
_MAX_FILLED_TOKENS = 16  # fillers are nearly always wrong, so each of these is a step
_SIZES = ((1, 0), (1, 1), (1, 3), (1, 7), (1, 15), (1, 31), (4, 0), (4, 15), (4, 31), (8, 0), (8, 31))
"""(requests, draft tokens of each) of the measured steps."""
_MEASURED_STEPS = 3


class Decoder(Protocol):
    """What the self-test needs of an engine."""

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text."""

    def text(self, token_ids: Sequence[int]) -> str:
        """Text of output tokens, without the end token."""

    def decode(
        self, prompts: Sequence[Sequence[int]], *, grammar: str, max_tokens: int, dspark: Mapping[str, Any]
    ) -> list[list[int]]:
        """Output tokens for all ``prompts``, decoded together at temperature 0 (``dspark``: see RequestSettings)."""


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """``passed`` False: decode plainly, ``reason`` says why."""

    passed: bool
    reason: str
    num_tokens: int
    elapsed_s: float


def measure_costs(decoder: Decoder, *, max_requests: int) -> None:
    """Take steps of known sizes through the engine, so that the scheduler's cost table starts with measured times."""
    prompt = decoder.encode("A list of letters:")
    for num_requests, num_filler in _SIZES:
        if num_requests > max_requests:
            continue
        # Fillers are nearly always wrong, so a step emits one token; the first comes from the prefill.
        decoder.decode(
            [[*prompt, *prompt[:index]] for index in range(num_requests)],
            grammar='root ::= "x" [^x]* "x"',
            max_tokens=1 + _MEASURED_STEPS,
            dspark={"num_filler": num_filler} if num_filler else {"enabled": False},
        )


def self_test(decoder: Decoder) -> SelfTestResult:
    """Decode with and without DSpark and compare. Never raises for a wrong result; engine faults pass through."""
    started = time.monotonic()
    prompts = [decoder.encode((json.dumps(record) + "\n") * 3) for record in _RECORDS]

    def decode(some: Sequence[Sequence[int]], max_tokens: int = _MAX_TOKENS, **dspark: Any) -> list[list[int]]:
        return decoder.decode(some, grammar=GRAMMAR, max_tokens=max_tokens, dspark=dspark)

    plain = decode(prompts, enabled=False)
    tried = {
        "with drafts": (_MAX_TOKENS, decode(prompts)),
        "with drafts again": (_MAX_TOKENS, decode(prompts)),
        "with fillers": (_MAX_FILLED_TOKENS, decode(prompts, _MAX_FILLED_TOKENS, num_filler=4)),
    }
    reason = next(filter(None, (_fault(decoder.text(output)) for output in plain)), "")
    for name, (limit, outputs) in tried.items():
        for prompt, right, output in zip(prompts, plain, outputs, strict=True):
            if output == right[:limit] or output == decode([prompt], limit, enabled=False)[0]:
                continue
            reason = f"the output {name} differs: {decoder.text(output)!r} instead of {decoder.text(right)!r}"
    num_tokens = sum(len(output) for _, outputs in tried.values() for output in outputs)
    return SelfTestResult(not reason, reason or "outputs identical and valid", num_tokens, time.monotonic() - started)


def _fault(text: str) -> str:
    """Why a self-test output does not follow the grammar; empty where it does."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"the output {text!r} is not JSON: {error}"
    if not isinstance(value, dict) or list(value) != list(_RECORDS[0]):
        return f"the output {text!r} does not follow the grammar"
    return ""
