"""How many tokens a prompt and its answer may have together, known before a model is loaded."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pipeline.config import EngineConfig
from pipeline.endpoint import ServedModel
from pipeline.errors import ConfigError

_SCRIPTED_LENGTH = 8192
_OVERRIDES = ("hf_overrides", "hf_config_path", "rope_scaling", "rope_theta")


def context_length(engine: EngineConfig, model: str, *, served: ServedModel | None = None) -> int:
    """The context length in tokens: what is asked for by ``max_model_len``, else the server's or the model's own.

    Raises:
        ConfigError: the model does not say its own, or more is asked for than it has.
    """
    asked = engine.args.get("max_model_len")
    asked = asked if isinstance(asked, int) and asked > 0 else None
    limit = served.max_model_len if served is not None else None
    if asked is not None and limit is not None:
        return min(asked, limit)
    if asked is not None and (engine.kind != "vllm" or _may_be_longer(engine)):
        return asked
    if limit is not None:
        return limit
    if engine.kind == "scripted":
        return _SCRIPTED_LENGTH
    try:
        own, factor = _own_length(engine, model)
    except OSError:  # no config.json: some models have settings of another form
        own, factor = None, 1.0
    if asked is None:
        if own is None:
            hint = "pass --engine-arg max_model_len=N"
            raise ConfigError(f"model {model!r} does not say its context length", hint=hint)
        return own
    if own is not None and asked > own * factor:
        raise ConfigError(
            f"max_model_len is {asked}, but model {engine.model!r} has a context of {int(own * factor)} tokens",
            hint="pass a smaller max_model_len; VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 lets vLLM try all the same",
        )
    return asked


def _may_be_longer(engine: EngineConfig) -> bool:
    """Whether settings change the model's own length in ways that only vLLM knows."""
    allowed = os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "").lower() in ("1", "true")
    return allowed or any(name in engine.args for name in _OVERRIDES)


def _own_length(engine: EngineConfig, model: str) -> tuple[int | None, float]:
    """The length that the model's settings give, and the factor by which its position scheme stretches it."""
    loaded = json.loads(_config_file(engine, model).read_text(encoding="utf-8"))
    text: dict[str, Any] = loaded.get("text_config") or loaded
    length = text.get("max_position_embeddings") or loaded.get("max_position_embeddings")
    scheme = text.get("rope_parameters") or text.get("rope_scaling") or {}
    factors = [part.get("factor") for part in (scheme, *scheme.values()) if isinstance(part, dict)]
    known = [float(factor) for factor in factors if isinstance(factor, int | float)]
    return length if isinstance(length, int) else None, max([1.0, *known])


def _config_file(engine: EngineConfig, model: str) -> Path:
    folder = Path(model)
    if folder.is_dir():
        return folder / "config.json"
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(model, "config.json", revision=engine.revision))
