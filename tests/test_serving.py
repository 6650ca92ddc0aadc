"""The real OpenAI-compatible server of vLLM, with DSpark and without, asked by the real client; one start of each."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import jsonschema
import openai
import pytest

from pipeline.config import DecodingConfig, DSparkConfig, EngineConfig, load_config
from pipeline.demo_model import ensure_demo_model
from pipeline.endpoint import find_served
from pipeline.errors import ConfigError
from pipeline.protocols import Request
from pipeline.remote_engine import RemoteEngine
from pipeline.schema import load_schema
from pipeline.serve_benchmark import measure_server
from pipeline.tokenizer import Tokenizer
from pipeline.udf.stage import build_stage
from tests.vllm_server import MODEL, Served, serve_arguments, vllm_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

KEY = "sk-served-only-0815"
VARIABLE = "SERVING_TEST_KEY"
CITIES = ("Bern 134591", "Porto 231800", "Kyoto 1463723", "Graz 298479", "Cork 222333", "Oslo 709037")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "people": {"type": "integer", "minimum": 0, "maximum": 99999999},
        "size": {"enum": ["small", "large"]},
    },
    "required": ["city", "people", "size"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {"name": "store_city", "description": "Store a city", "parameters": SCHEMA, "strict": True},
}
BY_SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"Write city, people and size of this as JSON: {text} inhabitants."}]


@dataclass(frozen=True)
class Asked:
    """What one server answered, by name, and its log at that time."""

    answers: dict[str, Any]
    log: str


class Client:
    """The real client at temperature 0."""

    def __init__(self, served: Served) -> None:
        self._inner = openai.OpenAI(base_url=served.url, api_key=KEY, max_retries=0, timeout=120)

    def chat(self, text: str, **options: Any) -> Any:
        values = {"model": MODEL, "messages": messages(text), "temperature": 0.0, "max_tokens": 64, **options}
        return self._inner.chat.completions.create(**values)

    def content(self, text: str, **options: Any) -> str:
        return str(self.chat(text, **options).choices[0].message.content)

    def streamed(self, text: str, **options: Any) -> str:
        parts = self.chat(text, stream=True, **options)
        return "".join(part.choices[0].delta.content or "" for part in parts if part.choices)

    def called(self, text: str, choice: Any) -> list[tuple[str, str]]:
        answer = self.chat(text, tools=[TOOL], tool_choice=choice, max_tokens=160)
        return [(c.function.name, c.function.arguments) for c in answer.choices[0].message.tool_calls or ()]


def ask_all(served: Served) -> Asked:
    client = Client(served)
    with ThreadPoolExecutor(16) as pool:
        texts = [f"{city} (report {number})" for number, city in enumerate(CITIES * 3)][:16]
        parallel = list(pool.map(lambda text: client.content(text, response_format=BY_SCHEMA), texts))
    answers = {
        "plain chat": client.content(CITIES[0], max_tokens=24),
        "json_schema": [client.content(city, response_format=BY_SCHEMA) for city in CITIES],
        "json_object": [client.content(city, response_format={"type": "json_object"}) for city in CITIES[:2]],
        "streaming": client.streamed(CITIES[1], response_format=BY_SCHEMA),
        "streaming plain": client.streamed(CITIES[1], max_tokens=24),
        "tool required": client.called(CITIES[2], "required"),
        "tool named": client.called(CITIES[3], {"type": "function", "function": {"name": "store_city"}}),
        "choice": client.content(CITIES[0], extra_body={"structured_outputs": {"choice": ["small", "large"]}}),
        "regex": client.content(CITIES[0], extra_body={"structured_outputs": {"regex": "[a-z]{3,9} [0-9]{1,4}"}}),
        "16 clients": parallel,
    }
    return Asked(answers, served.log)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serving")


@pytest.fixture(scope="module")
def key() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setenv("VLLM_API_KEY", KEY)
    patch.setenv(VARIABLE, KEY)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def plain(folder: Path, key: None) -> Asked:
    """Answers of a server without DSpark, which is gone before the next starts."""
    tools = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    with vllm_server([*serve_arguments(str(ensure_demo_model())), *tools], folder / "plain.log") as served:
        return ask_all(served)


@pytest.fixture(scope="module")
def server(folder: Path, plain: Asked) -> Iterator[Served]:
    """The server with the one argument."""
    more = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--additional-config")
    arguments = [*serve_arguments(str(ensure_demo_model())), *more, '{"dspark": {"enabled": true}}']
    with vllm_server(arguments, folder / "dspark.log") as served:
        yield served


@pytest.fixture(scope="module")
def dspark(server: Served) -> Asked:
    return ask_all(server)


NAMES = (
    "plain chat", "json_schema", "json_object", "streaming", "streaming plain", "tool required", "tool named",
    "choice", "regex", "16 clients",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_the_same_with_dspark_and_without(plain: Asked, dspark: Asked, name: str) -> None:
    assert dspark.answers[name] == plain.answers[name]


def test_structured_answers_follow_their_schema(dspark: Asked) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    answers = dspark.answers
    for text in [*answers["json_schema"], *answers["16 clients"], answers["streaming"]]:
        validator.validate(json.loads(text))
    for called, arguments in [answers["tool required"][0], *answers["tool named"]]:
        assert called == "store_city"
        validator.validate(json.loads(arguments))


def test_the_log_says_that_dspark_is_on_and_where_it_is_not(plain: Asked, dspark: Asked) -> None:
    assert "dspark" not in plain.log
    assert "dspark enabled" in dspark.log
    assert dspark.log.count("dspark inactive for this request: plain text") == 1
    assert "drafter failed" not in dspark.log
    assert not [line for line in dspark.log.splitlines() if "EngineCore" in line and " ERROR " in line]


def test_drafts_are_accepted(server: Served, dspark: Asked) -> None:
    text = httpx2.get(server.url.removesuffix("/v1") + "/metrics").text
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("vllm:spec_decode_num"))
    accepted = sum(float(value) for name, value in found.items() if "accepted_tokens_total" in name)
    drafted = sum(float(value) for name, value in found.items() if "draft_tokens_total" in name)
    assert accepted > 100
    assert accepted > 0.3 * drafted


def remote_config(server: Served, **values: Any) -> dict[str, Any]:
    model = str(ensure_demo_model())
    return {
        "kind": "openai",
        "base_url": server.url,
        "api_key_env": VARIABLE,
        "model": model,
        "served_model": MODEL,
        **values,
    }


def test_the_remote_engine_writes_what_the_engine_in_this_process_writes(server: Served) -> None:
    stage = build_stage(load_config({"engine": remote_config(server)}), schema=load_schema(SCHEMA))
    tokenizer = Tokenizer.load(stage.model)
    prompts = [tokenizer.encode(f"{city} inhabitants. As JSON: ") for city in CITIES]
    requests = [
        Request(f"r{number}", prompt, 60, stage.grammar, (0, len(prompt) - 3), wants_logprobs=number == 0)
        for number, prompt in enumerate(prompts)
    ]
    remote = RemoteEngine(
        config=stage.config.engine,
        decoding=DecodingConfig(),
        served_model=stage.served_model,
        tokenizer=tokenizer,
        max_model_len=stage.max_model_len,
    )
    found = _run(remote, requests)
    remote.close()
    from pipeline.engine import VllmEngine

    local = VllmEngine(
        stage.model,
        config=EngineConfig(args={"dtype": "float32", "max_model_len": 1024}),
        decoding=DecodingConfig(),
        dspark=DSparkConfig(enabled=False),
    )
    expected = _run(local, requests)
    local.close()
    assert stage.max_model_len == 1024
    for name, completion in expected.items():
        other = found[name]
        assert (other.text, other.finish_reason, other.output_tokens, other.prompt_tokens) == (
            completion.text,
            completion.finish_reason,
            completion.output_tokens,
            completion.prompt_tokens,
        )
    assert found["r0"].tokens == expected["r0"].tokens
    assert found["r0"].logprobs == pytest.approx(expected["r0"].logprobs, abs=1e-3)


def _run(engine: Any, requests: list[Request]) -> dict[str, Any]:
    for request in requests:
        engine.submit(request)
    done: dict[str, Any] = {}
    while len(done) < len(requests):
        done |= {completion.request_id: completion for completion in engine.step()}
    return done


@pytest.mark.spark
def test_a_job_on_spark_uses_the_server_and_shows_its_key_nowhere(
    server: Served, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from pipeline.run import run

    caplog.set_level(logging.DEBUG, logger="pipeline")
    texts = [{"id": str(n), "text": f"{city} inhabitants." * (1 + 200 * (n == 5))} for n, city in enumerate(CITIES)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    config = load_config(
        {
            "input": {"path": str(tmp_path / "in.jsonl"), "id_column": "id"},
            "output": {"path": str(tmp_path / "out")},
            "engine": remote_config(server, max_in_flight=4),
            "decoding": {"max_output_tokens": 64, "truncation_factor": 1},
        }
    )
    result = run(config, spark=spark, schema=load_schema(SCHEMA))
    manifest = result.manifest
    assert manifest["documents"] == len(CITIES) == manifest["records"] + manifest["rejects"]
    assert manifest["records"] >= 4
    assert manifest["engine"]["counters"]["remote_requests"] >= len(CITIES)
    assert manifest["settings"]["engine"]["api_key_env"] == VARIABLE
    assert manifest["model"].startswith(f"served:{MODEL}:")
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file.name for file in written if KEY.encode() in file.read_bytes()]
    assert KEY not in caplog.text
    assert KEY not in str(spark.sparkContext.getConf().getAll())
    assert VARIABLE not in spark.sparkContext.environment


def test_a_wrong_key_or_name_is_one_clear_line(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=f"does not serve 'tiny'; it serves '{MODEL}'"):
        find_served(EngineConfig(**remote_config(server, served_model="tiny")))
    monkeypatch.setenv(VARIABLE, "sk-wrong")
    with pytest.raises(ConfigError, match=f"the key in {VARIABLE} is not accepted") as caught:
        find_served(EngineConfig(**remote_config(server)))
    assert "sk-wrong" not in str(caught.value)
    assert os.environ[VARIABLE] == "sk-wrong"


def test_the_article_s_workload_runs_as_a_client(server: Served, dspark: Asked) -> None:
    figures = measure_server(base_url=server.url, api_key_env=VARIABLE, num_requests=8, in_flight=4, max_tokens=48)
    off, on = figures["variants"]
    assert (off["num_requests"], on["num_requests"], figures["model"]) == (8, 8, MODEL)
    assert off["mean_acceptance_length"] == 1.0
    assert on["mean_acceptance_length"] > 1.0
