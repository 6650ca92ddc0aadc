"""One request before any work: the server decodes under a grammar, and with the tokenizer that made the prompt."""

from __future__ import annotations

from typing import Any

from pipeline.config import EngineConfig
from pipeline.endpoint import Endpoint, ServedModel, ask
from pipeline.errors import ConfigError
from pipeline.tokenizer import Tokenizer

PROMPT = "The check number is"
LITERAL = '{"check": "Zoë 2026, no. 407"}'
GRAMMAR = 'root ::= "{\\"check\\": \\"Zoë 2026, no. 407\\"}"'
_MAX_TOKENS = 64


def check_server(config: EngineConfig, served: ServedModel, tokenizer: Tokenizer) -> None:
    """Let the server write a literal that its grammar forces, and read its tokens with our tokenizer.

    Raises:
        ConfigError: the grammar was not followed, or the tokens mean something else here.
    """
    body = {
        "model": served.name,
        "prompt": tokenizer.encode(PROMPT),
        "max_tokens": _MAX_TOKENS,
        "temperature": 0.0,
        "structured_outputs": {"grammar": GRAMMAR},
        "return_token_ids": True,
    }
    text, token_ids = _choice(ask(Endpoint.of(config), "POST", "completions", body))
    if text != LITERAL or token_ids is None:
        raise ConfigError(
            f"{config.base_url} does not decode under a grammar",
            hint="--engine openai needs vLLM 0.11 or newer behind the address (vLLM, or GPUStack with backend vllm)",
        )
    found = tokenizer.decode(token_ids)
    if found != LITERAL:
        raise ConfigError(
            f"the tokenizer of --model {config.model!r} is not that of the served model {served.name!r}",
            hint="pass --model with the folder or hub id of the model that is served",
        )


def _choice(answer: Any) -> tuple[str | None, list[int] | None]:
    try:
        choice = answer["choices"][0]
        token_ids = choice.get("token_ids")
        return choice["text"], None if token_ids is None else [int(token) for token in token_ids]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None, None
