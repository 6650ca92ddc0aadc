"""The arguments for vLLM's own trained DSpark pass vLLM's own configuration checks; no weights are loaded."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.dspark.arguments import engine_arguments

pytest.importorskip("vllm")
pytestmark = pytest.mark.vllm

QWEN3: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
QWEN3_DRAFT = QWEN3 | {
    "architectures": ["DSparkDraftModel"],
    "num_hidden_layers": 1,
    "block_size": 7,
    "dspark_target_layer_ids": [0, 2, 3],
    "markov_rank": 16,
}
DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "num_nextn_predict_layers": 1,
    "dspark_block_size": 5,
    "torch_dtype": "bfloat16",
}


def folder(path: Path, config: dict[str, Any]) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


def speculative_config(target: str, draft: str) -> Any:
    from vllm.config import ModelConfig, ParallelConfig
    from vllm.config.speculative import SpeculativeConfig

    arguments = engine_arguments({"draft_model": draft}, model=target, device="cuda")["speculative_config"]
    model = ModelConfig(model=target, skip_tokenizer_init=True, enforce_eager=True)
    return SpeculativeConfig(**arguments, target_model_config=model, target_parallel_config=ParallelConfig())


def test_qwen3_with_a_draft_checkpoint(tmp_path: Path) -> None:
    made = speculative_config(folder(tmp_path / "qwen3", QWEN3), folder(tmp_path / "draft", QWEN3_DRAFT))
    assert made.method == "dspark"
    assert made.num_speculative_tokens == 7
    assert made.draft_model_config.architectures == ["Qwen3DSparkModel"]


@pytest.mark.parametrize(("kind", "draft"), [("v4", "DSparkDraftModel"), ("v41", "DSparkV41DraftModel")])
def test_deepseek_v4_carries_its_draft_head(tmp_path: Path, kind: str, draft: str) -> None:
    names = {"model_type": f"deepseek_{kind}", "architectures": [f"Deepseek{kind.upper()}ForCausalLM"]}
    target = folder(tmp_path / "deepseek", DEEPSEEK | names)
    made = speculative_config(target, target)
    assert made.method == "dspark"
    assert made.num_speculative_tokens == 5
    assert made.draft_model_config.architectures == [draft]
