"""With a temperature, drafts leave the distribution of outputs unchanged: a chi-squared test on a tiny random model."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.demo_model import ensure_demo_model
from tests.dspark.engines import Bench, Job, text_job

pytest.importorskip("vllm")
pytestmark = pytest.mark.vllm

GRAMMAR = r"""root ::= "{\"colour\": \"" ("red" | "rose" | "green") "\", \"size\": \"" ("small" | "large") "\"}" """
NUM_SAMPLES = 320
CRITICAL_5_DEGREES = 25.7
"""Chi-squared with 5 degrees of freedom exceeds this in one of ten thousand runs; the seeds below are fixed anyway."""


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of one small layer with random weights and the demo model's tokenizer."""
    import torch
    from safetensors.torch import save_file

    source, folder = ensure_demo_model(), tmp_path_factory.mktemp("tiny-model")
    config = json.loads((source / "config.json").read_text())
    config |= {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2}
    config |= {"num_key_value_heads": 2, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    generator = torch.Generator().manual_seed(5)

    def random(*shape: int, scale: float = 0.05) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * scale

    layer = "model.layers.0."
    weights = {f"{layer}self_attn.{name}_proj.weight": random(64, 64) for name in "qkvo"}
    weights |= {f"{layer}mlp.{name}_proj.weight": random(128, 64) for name in ("gate", "up")}
    weights |= {f"{layer}mlp.down_proj.weight": random(64, 128)}
    norms = (f"{layer}input_layernorm.weight", f"{layer}post_attention_layernorm.weight", "model.norm.weight")
    weights |= {name: torch.ones(64) for name in norms}
    weights["model.embed_tokens.weight"] = random(config["vocab_size"], 64, scale=0.12)
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def bench(tiny_model: Path) -> Iterator[Bench]:
    started = Bench(tiny_model)
    yield started
    started.close()


def sample(bench: Bench, job: Job, *, dspark: bool, num_samples: int = NUM_SAMPLES, **sampling: float) -> Counter[str]:
    jobs = [Job(f"{index}", job.prompt_token_ids, job.span, job.grammar) for index in range(num_samples)]
    tokenizer = bench.engine.get_tokenizer()
    outputs: dict[str, list[int]] = {}
    for start in range(0, num_samples, 16):  # each request its own seed, the two variants different ones
        for one in jobs[start : start + 16]:
            seed = int(one.name) + (10_000 if dspark else 0)
            bench.add(one, dspark=dspark, seed=seed, **sampling)
        while bench.engine.has_unfinished_requests():
            for output in bench.engine.step():
                if output.finished:
                    outputs[output.request_id] = list(output.outputs[0].token_ids)
    return Counter(tokenizer.decode(tokens, skip_special_tokens=True) for tokens in outputs.values())


def test_sampled_outputs_are_distributed_as_without_drafts(bench: Bench, tiny_model: Path) -> None:
    sampling = {"temperature": 0.6, "top_p": 0.98, "top_k": 40}  # a temperature of 1 would hide one that is lost
    job = text_job(tiny_model, "red large green small rose", GRAMMAR)
    plain = sample(bench, job, dspark=False, **sampling)
    before = bench.coordinator.counters.snapshot()
    drafted = sample(bench, job, dspark=True, **sampling)
    counters = bench.coordinator.counters
    assert counters.num_drafted > before["num_drafted"]
    assert counters.num_drafted > counters.num_accepted > 0  # some drafts were wrong, so rejection was at work
    assert plain.total() == drafted.total() == NUM_SAMPLES
    assert len(plain) >= 4
    assert chi_squared(plain, drafted) < CRITICAL_5_DEGREES


def test_drafts_are_accepted_at_a_low_temperature_nearly_as_often_as_without_one(
    bench: Bench, tiny_model: Path
) -> None:
    job, counters, rates = text_job(tiny_model, "red large green small rose", GRAMMAR), bench.coordinator.counters, []
    bench.coordinator.verify_all = True  # whatever steps cost on a busy machine
    for temperature in (0.0, 0.01):
        bench.coordinator.forget()
        drafted, accepted = counters.num_drafted, counters.num_accepted
        sample(bench, job, dspark=True, num_samples=32, temperature=temperature)
        rates.append((counters.num_accepted - accepted) / (counters.num_drafted - drafted))
    bench.coordinator.verify_all = False
    assert rates[0] > 0.1
    assert rates[1] > 0.8 * rates[0]


def test_settings_are_spread_over_the_draft_tokens_of_each_request() -> None:
    import torch

    from pipeline.dspark.proposer import mend_sampling, spread, spreads_settings

    mend_sampling()
    assert spreads_settings()
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    assert spread(torch.tensor([0.25, 0.5, 0.0]), ends, 5, 0, 1).tolist() == [0.25, 0.25, 1.0, 1.0, 1.0]
    assert spread(torch.tensor([7, 8, 9], dtype=torch.int32), ends, 5).tolist() == [7, 7, 9, 9, 9]


def chi_squared(one: Counter[str], other: Counter[str]) -> float:
    """Homogeneity of two samples of equal size."""
    return sum((one[key] - other[key]) ** 2 / (one[key] + other[key]) for key in one.keys() | other.keys())


def test_the_test_would_see_a_shifted_distribution() -> None:
    assert chi_squared(Counter(a=160, b=160), Counter(a=220, b=100)) > CRITICAL_5_DEGREES / 2
