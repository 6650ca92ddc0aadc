"""The article's workload against a server: chat completions of one prompt, with DSpark off and on by request."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pipeline.config import EngineConfig
from pipeline.endpoint import CONNECT_TIMEOUT_S, Endpoint, ask, error_detail, parsed
from pipeline.errors import ConfigError, EngineError
from pipeline.seed_benchmark import SCHEMA, TEMPERATURE, SeedResult, is_json, user_message

if TYPE_CHECKING:
    import httpx2

ResponseFormat = Literal["json_schema", "json_object"]
_ACCEPTED = re.compile(r"^vllm:spec_decode_num_accepted_tokens_total\{.*\} ([0-9.e+]+)$", re.MULTILINE)


def measure_server(
    *,
    base_url: str,
    api_key_env: str | None = None,
    model: str | None = None,
    num_requests: int = 100,
    in_flight: int = 16,
    max_tokens: int = 2048,
    response_format: ResponseFormat = "json_schema",
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Figures in the form of :func:`pipeline.seed_benchmark.measure_seed`. Request i has seed i in both variants.

    Both run on the same server: without drafts (each request says so), then with. On a server without DSpark they
    measure the same thing twice. ``model`` None: the only one that is served.

    Raises:
        ConfigError: the server does not answer as it should, or serves several models and none is named.
        EngineError: a request failed.
    """
    import httpx2

    config = EngineConfig(kind="openai", base_url=base_url, api_key_env=api_key_env)
    endpoint = Endpoint.of(config)
    name = model or _only_model(endpoint)
    results = []
    timeout = httpx2.Timeout(config.request_timeout_s, connect=CONNECT_TIMEOUT_S, pool=None)
    limits = httpx2.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    with httpx2.Client(
        base_url=endpoint.base_url, headers=endpoint.headers(), timeout=timeout, limits=limits
    ) as client:
        _send(client, _body(name, response_format, 16, seed=0, dspark=False))  # the prompt and grammar are known now
        for variant in ("off", "dspark"):
            say(f"{num_requests} requests, {in_flight} in flight, DSpark {'off' if variant == 'off' else 'on'}")
            bodies = [
                _body(name, response_format, max_tokens, seed=seed, dspark=variant == "dspark")
                for seed in range(num_requests)
            ]
            results.append(_measure(client, variant, bodies, in_flight))
    off, dspark = results
    return {
        "model": name,
        "in_flight": in_flight,
        "temperature": TEMPERATURE,
        "max_tokens": max_tokens,
        "response_format": response_format,
        "ratio": dspark.kilobytes_per_s / off.kilobytes_per_s if off.kilobytes_per_s else 0.0,
        "variants": [{**asdict(result), "kilobytes_per_s": result.kilobytes_per_s} for result in results],
    }


def _measure(client: httpx2.Client, variant: str, bodies: list[dict[str, Any]], in_flight: int) -> SeedResult:
    accepted_before = _accepted(client)
    started = time.monotonic()
    with ThreadPoolExecutor(in_flight) as pool:
        answers = list(pool.map(lambda body: _send(client, body), bodies))
    elapsed_s = time.monotonic() - started
    choices = [answer["choices"][0] for answer in answers]
    texts = [str(choice["message"]["content"] or "") for choice in choices]
    num_tokens = sum(int(answer["usage"]["completion_tokens"]) for answer in answers)
    num_accepted = _accepted(client) - accepted_before
    return SeedResult(
        variant=variant,
        num_requests=len(bodies),
        num_chars=sum(map(len, texts)),
        num_output_tokens=num_tokens,
        num_unfinished=sum(choice["finish_reason"] != "stop" for choice in choices),
        num_not_json=sum(not is_json(text) for text in texts),
        elapsed_s=elapsed_s,
        mean_acceptance_length=num_tokens / max(num_tokens - num_accepted, 1.0),
    )


def _body(model: str, response_format: ResponseFormat, max_tokens: int, *, seed: int, dspark: bool) -> dict[str, Any]:
    form: dict[str, Any] = {"type": response_format}
    if response_format == "json_schema":
        form["json_schema"] = {"name": "user", "schema": SCHEMA}
    return {
        "model": model,
        "messages": [{"role": "user", "content": user_message()}],
        "response_format": form,
        "max_tokens": max_tokens,
        "temperature": TEMPERATURE,
        "seed": seed,
        "vllm_xargs": {"dspark_enabled": int(dspark)},
    }


def _send(client: httpx2.Client, body: Mapping[str, Any]) -> Any:
    import httpx2

    try:
        response = client.post("chat/completions", json=body)
    except httpx2.HTTPError as error:
        raise EngineError(f"a request failed: {type(error).__name__}: {error}") from None
    if response.status_code != 200:
        raise EngineError(f"a request was answered with {response.status_code}: {error_detail(response.content)}")
    return parsed(response)


def _accepted(client: httpx2.Client) -> float:
    """Draft tokens that the server accepted so far; 0 where it does not say (no DSpark, or a gateway in between)."""
    import httpx2

    try:
        response = client.get(str(client.base_url).rstrip("/").removesuffix("/v1") + "/metrics")
    except httpx2.HTTPError:
        return 0.0
    return sum(map(float, _ACCEPTED.findall(response.text))) if response.status_code == 200 else 0.0


def _only_model(endpoint: Endpoint) -> str:
    answer = ask(endpoint, "GET", "models", None)
    cards = answer.get("data") if isinstance(answer, Mapping) else None
    names = [str(card.get("id")) for card in cards or () if isinstance(card, Mapping)]
    if len(names) != 1:
        raise ConfigError(f"{endpoint.base_url} serves {', '.join(names) or 'nothing'}", hint="pick one with --model")
    return names[0]
