"""What the stages of a run share: settings, schema, grammar and model place, built on the driver, shipped as data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.chunking import halve
from pipeline.config import RunConfig
from pipeline.context_length import context_length
from pipeline.data import Chunk
from pipeline.endpoint import find_served
from pipeline.errors import ConfigError
from pipeline.grounding_rule import GroundingRule
from pipeline.models import model_identity, resolve_model
from pipeline.probe import check_server
from pipeline.prompting import Prompting
from pipeline.schema import Schema, load_schema
from pipeline.strict_json import dumps
from pipeline.validation import Invalid, Validator

_VERSION = 1  # part of every key: raise when outcomes of older versions must not be reused
_MIN_CHUNK_TOKENS = 16
_COMPILE_LIMIT_S = 60.0
_COMPILE_LIMIT_MB = 2048
_HARMLESS_ARGS = frozenset(
    {
        "async_scheduling",
        "block_size",
        "compilation_config",
        "cpu_offload_gb",
        "data_parallel_size",
        "device",
        "disable_log_stats",
        "distributed_executor_backend",
        "download_dir",
        "enable_prefix_caching",
        "enforce_eager",
        "gpu_memory_utilization",
        "kv_cache_memory_bytes",
        "load_format",
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_parallel_loading_workers",
        "num_gpu_blocks_override",
        "pipeline_parallel_size",
        "swap_space",
        "tensor_parallel_size",
    }
)
"""Engine arguments that decide how fast an outcome comes, not which; they are no part of a key."""


@dataclass(frozen=True)
class Stage:
    """Everything a worker needs. Heavy parts (tokenizer, prompts, validator) are built where they are used.

    ``fingerprint`` stands for all that decides an outcome besides the text of its chunk (how chunks are merged does
    not; only where a chunk was too long for its answer, its halves were merged by the policy of that run).
    ``chunk_tokens`` is the largest chunk, ``max_model_len`` the context length, both in tokens. ``served_model`` is the
    name that a remote server knows the model by.
    """

    config: RunConfig
    schema: Schema
    grammar: str
    grammar_fingerprint: str
    prompt_fingerprint: str
    model: str
    model_id: str
    fingerprint: str
    max_model_len: int
    chunk_tokens: int
    served_model: str = ""

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.config, self.model)

    @cached_property
    def prompting(self) -> Prompting:
        return _prompting(self.config, self.schema, self.tokenizer)

    @cached_property
    def validator(self) -> Validator:
        """Of whole records."""
        return Validator(self.schema, max_depth=self.config.dspark.max_json_depth)

    @cached_property
    def output_validator(self) -> Validator:
        """Of what the model wrote: with the limits that are for one output and not for a merged record."""
        decoding = self.config.decoding
        return Validator(
            self.schema,
            max_depth=self.config.dspark.max_json_depth,
            max_list_items=decoding.max_list_items,
            nul=decoding.nul,
        )

    @property
    def engine_id(self) -> str:
        """Equal for stages that can share a loaded engine."""
        config = self.config
        parts = [
            self.model,
            self.served_model,
            config.engine.model_dump(mode="json"),
            config.dspark.model_dump(mode="json"),
        ]
        return _hash([*parts, config.decoding.model_dump(mode="json", exclude={"passes"})])

    def key_for(self, text: str) -> str:
        """The key of a chunk with this text."""
        return hashlib.sha256(f"{self.fingerprint}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()

    def halve(self, chunk: Chunk) -> list[Chunk]:
        """The loop's split: halves that overlap as chunks do."""
        overlap = self.config.chunking.overlap_tokens
        return halve(chunk, tokenizer=self.tokenizer, key_for=self.key_for, overlap_tokens=overlap)


