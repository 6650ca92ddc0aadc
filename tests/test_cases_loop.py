"""The public failure cases that concern one output's way through the loop, with the scripted engine."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from pipeline.config import DecodingConfig, PromptConfig, load_config
from pipeline.data import Chunk, Outcome, Record, Reject, RejectReason
from pipeline.errors import ConfigError, EngineStalledError
from pipeline.extractor import Extractor
from pipeline.grounding import Grounder
from pipeline.grounding_rule import GroundingRule
from pipeline.prompting import Prompting
from pipeline.protocols import Request
from pipeline.schema import load_schema
from pipeline.testing import CharacterTokenizer, Script, Scripted, ScriptedEngine
from pipeline.udf.arrow import MAX_BATCH_BYTES, batches_of
from pipeline.udf.stage import Stage, build_stage
from pipeline.validation import Validator
from tests.cases import about, given
from tests.scripts import PEOPLE_SCHEMA

OPEN = {"type": "object", "properties": {"note": {"type": "string"}}, "additionalProperties": True}


class Watched(ScriptedEngine):
    """Remembers what it was asked."""

    def __init__(self, script: Script, **options: Any) -> None:
        super().__init__(script, **options)
        self.requests: list[Request] = []

    def submit(self, request: Request) -> None:
        self.requests.append(request)
        super().submit(request)


def chunk(text: str, doc_id: str = "d") -> Chunk:
    return Chunk(doc_id, 0, 1, text, 0, len(text), f"key-{doc_id}", len(text))


def work(
    script: Script, texts: dict[str, str], *, schema: Any = OPEN, max_model_len: int = 8192, **options: Any
) -> tuple[dict[str, Outcome], Watched]:
    """Outcomes by document, and the engine."""
    loaded = load_schema(schema)
    engine = Watched(script, max_model_len=max_model_len)
    prompter = Prompting(CharacterTokenizer(), config=PromptConfig(show_schema=False), json_schema=loaded.json_schema)
    decoding = options.pop("decoding", DecodingConfig(max_output_tokens=100))
    loop = Extractor(
        engine, prompter=prompter, validator=Validator(loaded), grammar="root ::= x", decoding=decoding, **options
    )
    outcomes = list(loop.run([chunk(text, doc_id) for doc_id, text in texts.items()]))
    assert len(outcomes) == len(texts)
    return {outcome.chunk.doc_id: outcome for outcome in outcomes}, engine


def reject_of(outcome: Outcome) -> Reject:
    assert isinstance(outcome, Reject)
    return outcome


@about("025", "032", "049")
def test_a_cut_or_aborted_output_is_its_own_reject_and_the_batch_goes_on(case_id: str) -> None:
    case = given(case_id)
    broken = Scripted(case["model_output"], case["finish_reason"])
    outcomes, _ = work(lambda text, attempt: broken if text == "bad" else "{}", {"1": "bad", "2": "good"})
    wanted = RejectReason.REFUSED_BY_ENGINE if case["finish_reason"] == "abort" else RejectReason.TRUNCATED
    rejected = reject_of(outcomes["1"])
    assert rejected.reason is wanted
    assert rejected.attempts[0].raw_output == case["model_output"]
    assert rejected.attempts[0].finish_reason == case["finish_reason"]
    assert isinstance(outcomes["2"], Record)


@about("013", "029", "035", "054", "066")
def test_an_output_that_is_no_json_is_retried_once_and_then_a_reject(case_id: str) -> None:
    raw = given(case_id)["model_output"]
    outcomes, engine = work(lambda text, attempt: raw if text == "bad" else "{}", {"1": "bad", "2": "good"})
    rejected = reject_of(outcomes["1"])
    assert rejected.reason is RejectReason.INVALID_JSON
    assert [attempt.raw_output for attempt in rejected.attempts] == [raw, raw]
    assert engine.num_submitted == 3


@about("007")
def test_a_reject_names_the_keyword_that_failed(case_id: str) -> None:
    schema = {
        "type": "object",
        "properties": {"ids": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}},
        "required": ["ids"],
    }
    outcomes, _ = work(lambda text, attempt: '{"ids": [7, 7]}', {"1": "x"}, schema=schema)
    rejected = reject_of(outcomes["1"])
    assert (rejected.reason, rejected.errors[0].keyword) == (RejectReason.SCHEMA_MISMATCH, "uniqueItems")


@about("031")
def test_min_tokens_cannot_be_set(case_id: str) -> None:
    minimum = given(case_id)["sampling"]["min_tokens"]
    for values in ({"engine": {"args": {"min_tokens": minimum}}}, {"decoding": {"min_tokens": minimum}}):
        with pytest.raises(ConfigError, match="min_tokens"):
            load_config(values)


@about("050", "054")
def test_a_retry_after_truncation_has_a_larger_budget_and_the_same_prompt(case_id: str) -> None:
    """Never the partial answer: prompt tokens do not grow, and there is one retry only."""
    _, engine = work(lambda text, attempt: Scripted('{"note": "', "length"), {"1": "some text"})
    first, second = engine.requests
    assert second.prompt_token_ids == first.prompt_token_ids
    assert second.max_tokens > first.max_tokens


@about("056", "057")
def test_one_prompt_beyond_the_context_is_one_reject_and_never_reaches_the_engine(case_id: str) -> None:
    lengths = {row["id"]: row["tokens"] for row in given("bug-056")["rows"]}
    texts = {f"short-{number}": "x" * lengths[1] for number in range(200)} | {"long": "x" * lengths[2]}
    limit = given("bug-056")["max_model_len"]
    outcomes, engine = work(lambda text, attempt: "{}", texts, max_model_len=limit)
    rejected = reject_of(outcomes.pop("long"))
    assert rejected.reason is RejectReason.TOO_LONG
    assert str(limit) in rejected.detail
    assert all(isinstance(outcome, Record) for outcome in outcomes.values())
    assert engine.num_submitted == 200


@about("044")
def test_a_request_and_an_engine_without_end_are_both_stopped(case_id: str) -> None:
    now = iter(float(second) for second in range(100_000))
    slow = Scripted("{}", num_steps=10_000)
    outcomes, _ = work(
        lambda text, attempt: slow if text == "slow" else "{}", {"1": "slow", "2": "quick"},
        document_timeout_s=50, clock=lambda: next(now),
    )  # fmt: skip
    assert reject_of(outcomes["1"]).reason is RejectReason.TIMEOUT
    assert isinstance(outcomes["2"], Record)
    with pytest.raises(EngineStalledError):
        work(lambda text, attempt: slow, {"1": "slow"}, stall_timeout_s=100, clock=lambda: next(now))


@about("010", "042")
def test_white_space_until_the_limit_is_truncated_after_bounded_work(case_id: str) -> None:
    outcomes, engine = work(lambda text, attempt: Scripted("{" + " " * 99, "length"), {"1": "x"})
    assert reject_of(outcomes["1"]).reason is RejectReason.TRUNCATED
    assert engine.num_submitted == 2


@about("045")
def test_a_list_that_reaches_its_limit_is_marked(case_id: str) -> None:
    stage = _stage(decoding={"max_list_items": 3}, schema={**OPEN, "properties": {"tags": {"type": "array"}}})
    assert stage.fingerprint != _stage(schema={**OPEN, "properties": {"tags": {"type": "array"}}}).fingerprint
    verdicts = [type(stage.output_validator.validate(json.dumps({"tags": [0] * n}))).__name__ for n in (3, 4)]
    assert verdicts == ["Valid", "Invalid"]
    assert type(stage.validator.validate(json.dumps({"tags": [0] * 4}))).__name__ == "Valid"  # a merged record


@about("067")
def test_what_is_made_up_becomes_null_where_the_rule_says_so(case_id: str) -> None:
    invented = {"name": "Eva", "ort": "Kiel", "jahr": 1999}
    spans = Grounder(given(case_id)["document"]).ground(invented)
    ruled = GroundingRule(("/ort", "/jahr"), "null").apply(invented, spans)
    assert (ruled.value, ruled.num_nulled) == (given(case_id)["gold"], 2)


def _stage(*, schema: Any = PEOPLE_SCHEMA, **sections: Any) -> Stage:
    values = {"engine": {"kind": "scripted", "script": "tests.scripts:people"}} | sections
    return build_stage(load_config(values), schema=load_schema(schema))


@about("061")
def test_a_key_covers_text_prompt_schema_model_and_sampling(case_id: str) -> None:
    other_schema = {**PEOPLE_SCHEMA, "properties": {**PEOPLE_SCHEMA["properties"], "age": {"type": "integer"}}}
    stages = [
        _stage(),
        _stage(schema=other_schema),
        _stage(prompt={"instructions": "Something else."}),
        _stage(engine={"kind": "scripted", "script": "tests.scripts:slow_people"}),
        _stage(decoding={"temperature": 0.5}),
        _stage(decoding={"seed": 1}),
        _stage(chunking={"max_tokens": 500}),
    ]
    keys = [stage.key_for("one") for stage in stages]
    assert len({*keys, stages[0].key_for("two")}) == len(stages) + 1
    assert _stage().key_for("one") == keys[0]


@about("108")
def test_what_is_shipped_to_workers_is_plain_and_small(case_id: str) -> None:
    from pyspark import cloudpickle

    from pipeline.udf.extract import ExtractTask, extract_function

    stage = _stage()
    assert stage.validator is not None
    assert stage.tokenizer is not None
    shipped = cloudpickle.dumps(extract_function(ExtractTask(stage, "journal", "round")))
    assert len(shipped) < 100_000
    assert b"ScriptedEngine" not in shipped
    assert "validator" not in cloudpickle.loads(cloudpickle.dumps(stage)).__dict__


@about("111")
def test_our_batches_are_bounded_in_bytes(case_id: str) -> None:
    text = "x" * given(case_id)["bytes_per_row"]
    schema = pa.schema([("text", pa.string())])
    sizes = [
        batch.nbytes for batch in batches_of(({"text": text} for _ in range(200)), schema=schema, text_column="text")
    ]
    assert len(sizes) > 5
    assert max(sizes) <= MAX_BATCH_BYTES + 2 * len(text)
