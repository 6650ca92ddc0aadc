"""Further passes in the extraction loop: lists gain, nothing is lost, exactly one outcome per chunk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import DecodingConfig
from pipeline.data import Chunk, Record, Reject, is_retried
from pipeline.testing import Scripted
from pipeline.uniting import Uniter
from pipeline.validation import Validator
from tests.test_extractor import SCHEMA, chunk, extractor, only, script_of

UNITE = Uniter(SCHEMA.json_schema, validator=Validator(SCHEMA))


def answer(*items: str, name: str = "a") -> str:
    return json.dumps({"name": name, "items": list(items)})


def passes(number: int, **options: Any) -> dict[str, Any]:
    return {"decoding": DecodingConfig(max_output_tokens=100, passes=number, **options), "unite": UNITE}


def test_a_second_pass_sees_what_was_found_and_adds_what_was_missed() -> None:
    loop, engine = extractor(script_of(answer("x"), answer("x", "y", name="b")), **passes(2))
    prompts: list[str] = []
    submit = engine.submit

    def recording(request: Any) -> None:
        prompts.append("".join(map(chr, request.prompt_token_ids)))
        submit(request)

    engine.submit = recording  # type: ignore[method-assign]
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert record.value == {"name": "a", "items": ["x", "y"]}
    assert json.loads(record.json) == record.value
    assert [(a.number, a.output_tokens) for a in record.attempts] == [(1, len(answer("x"))), (2, len(answer("x", "y")))]
    assert not is_retried(record.attempts)
    assert json.dumps(json.loads(answer("x")), indent=2) in prompts[1]
    assert prompts[1].startswith(prompts[0].removesuffix("</user><assistant>"))


@pytest.mark.parametrize("number", [1, 2, 4])
def test_passes_end_with_the_first_that_adds_nothing(number: int) -> None:
    loop, engine = extractor(script_of(answer("x"), answer("x", "y"), answer("y", "x"), answer("z")), **passes(number))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert record.value["items"] == ["x", "y"][:number]
    assert engine.num_submitted == min(number, 3)


@pytest.mark.parametrize(
    "failure", ["{", "[]", '{"name": 1, "items": []}', Scripted("{", "length"), Scripted("", "error"), "x" * 300]
)
def test_a_further_pass_that_fails_costs_nothing_but_its_tokens(failure: str | Scripted) -> None:
    loop, engine = extractor(script_of(answer("x"), failure), **passes(3))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert record.value == {"name": "a", "items": ["x"]}
    assert len(record.attempts) == engine.num_submitted == 2


def test_a_retry_before_the_first_record_is_no_pass() -> None:
    loop, engine = extractor(script_of("[]", answer("x"), answer("x", "y")), **passes(2))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert record.value["items"] == ["x", "y"]
    assert engine.num_submitted == 3
    assert is_retried(record.attempts)


def test_without_room_for_another_prompt_the_record_stays() -> None:
    loop, engine = extractor(script_of(answer("x")), engine_options={"max_model_len": 220}, **passes(2))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert engine.num_submitted == 1


def test_a_document_over_its_time_limit_keeps_its_first_record() -> None:
    now = iter(float(i) for i in range(100_000))
    script = script_of(answer("x"), Scripted(answer("y"), num_steps=10_000))
    loop, _ = extractor(script, document_timeout_s=50, clock=lambda: next(now), **passes(2))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert record.value["items"] == ["x"]


def test_the_confidence_of_an_added_item_is_that_of_its_pass() -> None:
    script = script_of(Scripted(answer("x"), probability=0.5), Scripted(answer("x", "y"), probability=0.25))
    loop, _ = extractor(script, confidence=True, **passes(2))
    record = only(loop.run([chunk("text")]))
    assert isinstance(record, Record)
    assert record.confidence is not None
    assert record.confidence["/name"] == record.confidence["/items/0"] == pytest.approx(0.5)
    assert record.confidence["/items/1"] == pytest.approx(0.25)


def test_halves_of_a_truncated_chunk_overlap_and_merge_without_doubles() -> None:
    texts: list[str] = []

    def script(text: str, attempt: int) -> str:
        texts.append(text)
        return json.dumps({"name": "n", "items": [line for line in text.splitlines() if line]})

    lines = "\n".join(f"line {i} {'x' * 14}" for i in range(16))
    loop, _ = extractor(script, splitting=True, overlap_tokens=30, **passes(1))
    record = only(loop.run([chunk(lines)]))
    assert isinstance(record, Record)
    assert record.value["items"] == lines.splitlines()
    assert sum(len(text) for text in texts[2:4]) > len(lines) + 20  # the halves hold a line twice


def read(text: str, attempt: int) -> str:
    """A perfect extractor: the name's line, and every row; the second time it still finds nothing else."""
    name = re.search(r"^Name: (.+)$", text, re.MULTILINE)
    return json.dumps(
        {"name": name[1] if name else "", "items": re.findall(r"^row ([A-Z]-[0-9]+)$", text, re.MULTILINE)}
    )