def build_stage(config: RunConfig, *, schema: Schema | None = None) -> Stage:
    """Check everything that can be wrong before work starts, and put it together. Runs on the driver.

    Raises:
        ConfigError: unknown model, prompt too long, unimportable script, a server that does not answer as it should.
        SchemaError: the schema cannot be read or has no grammar.
    """
    from pipeline.compiling import check_compiles_once
    from pipeline.grammar import build_grammar  # workers get the text and never need it

    if schema is None:
        if config.schema_spec is None:
            raise ConfigError("no schema is given", hint="pass --schema FILE.py:Class or schema=")
        schema = load_schema(config.schema_spec)
    if config.output.require_grounding:
        GroundingRule(config.output.require_grounding).check(schema.json_schema)
    grammar = build_grammar(
        schema,
        layout=config.decoding.layout,
        max_json_depth=config.dspark.max_json_depth,
        max_list_items=config.decoding.max_list_items,
    )
    _check_examples(config, schema)
    scripted = config.engine.kind == "scripted"
    if scripted:
        from pipeline.testing import load_script

        load_script(config.engine.script or "")
    model = "scripted" if scripted else resolve_model(config.engine)
    model_id = f"scripted:{config.engine.script}" if scripted else model_identity(config.engine)
    served = find_served(config.engine) if config.engine.kind == "openai" else None
    tokenizer = load_tokenizer(config, model)
    if served is not None:
        check_server(config.engine, served, tokenizer)
        model_id = f"served:{served.name}:{model_id}"
    prompting = _prompting(config, schema, tokenizer)
    if not scripted:
        check_compiles_once(
            grammar,
            model if Path(model).is_dir() else None,
            time_limit_s=_COMPILE_LIMIT_S,
            memory_limit_mb=_COMPILE_LIMIT_MB,
        )
    max_model_len = context_length(config.engine, model, served=served)
    args = {name: value for name, value in config.engine.args.items() if name not in _HARMLESS_ARGS}
    fingerprint = _hash(
        [
            _VERSION,
            prompting.fingerprint,
            schema.extraction_fingerprint if config.decoding.passes == 1 else schema.fingerprint,  # with merge policies
            grammar.fingerprint,
            model_id,
            args,
            config.decoding.model_dump(mode="json"),
            config.chunking.model_dump(mode="json"),
        ]
    )
    return Stage(
        config=config,
        schema=schema,
        grammar=grammar.text,
        grammar_fingerprint=grammar.fingerprint,
        prompt_fingerprint=prompting.fingerprint,
        model=model,
        model_id=model_id,
        fingerprint=fingerprint,
        max_model_len=max_model_len,
        chunk_tokens=_chunk_tokens(config, max_model_len, prompting.num_fixed_tokens),
        served_model=served.name if served is not None else "",
    )


def _check_examples(config: RunConfig, schema: Schema) -> None:
    """An example that its own schema refuses would teach the model what is then rejected."""
    validator = Validator(schema)
    for number, example in enumerate(config.prompt.examples, start=1):
        verdict = validator.validate(dumps(example.output))
        if isinstance(verdict, Invalid):
            found = "; ".join(f"{error.path or '/'}: {error.message}" for error in verdict.errors[:3])
            raise ConfigError(f"example {number} does not fit the schema: {found}", hint="correct its output")


def load_tokenizer(config: RunConfig, model: str) -> Any:
    """The model's tokenizer; the scripted engine has one of its own."""
    if config.engine.kind == "scripted":
        from pipeline.testing import WordTokenizer

        return WordTokenizer()
    from pipeline.tokenizer import Tokenizer

    return Tokenizer.load(
        model,
        revision=config.engine.revision,
        trust_remote_code=bool(config.engine.args.get("trust_remote_code")),
        template_options=config.prompt.template_options,
    )


def _prompting(config: RunConfig, schema: Schema, tokenizer: Any) -> Prompting:
    return Prompting(tokenizer, config=config.prompt, json_schema=schema.json_schema, layout=config.decoding.layout)


def _chunk_tokens(config: RunConfig, max_model_len: int, num_fixed_tokens: int) -> int:
    """A chunk's budget: the context less prompt and a part for the answer, at most what the user wants."""
    answer = min(config.decoding.max_output_tokens, max_model_len // 4)
    if config.decoding.passes > 1:
        answer *= 2  # a further prompt holds what was found
    room = max_model_len - num_fixed_tokens - answer
    if room < _MIN_CHUNK_TOKENS:
        raise ConfigError(
            f"instructions, fields and examples take {num_fixed_tokens} of the model's {max_model_len} tokens, "
            f"which leaves {max(room, 0)} for documents",
            hint="shorten the examples or use a model with a longer context",
        )
    return min(config.chunking.max_tokens or room, room)


def _hash(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
