"""An OpenAI-compatible server: its address, the name of the variable with its key, and the models that it serves."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pipeline.backoff import Backoff, retry_after_s
from pipeline.config import EngineConfig
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
MAX_FAILURES = 7
"""Failures of the server or the way to it, in a row for one request, before the server is judged: about a minute."""

_CHECK_TIMEOUT_S = 60.0
_MAX_DETAIL_CHARS = 300
Kind = Literal["done", "busy", "broken", "refused", "fatal"]


def kind_of(status: int) -> Kind:
    """What an HTTP status means for a request.

    ``busy``: ask again later; ``broken``: the server's fault, ask again a few times; ``refused``: this request will
    never be answered; ``fatal``: no request will be.
    """
    if status == 200:
        return "done"
    if status in (408, 409, 425, 429, 503, 529):
        return "busy"
    if status >= 500:
        return "broken"
    return "refused" if status in (400, 413, 422) else "fatal"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as the server names it; ``max_model_len`` None where the server does not say."""

    name: str
    max_model_len: int | None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the server is. Holds no key: only the name of the environment variable that does."""

    base_url: str
    api_key_env: str | None = None

    @classmethod
    def of(cls, config: EngineConfig) -> Endpoint:
        assert config.base_url is not None, "checked by the settings"
        return cls(config.base_url, config.api_key_env)

    def headers(self) -> dict[str, str]:
        """With the key of this process's environment; never to be logged.

        Raises:
            ConfigError: the variable is not set here, or holds no key.
        """
        if self.api_key_env is None:
            return {}
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise ConfigError(
                f"the environment variable {self.api_key_env} with the server's key is not set on this machine",
                hint="set it on the driver and on every executor, for example from a secret of the cluster",
            )
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(f"the value of {self.api_key_env} is no key: it has characters that no header can carry")
        return {"Authorization": f"Bearer {key}"}

    def describe(self, status: int, detail: str) -> str:
        """What a refusal of everything means, and what to do about it."""
        key = self.api_key_env
        if status == 401:
            reason = f"the key in {key} is not accepted" if key else "it wants a key; pass --api-key-env NAME"
        elif status == 403:
            reason = f"the key in {key} may not do this" if key else "access is forbidden; pass --api-key-env NAME"
        elif status == 404:
            reason = "there is no such address or model; --base-url ends in /v1, before /completions"
        elif 300 <= status < 400:
            reason = "it points to another address; pass that one as --base-url"
        else:
            reason = "the request was not understood"
        said = f": {detail}" if detail else ""
        return f"{self.base_url} answered {status}, {reason}{said}"


def error_detail(body: bytes) -> str:
    """The server's own words in an error body, shortened; empty where there are none."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return ""
    found = parsed
    for name in ("error", "message"):
        found = found.get(name, found) if isinstance(found, Mapping) else found
    if isinstance(found, Mapping):
        found = found.get("detail")
    return " ".join(found.split())[:_MAX_DETAIL_CHARS] if isinstance(found, str) else ""


def find_served(config: EngineConfig, *, sleep: Callable[[float], None] = time.sleep) -> ServedModel:
    """Ask the server once what it serves and pick what the settings name; on the driver, before any work.

    Raises:
        ConfigError: no server there, no access, or it does not serve that model; names what it serves.
    """
    endpoint = Endpoint.of(config)
    wanted = config.served_model or config.model
    answer = ask(endpoint, "GET", "models", None, sleep=sleep)
    data = answer.get("data") if isinstance(answer, Mapping) else None
    cards = [card for card in data if isinstance(card, Mapping)] if isinstance(data, list) else None
    if cards is None:
        raise ConfigError(
            f"{endpoint.base_url}/models gives no list of models", hint="--base-url is the address that ends in /v1"
        )
    for card in cards:
        if wanted == card.get("id"):
            length = card.get("max_model_len")
            return ServedModel(wanted, length if isinstance(length, int) and length > 0 else None)
    names = ", ".join(repr(card.get("id")) for card in cards) or "nothing"
    raise ConfigError(
        f"{endpoint.base_url} does not serve {wanted!r}; it serves {names}",
        hint="pass --served-model with one of these, and --model with the folder or hub id of its tokenizer",
    )


def ask(
    endpoint: Endpoint,
    method: Literal["GET", "POST"],
    path: str,
    body: Any,
    *,
    sleep: Callable[[float], None] = time.sleep,
    backoff: Backoff | None = None,
) -> Any:
    """One exchange with the server, outside the engine; tried again while it is busy, a few times.

    Raises:
        ConfigError: it does not answer, or with a refusal.
    """
    import httpx2

    backoff = backoff or Backoff()
    timeout = httpx2.Timeout(_CHECK_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    fault = ""
    with httpx2.Client(base_url=endpoint.base_url, headers=endpoint.headers(), timeout=timeout) as client:
        for num_failures in range(1, 4):
            wait_s = backoff.wait_s(num_failures)
            try:
                response = client.request(method, path, json=body)
            except httpx2.HTTPError as error:
                fault = f"{endpoint.base_url} does not answer: {type(error).__name__}: {error}"
            else:
                kind, detail = kind_of(response.status_code), error_detail(response.content)
                if kind == "done":
                    return parsed(response)
                if kind in ("fatal", "refused"):
                    raise ConfigError(endpoint.describe(response.status_code, detail))
                fault = f"{endpoint.base_url} answered {response.status_code}: {detail or 'busy or broken'}"
                wait_s = retry_after_s(response.headers.get("retry-after")) or wait_s
            if num_failures < 3:
                sleep(wait_s)
    raise ConfigError(fault, hint="is the server running, and is --base-url right?")


def parsed(response: httpx2.Response) -> Any:
    """The JSON of an answer.

    Raises:
        ConfigError: it is none, as when a web page answers.
    """
    try:
        return response.json()
    except ValueError:
        kind = response.headers.get("content-type", "no content type")
        raise ConfigError(
            f"{response.url} answered with something other than JSON ({kind})",
            hint="--base-url is the address that ends in /v1",
        ) from None
