"""Where models come from: demo, folder, hub id; what is wrong is said on the driver."""

import json
from pathlib import Path

import pytest

from pipeline import demo_model
from pipeline.config import EngineConfig
from pipeline.demo_model import ensure_demo_model
from pipeline.errors import ConfigError
from pipeline.models import model_identity, resolve_model


def test_the_demo_model_is_a_complete_folder_and_built_once() -> None:
    folder = ensure_demo_model()
    built = (folder / "model.safetensors").stat().st_mtime_ns
    assert ensure_demo_model() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == built
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]


def test_a_damaged_cache_is_not_taken_for_complete(tmp_path: Path) -> None:
    (tmp_path / "complete.json").write_text(json.dumps({"model.safetensors": 10}))
    (tmp_path / "model.safetensors").write_bytes(b"123")
    assert not demo_model._is_complete(tmp_path)


def test_a_foreign_gguf_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    monkeypatch.setattr(demo_model, "_gguf_file", lambda: other)
    with pytest.raises(ConfigError, match="sha256"):
        ensure_demo_model(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("name", "named"),
    [("no-such-model", "no such folder"), ("./missing", "no such folder"), ("/missing", "no such folder")],
)
def test_an_unknown_model_is_named_with_what_to_do(name: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        resolve_model(EngineConfig(model=name))


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        resolve_model(EngineConfig(model=str(tmp_path)))


def test_a_hub_id_that_cannot_be_had_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="nobody/nothing-at-all") as caught:
        resolve_model(EngineConfig(model="nobody/nothing-at-all"))
    assert "\n" not in str(caught.value)


def test_identity_follows_content_not_place(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    one, two = (model_identity(EngineConfig(model=str(tmp_path / name))) for name in ("a", "b"))
    assert one == two
    (tmp_path / "b" / "config.json").write_text('{"x": 1}')
    assert model_identity(EngineConfig(model=str(tmp_path / "b"))) != one
    assert model_identity(EngineConfig(model="o/n", revision="r")) == "o/n@r"
