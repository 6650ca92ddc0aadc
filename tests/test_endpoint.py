"""The server is checked once before any work: address, key, model, grammar, tokenizer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pipeline.config import EngineConfig, load_config
from pipeline.endpoint import ServedModel, error_detail, find_served, kind_of
from pipeline.errors import ConfigError
from pipeline.manifest import without_secrets
from pipeline.probe import LITERAL, check_server
from pipeline.tokenizer import Tokenizer
from tests.serving import Answer, ByteTokenizer, completion, error, scripted_server

TOKENIZER = cast(Tokenizer, ByteTokenizer())


def config(url: str, **values: Any) -> EngineConfig:
    return EngineConfig(**{"kind": "openai", "base_url": url, "model": "small", **values})


def never(seconds: float) -> None:
    return None


def test_the_served_model_and_its_context_are_found() -> None:
    with scripted_server(lambda body, number: completion("x")) as server:
        assert find_served(config(server.url)) == ServedModel("small", 512)
        assert find_served(config(server.url, model="/models/x", served_model="large")) == ServedModel("large", None)


def test_a_model_that_is_not_served_names_what_is() -> None:
    with scripted_server(lambda body, number: completion("x")) as server:
        with pytest.raises(ConfigError, match=r"does not serve 'tiny'; it serves 'small', 'large' \(pass --served-mod"):
            find_served(config(server.url, model="tiny"))


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (error(401, "bad key"), "wants a key; pass --api-key-env"),
        (error(403, "no"), "forbidden"),
        (error(404, "nothing here"), "ends in /v1"),
        (error(500, "broken"), "answered 500: broken"),
        (error(503, ""), "answered 503"),
        (Answer(body=b"<html>a login page</html>", headers={"Content-Type": "text/html"}), "other than JSON"),
        (Answer(body={"data": 3}), "no list of models"),
        (Answer(body=[1]), "no list of models"),
        (Answer(drop=True), "does not answer"),
    ],
)
def test_a_wrong_address_or_key_is_one_clear_line(models: Answer, message: str) -> None:
    with scripted_server(lambda body, number: completion("x"), models=models) as server:
        with pytest.raises(ConfigError, match=message):
            find_served(config(server.url), sleep=never)


def test_a_missing_key_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERVER_KEY", raising=False)
    with scripted_server(lambda body, number: completion("x")) as server:
        with pytest.raises(ConfigError, match="SERVER_KEY with the server's key is not set"):
            find_served(config(server.url, api_key_env="SERVER_KEY"))
    assert not server.headers


def test_a_server_that_follows_the_grammar_with_our_tokens_passes() -> None:
    with scripted_server(lambda body, number: completion(LITERAL)) as server:
        check_server(config(server.url), ServedModel("small", 512), TOKENIZER)
    assert server.bodies[0]["structured_outputs"]["grammar"].startswith("root ::=")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (completion("The check number is 5"), "does not decode under a grammar"),
        (completion(LITERAL, token_ids=None), "does not decode under a grammar"),
        (completion(LITERAL, token_ids=[65, 66]), "is not that of the served model 'small'"),
        (Answer(body={"choices": []}), "does not decode under a grammar"),
        (error(400, "unknown field"), "was not understood: unknown field"),
    ],
)
def test_a_server_that_cannot_do_the_work_is_refused(answer: Answer, message: str) -> None:
    with scripted_server(lambda body, number: answer) as server:
        with pytest.raises(ConfigError, match=message):
            check_server(config(server.url), ServedModel("small", 512), TOKENIZER)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "openai"}, "--base-url"),
        ({"base_url": "http://h/v1"}, "--engine openai"),
        ({"kind": "openai", "base_url": "h:80"}, "http://HOST:PORT/v1"),
        ({"kind": "openai", "base_url": "http://h/v1/chat/completions"}, "must end before /completions"),
        ({"kind": "openai", "base_url": "http://me:sk-secret@h/v1"}, "neither user, key nor query"),
        ({"kind": "openai", "base_url": "http://h/v1?key=sk-secret"}, "neither user, key nor query"),
        ({"kind": "openai", "base_url": "http://h/v1", "api_key_env": "sk-secret"}, "not the key itself"),
        ({"kind": "openai", "base_url": "http://h/v1", "args": {"dtype": "half"}}, "the server has its own"),
    ],
)
def test_wrong_settings_are_refused_without_showing_a_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_config({"engine": values})
    assert "sk-secret" not in str(caught.value)


def test_an_address_is_brought_into_form() -> None:
    for given in ("http://h:80", "http://h:80/", "http://h:80/v1", " http://h:80/v1/ "):
        assert EngineConfig(kind="openai", base_url=given).base_url == "http://h:80/v1"
    assert EngineConfig(kind="openai", base_url="https://h/proxy/v1").base_url == "https://h/proxy/v1"


def test_the_manifest_keeps_the_variable_s_name() -> None:
    settings = config("http://h/v1", api_key_env="SERVER_KEY").model_dump(mode="json")
    assert without_secrets(settings)["api_key_env"] == "SERVER_KEY"


def test_a_status_means_one_thing() -> None:
    kinds = {status: kind_of(status) for status in (200, 400, 401, 404, 413, 422, 429, 500, 502, 503, 504)}
    assert kinds == {
        200: "done", 400: "refused", 401: "fatal", 404: "fatal", 413: "refused", 422: "refused", 429: "busy",
        500: "broken", 502: "broken", 503: "busy", 504: "broken",
    }  # fmt: skip


def test_an_error_s_words_are_found_in_every_common_form() -> None:
    assert error_detail(b'{"error": {"message": "too  long"}}') == "too long"
    assert error_detail(b'{"message": "too long"}') == "too long"
    assert error_detail(b'{"error": "too long"}') == "too long"
    assert error_detail(b'{"detail": "Not Found"}') == "Not Found"
    assert error_detail(b"<html>") == error_detail(b"[1]") == error_detail(b'{"error": 3}') == ""
    assert len(error_detail(b'{"error": "' + b"x" * 5000 + b'"}')) == 300
