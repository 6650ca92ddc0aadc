"""The workload of the article that gave DSpark its name: many requests for one invented record."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.config import DecodingConfig, DSparkConfig, EngineConfig
from pipeline.decode_passes import decode
from pipeline.dspark.coordinator import coordinator_of
from pipeline.engine import VllmEngine
from pipeline.grammar import build_grammar
from pipeline.models import resolve_model
from pipeline.protocols import Request
from pipeline.schema import load_schema
from pipeline.tokenizer import Tokenizer

PROMPT = "Generate a sample JSON for a user with 3 orders."
TEMPERATURE = 0.2
SCHEMA: dict[str, Any] = {
    "title": "user",
    "type": "object",
    "properties": {
        "user_id": {"type": "string"},
        "order_count": {"type": "integer"},
        "orders": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "order_id": {"type": "string"},
                    "amount": {"type": "number"},
                    "timestamp": {"type": "integer"},
                },
                "required": ["order_id", "amount", "timestamp"],
            },
        },
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "street": {"type": "string"}},
            "required": ["city", "street"],
        },
    },
    "required": ["user_id", "order_count", "orders", "address"],
}


@dataclass(frozen=True, slots=True)
class SeedResult:
    """One variant of the workload; ``kilobytes_per_s`` as in the article (characters / 1024 / seconds)."""

    variant: str
    num_requests: int
    num_chars: int
    num_output_tokens: int
    num_unfinished: int
    num_not_json: int
    elapsed_s: float
    mean_acceptance_length: float

    @property
    def kilobytes_per_s(self) -> float:
        return self.num_chars / 1024.0 / self.elapsed_s


def run_seed(
    engine: VllmEngine, tokenizer: Tokenizer, *, num_requests: int = 100, in_flight: int = 16, max_tokens: int = 2048
) -> list[SeedResult]:
    """The workload with DSpark off and on, in the same engine; request i has seed i in both."""
    grammar = build_grammar(load_schema(SCHEMA)).text
    message = user_message()
    if tokenizer.has_chat_template:
        prompt = tokenizer.encode_template(tokenizer.render([{"role": "user", "content": message}]))
    else:
        prompt = tokenizer.encode(message + "\n")
    coordinator = coordinator_of(engine.vllm_engine)
    results = []
    for variant, attempt in zip(("off", "dspark"), itertools.count(), strict=False):
        if coordinator is not None:
            coordinator.enabled = variant == "dspark"
            coordinator.counters.reset()
        engine.vllm_engine.reset_prefix_cache()
        requests = [
            Request(f"seed-{attempt}-{index}", prompt, max_tokens, grammar, (0, len(prompt)), seed=index)
            for index in range(num_requests)
        ]
        done = decode(engine, requests, in_flight=in_flight)
        results.append(
            SeedResult(
                variant=variant,
                num_requests=num_requests,
                num_chars=sum(len(text) for text in done.texts),
                num_output_tokens=done.num_output_tokens,
                num_unfinished=sum(c.finish_reason != "stop" for c in done.completions),
                num_not_json=sum(not is_json(text) for text in done.texts),
                elapsed_s=done.elapsed_s,
                mean_acceptance_length=coordinator.counters.mean_acceptance_length if coordinator else 1.0,
            )
        )
    return results


def user_message() -> str:
    """What the user says: the article's prompt and its schema."""
    return f"{PROMPT} Now output a JSON object with the following schema: {json.dumps(_shown(SCHEMA))}"


def _shown(schema: dict[str, Any]) -> Any:
    """The schema as the article shows it: names with types instead of JSON Schema."""
    if schema["type"] == "object":
        return {name: _shown(part) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        return [_shown(schema["items"])]
    return {"integer": "int", "number": "float"}.get(schema["type"], schema["type"])


def is_json(text: str) -> bool:
    """Whether a whole output is one JSON value."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def measure_seed(*, engine: EngineConfig, num_requests: int, in_flight: int, max_tokens: int) -> dict[str, Any]:
    """Start an engine, run the workload and return its figures."""
    model = resolve_model(engine)
    tokenizer = Tokenizer.load(model, revision=engine.revision)
    decoding = DecodingConfig(temperature=TEMPERATURE, max_output_tokens=max_tokens)
    started = VllmEngine(model, config=engine, decoding=decoding, dspark=DSparkConfig())
    try:
        results = run_seed(started, tokenizer, num_requests=num_requests, in_flight=in_flight, max_tokens=max_tokens)
    finally:
        started.close()
    off, dspark = results
    return {
        "model": engine.model,
        "in_flight": in_flight,
        "temperature": TEMPERATURE,
        "max_tokens": max_tokens,
        "ratio": dspark.kilobytes_per_s / off.kilobytes_per_s,
        "variants": [{**asdict(result), "kilobytes_per_s": result.kilobytes_per_s} for result in results],
    }


def seed_table(figures: Mapping[str, Any]) -> str:
    """The figures as the article shows them."""
    lines = [
        f"Model {figures['model']}, {figures['in_flight']} in flight, temperature {figures['temperature']}, "
        f"at most {figures['max_tokens']} tokens.",
        "",
        "| DSpark | characters | seconds | KB/s | tokens | unfinished | not JSON | mean acceptance length |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {'on' if v['variant'] == 'dspark' else 'off'} | {v['num_chars']} | {v['elapsed_s']:.1f} "
        f"| {v['kilobytes_per_s']:.2f} | {v['num_output_tokens']} | {v['num_unfinished']} | {v['num_not_json']} "
        f"| {v['mean_acceptance_length']:.2f} |"
        for v in figures["variants"]
    ]
    return "\n".join([*lines, "", f"Throughput on / off: {figures['ratio']:.2f}", ""])
