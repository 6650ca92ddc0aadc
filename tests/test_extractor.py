"""The extraction loop with the scripted engine: every reject reason, every retry path, one outcome per chunk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.chunking import halve
from pipeline.config import DecodingConfig, PromptConfig
from pipeline.data import Chunk, Outcome, Record, Reject, RejectReason
from pipeline.errors import EngineError, EngineStalledError
from pipeline.extractor import Extractor
from pipeline.merging import Merger
from pipeline.prompting import Prompting
from pipeline.schema import load_schema
from pipeline.testing import CharacterTokenizer, Script, Scripted, ScriptedEngine
from pipeline.validation import Validator

SCHEMA = load_schema(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "items": {"type": "array", "items": {"type": "string"}}},
        "required": ["name", "items"],
    }
)
GOOD = '{"name": "a", "items": ["x"]}'


def chunk(text: str, doc_id: str = "d") -> Chunk:
    return Chunk(doc_id, 0, 1, text, 0, len(text), f"key-{doc_id}", len(text))


def extractor(
    script: Script, *, splitting: bool = False, engine_options: dict[str, Any] | None = None, **options: Any
) -> tuple[Extractor, ScriptedEngine]:
    engine = ScriptedEngine(script, **(engine_options or {}))
    tokenizer = CharacterTokenizer()
    decoding = options.pop("decoding", DecodingConfig(max_output_tokens=100))
    if splitting:
        overlap = options.pop("overlap_tokens", 0)
        options["split"] = lambda c: halve(
            c, tokenizer=tokenizer, key_for=lambda text: f"half:{text}", overlap_tokens=overlap
        )
        options["merge"] = Merger(SCHEMA.json_schema)
    prompter = Prompting(tokenizer, config=PromptConfig(show_schema=False), json_schema=SCHEMA.json_schema)
    loop = Extractor(
        engine, prompter=prompter, validator=Validator(SCHEMA), grammar="root ::= x", decoding=decoding, **options
    )
    return loop, engine


def only(outcomes: Iterator[Outcome]) -> Outcome:
    (outcome,) = list(outcomes)
    return outcome


def script_of(*answers: str | Scripted) -> Callable[[str, int], str | Scripted]:
    return lambda text, attempt: answers[min(attempt, len(answers)) - 1]


def test_a_valid_output_becomes_a_record() -> None:
    loop, _ = extractor(script_of(GOOD))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert record.value == json.loads(GOOD)
    assert [a.number for a in record.attempts] == [1]
    assert record.attempts[0].output_tokens == len(GOOD)


def test_an_invalid_output_is_retried_once_with_the_field_errors() -> None:
    prompts: list[str] = []

    class Recording(ScriptedEngine):
        def submit(self, request: Any) -> None:
            prompts.append("".join(map(chr, request.prompt_token_ids)))
            super().submit(request)

    loop, _ = extractor(script_of('{"name": 1, "items": []}', GOOD))
    loop._engine = Recording(script_of('{"name": 1, "items": []}', GOOD))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert len(record.attempts) == 2
    assert "/name" in prompts[1]
    assert '{"name": 1, "items": []}' in prompts[1]
    assert prompts[1].startswith(prompts[0].removesuffix("</user><assistant>"))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('{"name": 1, "items": []}', RejectReason.SCHEMA_MISMATCH),
        ('{"name": "a"', RejectReason.INVALID_JSON),
        ('{"name": "a", "name": "b", "items": []}', RejectReason.INVALID_JSON),
    ],
)
def test_what_is_still_invalid_after_the_retry_is_rejected_with_its_reason(raw: str, reason: RejectReason) -> None:
    loop, engine = extractor(script_of(raw))
    reject = only(loop.run([chunk("text")]))
    assert isinstance(reject, Reject)
    assert reject.reason is reason
    assert [a.raw_output for a in reject.attempts] == [raw, raw]
    assert reject.errors
    assert engine.num_submitted == 2


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_max_retries_counts_validation_retries(max_retries: int) -> None:
    loop, engine = extractor(script_of("[]"), decoding=DecodingConfig(max_output_tokens=100, max_retries=max_retries))
    assert isinstance(only(loop.run([chunk("text")])), Reject)
    assert engine.num_submitted == max_retries + 1


def test_a_truncated_output_gets_a_larger_budget_once_and_the_same_prompt() -> None:
    long = json.dumps({"name": "n" * 150, "items": []})
    loop, engine = extractor(script_of(long))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert [a.finish_reason for a in record.attempts] == ["length", "stop"]
    assert record.attempts[0].prompt_tokens == record.attempts[1].prompt_tokens
    assert engine.num_submitted == 2


def test_an_output_that_is_still_truncated_is_split_and_merged() -> None:
    def script(text: str, attempt: int) -> str:
        lines = [line for line in text.splitlines() if line]
        return json.dumps({"name": "n", "items": lines})

    lines = "\n".join(f"line {i} {'x' * 30}" for i in range(12))
    loop, _ = extractor(script, splitting=True)
    record = only(loop.run([chunk(lines)]))
    assert isinstance(record, Record)
    assert record.value["items"] == lines.splitlines()
    assert record.chunk.text == lines
    assert [a.number for a in record.attempts] == list(range(1, len(record.attempts) + 1))


def test_an_endless_output_is_rejected_as_truncated_after_bounded_work() -> None:
    loop, engine = extractor(script_of(Scripted("{", "length")), splitting=True)
    reject = only(loop.run([chunk("a. b. c. d. e. f. g. h. " * 20)]))
    assert isinstance(reject, Reject)
    assert reject.reason is RejectReason.TRUNCATED
    assert engine.num_submitted <= 2 * (2**4 - 1)


@pytest.mark.parametrize("first_steps", [1, 5])
def test_attempts_of_halves_stand_in_the_order_of_the_halves_whichever_is_done_first(first_steps: int) -> None:
    def script(text: str, attempt: int) -> str | Scripted:
        if len(text) > 60:
            return Scripted("{", "length")
        return Scripted("1", num_steps=first_steps) if text.startswith("first") else Scripted("2", num_steps=3)

    loop, _ = extractor(script, splitting=True, decoding=DecodingConfig(truncation_factor=1))
    reject = only(loop.run([chunk("first half has words.\n\n" + "other half has more of them, and some.")]))
    assert [(a.number, a.raw_output) for a in reject.attempts] == list(zip(range(1, 6), "{1122", strict=True))


def test_a_split_that_conflicts_is_a_merge_conflict() -> None:
    answers = iter(range(100))

    def script(text: str, attempt: int) -> str | Scripted:
        if len(text) > 60:
            return Scripted("{", "length")
        return json.dumps({"name": f"n{next(answers)}", "items": []})

    loop, _ = extractor(script, splitting=True)
    loop._merge = lambda values: "field name differs"
    reject = only(loop.run([chunk("some words here. " * 6)]))
    assert isinstance(reject, Reject)
    assert reject.reason is RejectReason.MERGE_CONFLICT
    assert "name" in reject.detail


def test_a_prompt_beyond_the_context_is_rejected_without_being_submitted() -> None:
    loop, engine = extractor(script_of(GOOD), engine_options={"max_model_len": 200})
    reject = only(loop.run([chunk("x" * 500)]))
    assert isinstance(reject, Reject)
    assert reject.reason is RejectReason.TOO_LONG
    assert "200" in reject.detail
    assert engine.num_submitted == 0


@pytest.mark.parametrize("text", ["", "   \n\t ", "\u3000"])
def test_a_document_without_text_is_empty_input(text: str) -> None:
    loop, engine = extractor(script_of(GOOD))
    reject = only(loop.run([chunk(text)]))
    assert isinstance(reject, Reject)
    assert reject.reason is RejectReason.EMPTY_INPUT
    assert engine.num_submitted == 0


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_request_that_the_engine_refuses_is_rejected_and_the_rest_goes_on(reason: Any) -> None:
    loop, _ = extractor(lambda text, attempt: Scripted("{", reason) if text == "bad" else GOOD)
    outcomes = {o.chunk.doc_id: o for o in loop.run([chunk("bad", "1"), chunk("good", "2")])}
    rejected = outcomes["1"]
    assert isinstance(rejected, Reject)
    assert rejected.reason is RejectReason.REFUSED_BY_ENGINE
    assert isinstance(outcomes["2"], Record)


def test_a_document_over_its_time_limit_times_out() -> None:
    now = iter(float(i) for i in range(100_000))
    loop, _ = extractor(
        lambda text, attempt: Scripted(GOOD, num_steps=10_000 if text == "slow" else 1),
        document_timeout_s=50,
        clock=lambda: next(now),
    )
    outcomes = {o.chunk.doc_id: o for o in loop.run([chunk("slow", "1"), chunk("quick", "2")])}
    timed_out = outcomes["1"]
    assert isinstance(timed_out, Reject)
    assert timed_out.reason is RejectReason.TIMEOUT
    assert isinstance(outcomes["2"], Record)


def test_an_engine_without_progress_raises_stalled() -> None:
    now = iter(float(i) for i in range(100_000))
    loop, engine = extractor(script_of(Scripted(GOOD, num_steps=10**9)), stall_timeout_s=100, clock=lambda: next(now))
    with pytest.raises(EngineStalledError, match="1 requests in flight"):
        list(loop.run([chunk("text")]))
    assert not engine._waiting  # aborted


def test_an_engine_fault_is_never_a_row_error() -> None:
    def script(text: str, attempt: int) -> str:
        raise EngineError("the device is gone")

    loop, _ = extractor(script)
    with pytest.raises(EngineError, match="device is gone"):
        list(loop.run([chunk("text")]))


def test_the_engine_is_kept_full_and_input_is_pulled_only_as_needed() -> None:
    pulled = 0

    def chunks() -> Iterator[Chunk]:
        nonlocal pulled
        for index in range(50):
            pulled += 1
            yield chunk(f"t{index}", str(index))

    loop, engine = extractor(script_of(Scripted(GOOD, num_steps=3)), max_in_flight=4)
    outcomes = loop.run(chunks())
    next(outcomes)
    assert pulled <= 8
    assert len(list(outcomes)) == 49
    assert engine.peak_in_flight == 4
    assert engine.num_steps <= 3 * (50 / 4 + 2)


ANSWERS = st.sampled_from(
    [
        GOOD,
        "{",
        "[]",
        '{"name": 1}',
        "x" * 300,
        Scripted(GOOD, num_steps=5),
        Scripted("{", "length"),
        Scripted("", "abort"),
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(st.text(max_size=30), max_size=25),
    answers=st.lists(ANSWERS, min_size=1, max_size=12),
    max_in_flight=st.integers(1, 8),
    splitting=st.booleans(),
    max_retries=st.integers(0, 2),
)
def test_exactly_one_outcome_per_chunk_whatever_the_engine_says(
    texts: list[str], answers: list[str | Scripted], max_in_flight: int, splitting: bool, max_retries: int
) -> None:
    count = 0

    def script(text: str, attempt: int) -> str | Scripted:
        nonlocal count
        count += 1
        return answers[count % len(answers)]

    loop, _ = extractor(
        script,
        splitting=splitting,
        max_in_flight=max_in_flight,
        decoding=DecodingConfig(max_output_tokens=100, max_retries=max_retries),
    )
    chunks = [chunk(text, str(index)) for index, text in enumerate(texts)]
    outcomes = list(loop.run(chunks))
    assert sorted(o.chunk.doc_id for o in outcomes) == sorted(c.doc_id for c in chunks)
    for outcome in outcomes:
        if isinstance(outcome, Record):
            assert outcome.value == json.loads(outcome.json)
            assert Validator(SCHEMA).validate(outcome.json).value == outcome.value  # type: ignore[union-attr]
