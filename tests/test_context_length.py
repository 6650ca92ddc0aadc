"""A context that a model does not have is refused before it is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import EngineConfig
from pipeline.context_length import context_length
from pipeline.endpoint import ServedModel
from pipeline.errors import ConfigError


def model(folder: Path, **settings: Any) -> str:
    (folder / "config.json").write_text(json.dumps(settings))
    return str(folder)


def engine(name: str, **args: Any) -> EngineConfig:
    return EngineConfig(model=name, args=args)


def test_a_model_says_its_length_and_less_may_be_asked_for(tmp_path: Path) -> None:
    name = model(tmp_path, max_position_embeddings=8192)
    assert context_length(engine(name), name) == 8192
    assert context_length(engine(name, max_model_len=512), name) == 512
    nested = model(tmp_path, text_config={"max_position_embeddings": 4096})
    assert context_length(engine(nested), nested) == 4096


def test_more_than_a_model_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = model(tmp_path, max_position_embeddings=8192)
    with pytest.raises(ConfigError, match=r"max_model_len is 8193, but model .* has a context of 8192 tokens"):
        context_length(engine(name, max_model_len=8193), name)
    assert context_length(engine(name, max_model_len=8193, hf_overrides={}), name) == 8193
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
    assert context_length(engine(name, max_model_len=8193), name) == 8193


@pytest.mark.parametrize("scheme", [{"rope_type": "yarn", "factor": 4.0}, {"full_attention": {"factor": 4}}])
def test_a_stretching_position_scheme_counts(tmp_path: Path, scheme: dict[str, Any]) -> None:
    name = model(tmp_path, max_position_embeddings=32768, rope_scaling=scheme)
    assert context_length(engine(name), name) == 32768
    assert context_length(engine(name, max_model_len=131072), name) == 131072
    with pytest.raises(ConfigError, match="131072 tokens"):
        context_length(engine(name, max_model_len=131073), name)


def test_a_model_without_a_length_needs_one(tmp_path: Path) -> None:
    name = model(tmp_path, hidden_size=1)
    with pytest.raises(ConfigError, match=r"does not say its context length .*max_model_len=N"):
        context_length(engine(name), name)
    assert context_length(engine(name, max_model_len=64), name) == 64


def test_a_model_without_settings_takes_what_is_asked_for(tmp_path: Path) -> None:
    name = str(tmp_path)  # no config.json, as in formats of other programs
    assert context_length(engine(name, max_model_len=64), name) == 64
    with pytest.raises(ConfigError, match="does not say its context length"):
        context_length(engine(name), name)


def test_a_server_limits_what_is_asked_for() -> None:
    served = ServedModel("small", 512)
    remote = EngineConfig(kind="openai", base_url="http://localhost/v1", args={"max_model_len": 2048})
    assert context_length(remote, "x", served=served) == 512
    assert context_length(remote.model_copy(update={"args": {}}), "x", served=served) == 512
