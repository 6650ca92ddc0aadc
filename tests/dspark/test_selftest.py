"""The self-test passes where outputs agree and names what differs where they do not."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.dspark.selftest import measure_costs, self_test


class EchoDecoder:
    """Answers each prompt with its first line; ``broken`` changes answers where drafting is on."""

    def __init__(self, broken: str | None = None) -> None:
        self.broken = broken
        self.calls: list[tuple[int, Mapping[str, Any]]] = []

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))

    def decode(
        self, prompts: Sequence[Sequence[int]], *, grammar: str, max_tokens: int, dspark: Mapping[str, Any]
    ) -> list[list[int]]:
        self.calls.append((len(prompts), dspark))
        answers = [self.text(prompt).split("\n")[0] for prompt in prompts]
        if self.broken is not None and dspark.get("enabled", True):
            answers[-1] = self.broken
        return [self.encode(answer)[:max_tokens] for answer in answers]


def test_equal_outputs_pass() -> None:
    result = self_test(EchoDecoder())
    assert result.passed
    assert result.num_tokens > 0


def test_a_different_output_fails_and_is_shown() -> None:
    result = self_test(EchoDecoder(broken='{"id": "X000"}'))
    assert not result.passed
    assert "X000" in result.reason


def test_an_output_that_ends_early_fails() -> None:
    class Short(EchoDecoder):
        def decode(self, prompts: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
            outputs = super().decode(prompts, **options)
            return [output[:5] for output in outputs] if options["dspark"].get("num_filler") else outputs

    assert "with fillers differs" in self_test(Short()).reason


def test_equal_outputs_outside_the_grammar_fail() -> None:
    class Free(EchoDecoder):
        def decode(self, prompts: Sequence[Sequence[int]], **_: Any) -> list[list[int]]:  # type: ignore[override]
            return [self.encode("no json") for _ in prompts]

    result = self_test(Free())
    assert not result.passed
    assert "not JSON" in result.reason


def test_a_near_tie_that_another_batch_shape_tips_is_no_fault() -> None:
    class Tipping(EchoDecoder):
        def decode(self, prompts: Sequence[Sequence[int]], **options: Any) -> list[list[int]]:
            plain_together = len(prompts) > 1 and not options["dspark"].get("enabled", True)
            outputs = super().decode(prompts, **{**options, "max_tokens": 1000})
            if not plain_together:
                record = json.loads(self.text(outputs[0]))
                outputs[0] = self.encode(json.dumps({**record, "count": 9}))
            return [output[: options["max_tokens"]] for output in outputs]

    assert self_test(Tipping()).passed


def test_costs_are_measured_with_drafts_of_known_sizes() -> None:
    decoder = EchoDecoder()
    measure_costs(decoder, max_requests=4)
    assert max(number for number, _ in decoder.calls) == 4
    assert {dspark.get("num_filler", 0) for _, dspark in decoder.calls} >= {0, 1, 15, 31}
