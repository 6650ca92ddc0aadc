"""Settings by the short names that the Python entries take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.config import RunConfig, load_config
from pipeline.errors import ConfigError

_SETTINGS = {
    "model": "engine.model",
    "instructions": "prompt.instructions",
    "examples": "prompt.examples",
    "engine_args": "engine.args",
    "engine": "engine.kind",
    "base_url": "engine.base_url",
    "api_key_env": "engine.api_key_env",
    "served_model": "engine.served_model",
    "max_in_flight": "engine.max_in_flight",
    "dspark": "dspark.enabled",
    "max_retries": "decoding.max_retries",
    "passes": "decoding.passes",
    "id_column": "input.id_column",
    "text_column": "input.text_column",
    "profile": "output.profile",
    "grounding": "output.grounding",
    "require_grounding": "output.require_grounding",
    "ungrounded": "output.ungrounded",
    "confidence": "output.confidence",
    "report": "output.report",
    "retry_rejects": "journal.retry_rejects",
}


def run_config(
    config: RunConfig | None = None, *, values: Mapping[str, Any] | None = None, **settings: Any
) -> RunConfig:
    """Settings by short name over ``config``.

    Raises:
        ConfigError: an unknown setting or a wrong value.
    """
    if config is not None and not isinstance(config, RunConfig):
        raise ConfigError(
            f"config is a {type(config).__name__}, not a RunConfig",
            hint="pass pipeline.RunConfig.model_validate(config)",
        )
    merged: dict[str, Any] = {section: dict(content) for section, content in (values or {}).items()}
    for name, value in settings.items():
        if name not in _SETTINGS:
            raise ConfigError(f"unknown setting {name!r}", hint=f"known: {', '.join(sorted(_SETTINGS))}")
        section, _, key = _SETTINGS[name].partition(".")
        merged.setdefault(section, {})[key] = list(value) if isinstance(value, tuple) else value
    base = config.model_dump(mode="json", exclude_unset=True) if config is not None else {}
    return load_config(_over(base, merged))


def _over(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of ``values`` over those of ``base``."""
    names: Iterable[str] = {**base, **values}
    return {
        name: {**(base.get(name) or {}), **values[name]} if isinstance(values.get(name), Mapping) else base[name]
        for name in names
    }
