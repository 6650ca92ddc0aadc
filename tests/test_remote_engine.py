"""The remote engine against a scripted HTTP server: answers, refusals, busy and broken servers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from pipeline.backoff import Backoff
from pipeline.config import DecodingConfig, EngineConfig
from pipeline.errors import EngineError, EngineStartError
from pipeline.protocols import Completion, Request
from pipeline.remote_engine import RemoteEngine
from pipeline.tokenizer import Tokenizer
from tests.serving import Answer, ByteTokenizer, Script, ScriptedServer, completion, error, scripted_server

KEY = "sk-never-shown-0815"
QUICK = Backoff(first_s=0.01, longest_s=0.02)


@contextmanager
def serving(
    script: Script, decoding: DecodingConfig | None = None, dspark: bool = True, **config: Any
) -> Iterator[tuple[RemoteEngine, ScriptedServer]]:
    with scripted_server(script) as server:
        engine = RemoteEngine(
            config=EngineConfig(kind="openai", base_url=server.url, **config),
            decoding=decoding or DecodingConfig(),
            served_model="small",
            tokenizer=cast(Tokenizer, ByteTokenizer()),
            max_model_len=512,
            dspark=dspark,
            backoff=QUICK,
        )
        try:
            yield engine, server
        finally:
            engine.close()


def request(request_id: str = "r1", **changes: Any) -> Request:
    values: dict[str, Any] = {"prompt_token_ids": [1, 2, 3, 4, 5], "max_tokens": 40, "grammar": 'root ::= "x"'}
    return Request(request_id, **{**values, "document_span": (1, 4), **changes})


def finish(engine: RemoteEngine, *requests: Request, limit_s: float = 10.0) -> dict[str, Completion]:
    """Completions of ``requests`` and of all that were sent before."""
    ended: dict[str, Completion] = {}
    for one in requests:
        engine.submit(one)
    started = time.monotonic()
    while engine._running:
        assert time.monotonic() - started < limit_s
        for done in engine.step():
            assert done.request_id not in ended
            ended[done.request_id] = done
    return ended


def script_of(*answers: Answer) -> Script:
    """The answers in turn; the last one again and again."""
    return lambda body, number: answers[min(number, len(answers)) - 1]


def test_a_request_says_everything_that_decides_its_output() -> None:
    decoding = DecodingConfig(temperature=0.3, top_p=0.9, seed=7)
    with serving(script_of(completion('{"a": 1}')), decoding) as (engine, server):
        done = finish(engine, request())["r1"]
    assert (done.text, done.finish_reason) == ('{"a": 1}', "stop")
    assert (done.prompt_tokens, done.output_tokens, engine.num_processed_tokens) == (5, 8, 13)
    body = server.bodies[0]
    assert body["prompt"] == [1, 2, 3, 4, 5]
    assert body["structured_outputs"] == {"grammar": 'root ::= "x"'}
    sampling = ("model", "max_tokens", "temperature", "top_p", "top_k", "repetition_penalty", "seed")
    assert [body[name] for name in sampling] == ["small", 40, 0.3, 0.9, 0, 1.0, 7]
    assert body["vllm_xargs"] == {"dspark_document_start": 1, "dspark_document_end": 4, "dspark_enabled": 1}


def test_without_dspark_the_server_is_asked_to_decode_plainly() -> None:
    with serving(script_of(completion("x")), dspark=False) as (engine, server):
        finish(engine, request())
    assert server.bodies[0]["vllm_xargs"]["dspark_enabled"] == 0


def test_a_truncated_output_ends_with_length_and_an_aborted_one_with_error() -> None:
    answers = script_of(completion("{", finish_reason="length"), completion("{", finish_reason="abort"))
    with serving(answers) as (engine, _):
        assert finish(engine, request())["r1"].finish_reason == "length"
        done = finish(engine, request("r2"))["r2"]
    assert (done.finish_reason, "abort" in done.detail) == ("error", True)


def test_probabilities_come_with_the_bytes_of_their_tokens() -> None:
    answer = completion("aé", logprobs={"token_logprobs": [-0.5, -0.25]})
    with serving(script_of(answer)) as (engine, server):
        done = finish(engine, request(wants_logprobs=True))["r1"]
    assert server.bodies[0]["logprobs"] == 0
    assert (done.tokens, done.logprobs) == ((b"a", "é".encode()), (-0.5, -0.25))


def test_no_more_requests_than_allowed_are_at_the_server() -> None:
    with serving(lambda body, number: Answer(**{**vars(completion("x")), "delay_s": 0.05}), max_in_flight=3) as (
        engine,
        server,
    ):
        finish(engine, *(request(f"r{n}") for n in range(12)))
    assert server.peak == 3


def test_a_busy_server_is_asked_again_until_it_answers() -> None:
    busy = [error(429, "slow down")] * 12 + [error(503, "no instance")] * 3
    with serving(script_of(*busy, completion("x"))) as (engine, _):
        done = finish(engine, request())["r1"]
        counters = engine.counters()
    assert done.finish_reason == "stop"
    assert counters == {"remote_requests": 16.0, "remote_busy": 15.0, "remote_failures": 0.0}


def test_retry_after_holds_back_all_requests_of_the_task() -> None:
    limited = error(429, "slow down", **{"Retry-After": "1"})
    with serving(script_of(limited, completion("x"))) as (engine, server):
        engine.submit(request("r1"))
        while not server.bodies:
            time.sleep(0.01)
        time.sleep(0.1)
        assert set(finish(engine, request("r2"))) == {"r1", "r2"}
    assert len(server.times) == 3
    assert min(server.times[1:]) - server.times[0] >= 1.0


@pytest.mark.parametrize(
    "fault",
    [
        error(500, "kernel"),
        error(502, "bad gateway"),
        Answer(body=b"<html>"),
        Answer(body={"choices": []}),
        Answer(body=[]),
        Answer(drop=True),
    ],
    ids=["500", "502", "no JSON", "no choice", "no object", "dropped"],
)
def test_a_fault_is_tried_again_and_ends_the_engine_when_it_stays(fault: Answer) -> None:
    with serving(script_of(fault, fault, completion("x"))) as (engine, _):
        assert finish(engine, request())["r1"].finish_reason == "stop"
        assert engine.counters()["remote_failures"] == 2.0
    with serving(script_of(fault)) as (engine, server), pytest.raises(EngineError, match="failed again and again"):
        finish(engine, request())
    assert len(server.bodies) == 7 + 1  # the last asks whether the server is well


@pytest.mark.parametrize("fault", [error(500, "kernel"), Answer(drop=True)], ids=["500", "dropped"])
def test_a_request_that_only_fails_itself_is_one_row_s_fate(fault: Answer) -> None:
    def script(body: dict[str, Any], number: int) -> Answer:
        return fault if body["max_tokens"] == 2 else completion("x")

    with serving(script) as (engine, _):
        done = finish(engine, request("bad", max_tokens=2), request("good"))
    assert (done["bad"].finish_reason, done["good"].finish_reason) == ("error", "stop")
    assert "fails on this request" in done["bad"].detail


def test_a_server_that_does_not_answer_in_time_is_given_up() -> None:
    def hang(body: dict[str, Any], number: int) -> Answer:
        return Answer(drop=True, delay_s=0.3)

    with serving(hang, request_timeout_s=0.05) as (engine, _), pytest.raises(EngineError, match="ReadTimeout"):
        finish(engine, request())


def test_nobody_at_the_address_ends_the_engine() -> None:
    with serving(script_of(completion("x"))) as (_, server):
        gone = server.url
    engine = RemoteEngine(
        config=EngineConfig(kind="openai", base_url=gone),
        decoding=DecodingConfig(),
        served_model="small",
        tokenizer=cast(Tokenizer, ByteTokenizer()),
        max_model_len=512,
        backoff=QUICK,
    )
    with pytest.raises(EngineError, match="failed again and again: ConnectError"):
        finish(engine, request())
    engine.close()


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_request_is_one_row_s_fate(status: int) -> None:
    def script(body: dict[str, Any], number: int) -> Answer:
        return error(status, "maximum context length is 512") if body["max_tokens"] == 1 else completion("x")

    with serving(script) as (engine, _):
        done = finish(engine, request("bad", max_tokens=1), request("good"))
    assert (done["bad"].finish_reason, done["bad"].detail) == ("error", "maximum context length is 512")
    assert done["good"].finish_reason == "stop"


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "not accepted"), (403, "may not"), (404, "ends in /v1"), (307, "another address")]
)
def test_what_refuses_every_request_ends_the_engine_at_once(
    monkeypatch: pytest.MonkeyPatch, status: int, reason: str
) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    with serving(script_of(error(status, "no")), api_key_env="SERVER_KEY") as (engine, server):
        with pytest.raises(EngineError, match=reason) as caught:
            finish(engine, request())
    assert len(server.bodies) == 1
    assert KEY not in str(caught.value)


def test_the_key_goes_to_the_server_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SERVER_KEY", f"{KEY}\n")
    caplog.set_level(logging.DEBUG)
    answers = script_of(error(500, "x"), Answer(drop=True), completion("x"))
    with serving(answers, api_key_env="SERVER_KEY") as (engine, server):
        finish(engine, request())
        assert KEY not in repr(vars(engine))
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert KEY not in caplog.text


@pytest.mark.parametrize("value", ["", "ключ", "a\tb"])
def test_a_missing_or_impossible_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SERVER_KEY", value)
    with pytest.raises(EngineStartError, match="SERVER_KEY") as caught:
        with serving(script_of(completion("x")), api_key_env="SERVER_KEY"):
            pass
    assert not value or value not in str(caught.value)


def test_an_aborted_request_leaves_the_server_and_never_comes_back() -> None:
    def slow(body: dict[str, Any], number: int) -> Answer:
        return Answer(**{**vars(completion("x")), "delay_s": 0.3 if number == 1 else 0.0})

    with serving(slow) as (engine, server):
        engine.submit(request("gone"))
        while not server.bodies:
            time.sleep(0.01)
        engine.abort("gone")
        engine.abort("gone")
        assert set(finish(engine, request("kept"))) == {"kept"}
        time.sleep(0.4)
        assert engine.step() == []


def test_closing_ends_the_thread_with_requests_under_way() -> None:
    def hang(body: dict[str, Any], number: int) -> Answer:
        return Answer(drop=True, delay_s=0.2)

    with serving(hang) as (engine, server):
        engine.submit(request())
        while not server.bodies:
            time.sleep(0.01)
        engine.close()
        assert not engine._thread.is_alive()
        engine.close()
