"""Where a model's files are: the demo model, a local folder or a hub id."""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.config import EngineConfig
from pipeline.demo_model import DEMO_MODEL, GGUF_SHA256, ensure_demo_model
from pipeline.errors import ConfigError

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$")


def resolve_model(config: EngineConfig) -> str:
    """The folder or hub id that the engine loads; builds the demo model where it is asked for.

    Raises:
        ConfigError: neither a folder with a ``config.json`` nor a hub id whose configuration can be had.
    """
    name = config.model
    if name == DEMO_MODEL:
        return str(ensure_demo_model())
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(f"model folder {folder} has no config.json", hint="pass a Hugging Face model folder")
        return str(folder.resolve())
    if name.startswith((".", "/", "~")) or not _HUB_ID.match(name):
        raise ConfigError(
            f"unknown model {name!r}: no such folder, and not a hub id (owner/name)",
            hint="pass 'demo', a folder, or a hub id such as Qwen/Qwen3-4B",
        )
    _check_hub(name, config.revision)
    return name


def _check_hub(name: str, revision: str | None) -> None:
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(name, "config.json", revision=revision)
    except Exception as error:  # the hub client raises a dozen unrelated classes; all of them mean "cannot be had"
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        if type(error).__name__ in ("LocalEntryNotFoundError", "OfflineModeIsEnabled"):
            reason = "the hub is out of reach, and the model is not in the local cache"
        raise ConfigError(
            f"model {name!r} cannot be had: {reason}", hint="check the name, the network and HF_TOKEN"
        ) from None


def model_identity(config: EngineConfig) -> str:
    """What stands for the model in keys and the manifest: hub id and revision, or a folder's configuration hash.

    A folder is named by content (``config.json`` and the weight files' names and sizes), not by where it lies.
    """
    import hashlib

    if config.model == DEMO_MODEL:
        return f"demo:{GGUF_SHA256}"
    folder = Path(config.model).expanduser()
    if not folder.is_dir():
        return f"{config.model}@{config.revision or 'main'}"
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in sorted(folder.iterdir()):
        if file.suffix in {".safetensors", ".bin", ".json", ".model"}:
            digest.update(f"{file.name}:{file.stat().st_size}".encode())
    return f"folder:{digest.hexdigest()}"
