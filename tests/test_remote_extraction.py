"""The row's life over HTTP is what it is in process; what is wrong with the server is found before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from jobs.extract import main
from pipeline.backoff import Backoff
from pipeline.config import DecodingConfig, EngineConfig, PromptConfig
from pipeline.data import Chunk, Record, Reject
from pipeline.errors import EngineError, EngineStalledError
from pipeline.extractor import Extractor
from pipeline.prompting import Prompting
from pipeline.remote_engine import RemoteEngine
from pipeline.schema import load_schema
from pipeline.tokenizer import Tokenizer
from pipeline.validation import Validator
from tests.scripts import PEOPLE_SCHEMA, people
from tests.serving import Answer, ByteTokenizer, Script, completion, error, scripted_server

SCHEMA = load_schema(PEOPLE_SCHEMA)
TEXTS = ("Ann 3", "retry Bob 4", "bad", "refused", "Eve 5", "busy Fay 6", "cut")


def answer(body: dict[str, Any], number: int) -> Answer:
    """What the model of :mod:`tests.scripts` answers to the document of a request."""
    span = body["vllm_xargs"]
    text = "".join(map(chr, body["prompt"][span["dspark_document_start"] : span["dspark_document_end"]]))
    if "refused" in text:
        return error(400, "this prompt is not allowed")
    if "busy" in text and number % 3:
        return error(429, "slow down", **{"Retry-After": "0"})
    is_retry = '{"name": 3}' in "".join(map(chr, body["prompt"]))
    said = people(text.replace("busy ", "").replace("retry ", "" if is_retry else "retry "), 2 if is_retry else 1)
    return completion(said) if isinstance(said, str) else completion(said.text, finish_reason=said.finish_reason)


def extract(script: Script, texts: tuple[str, ...], **options: Any) -> dict[str, Record | Reject]:
    tokenizer = ByteTokenizer()
    with scripted_server(script) as server:
        engine = RemoteEngine(
            config=EngineConfig(kind="openai", base_url=server.url, max_in_flight=3),
            decoding=DecodingConfig(),
            served_model="small",
            tokenizer=cast(Tokenizer, tokenizer),
            max_model_len=4096,
            backoff=Backoff(first_s=0.01, longest_s=0.02),
        )
        loop = Extractor(
            engine,
            prompter=Prompting(tokenizer, config=PromptConfig(), json_schema=SCHEMA.json_schema),
            validator=Validator(SCHEMA),
            grammar="root ::= x",
            decoding=DecodingConfig(truncation_factor=1),
            **options,
        )
        try:
            chunks = [Chunk(text, 0, 1, text, 0, len(text), text) for text in texts]
            outcomes = list(loop.run(chunks))
        finally:
            engine.close()
    assert server.peak <= 3
    assert len(outcomes) == len(texts)
    return {outcome.chunk.text: outcome for outcome in outcomes}


def test_every_document_gets_its_outcome_from_a_server() -> None:
    found = extract(answer, TEXTS)
    values = {text: outcome.value for text, outcome in found.items() if isinstance(outcome, Record)}
    assert {text: value["age"] for text, value in values.items()} == {
        "Ann 3": 3, "Eve 5": 5, "busy Fay 6": 6, "retry Bob 4": 4,
    }  # fmt: skip
    assert len(found["retry Bob 4"].attempts) == 2
    reasons = {text: str(outcome.reason) for text, outcome in found.items() if isinstance(outcome, Reject)}
    assert reasons == {"bad": "SCHEMA_MISMATCH", "refused": "REFUSED_BY_ENGINE", "cut": "TRUNCATED"}
    refused = found["refused"]
    assert isinstance(refused, Reject)
    assert refused.detail == "this prompt is not allowed"


def test_a_server_that_stays_busy_is_a_stalled_engine() -> None:
    with pytest.raises(EngineStalledError):
        extract(lambda body, number: error(429, "slow down"), ("Ann 3",), stall_timeout_s=0.5)


def test_a_server_that_dies_on_the_way_ends_the_task() -> None:
    def dying(body: dict[str, Any], number: int) -> Answer:
        return answer(body, number) if number < 3 else Answer(drop=True)

    with pytest.raises(EngineError, match="failed again and again"):
        extract(dying, ("Ann 3", "Eve 5", "Fay 6", "Gus 7"))


def test_a_document_over_its_time_is_rejected_and_leaves_the_server() -> None:
    def slow(body: dict[str, Any], number: int) -> Answer:
        return Answer(drop=True, delay_s=1.0) if number == 1 else answer(body, number)

    found = extract(slow, ("Ann 3",), document_timeout_s=0.2)
    outcome = found["Ann 3"]
    assert isinstance(outcome, Reject)
    assert str(outcome.reason) == "TIMEOUT"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "openai"], "--base-url"),
        (["--base-url", "http://127.0.0.1:1/v1"], "--engine openai"),
        (["--engine", "openai", "--base-url", "URL", "--served-model", "tiny"], "it serves 'small', 'large'"),
        (["--engine", "openai", "--base-url", "URL", "--api-key-env", "SERVER_KEY_NOT_SET"], "SERVER_KEY_NOT_SET"),
        (["--engine", "openai", "--base-url", "URL", "--api-key-env", "sk-secret"], "not the key itself"),
    ],
)
def test_the_job_finds_what_is_wrong_with_the_server_first(tmp_path: Path, options: list[str], message: str) -> None:
    (tmp_path / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    with scripted_server(answer) as server:
        arguments = [server.url if option == "URL" else option for option in options]
        paths = ["--input", "in.jsonl", "--schema", str(tmp_path / "people.json"), "--output", str(tmp_path / "out")]
        result = CliRunner().invoke(main, [*paths, *arguments])
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert "sk-secret" not in result.stderr
    assert not (tmp_path / "out").exists()