@settings(max_examples=100, deadline=None)
@given(
    numbers=st.lists(st.from_regex(r"[A-Z]-[0-9]{1,6}", fullmatch=True), max_size=80, unique=True),
    overlap=st.integers(0, 60),
    number=st.integers(1, 2),
)
def test_a_chunk_whose_answer_is_too_long_gives_the_record_of_the_whole(
    numbers: list[str], overlap: int, number: int
) -> None:
    text = "Name: Ann\n" + "".join(f"row {found}\n" for found in numbers)
    loop, engine = extractor(read, splitting=True, overlap_tokens=overlap, **passes(number))
    record = only(loop.run([chunk(text)]))
    assert isinstance(record, Record)
    assert record.value == json.loads(read(text, 1))
    assert sum(a.output_tokens for a in record.attempts) > 0
    assert len(record.attempts) == engine.num_submitted


ANSWERS = st.one_of(
    st.lists(st.sampled_from("xyzXY"), max_size=4).map(lambda items: answer(*items)),
    st.lists(st.sampled_from("xyz"), max_size=3).map(lambda items: answer(*items, name="b")),
    st.sampled_from(["{", "[]", '{"name": 1}', "x" * 300, Scripted("{", "length"), Scripted("", "abort")]),
    st.just(Scripted(answer("w"), num_steps=4)),
)


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(st.text(max_size=30), max_size=12),
    answers=st.lists(ANSWERS, min_size=1, max_size=12),
    number=st.integers(1, 4),
    splitting=st.booleans(),
    max_retries=st.integers(0, 2),
)
def test_exactly_one_outcome_per_chunk_and_passes_never_lose_a_record(
    texts: list[str], answers: list[str | Scripted], number: int, splitting: bool, max_retries: int
) -> None:
    def run(num_passes: int) -> dict[str, Record | Reject]:
        loop, _ = extractor(_by_text(answers), splitting=splitting, **passes(num_passes, max_retries=max_retries))
        outcomes = list(loop.run(chunks))
        assert sorted(o.chunk.doc_id for o in outcomes) == sorted(c.doc_id for c in chunks)
        return {o.chunk.doc_id: o for o in outcomes}

    chunks: list[Chunk] = [chunk(f"{index} {text}", str(index)) for index, text in enumerate(texts)]
    before, after = run(1), run(number)
    for doc_id, first in before.items():
        last = after[doc_id]
        assert isinstance(last, Record) is isinstance(first, Record)
        assert len(last.attempts) >= len(first.attempts)
        if isinstance(first, Record) and isinstance(last, Record):
            assert last.value["name"] == first.value["name"]
            assert [item for item in last.value["items"] if item in first.value["items"]][:1] == first.value["items"][
                :1
            ]
            assert len(last.value["items"]) >= len(first.value["items"])
            assert isinstance(last.value, dict)
            assert json.loads(last.json) == last.value


def _by_text(answers: list[str | Scripted]) -> Callable[[str, int], str | Scripted]:
    """Answers that depend on the document and the attempt alone, not on the order of requests."""
    return lambda text, attempt: answers[(len(text) + 3 * attempt) % len(answers)]
