"""All settings of a run, frozen and validated on the driver before any work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipeline.errors import ConfigError
from pipeline.setting_faults import engine_arg_fault, fault_line, holds
from pipeline.settings_file import read_settings

Layout = Literal["spaced", "indented", "compact"]
InputFormat = Literal["jsonl", "parquet", "csv", "text", "table", "pdf", "html", "docx"]
OutputFormat = Literal["parquet", "jsonl"]


def _is_text(value: str) -> str:
    if re.search(r"[\ud800-\udfff]", value):
        raise ValueError("a lone surrogate is not text")
    return value


Text = Annotated[str, AfterValidator(_is_text)]


class Settings(BaseModel):
    """Base: frozen, unknown keys fail."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=False)


class InputConfig(Settings):
    """Where the documents come from. ``id_column`` None: the file name or a content hash names a document."""

    path: str | None = None
    format: InputFormat | None = None
    id_column: str | None = None
    text_column: str = "text"
    limit: int | None = Field(default=None, ge=1)


class Example(Settings):
    """One few-shot example: a document's text and the JSON value that is right for it."""

    text: Text
    output: dict[str, Any]


class PromptConfig(Settings):
    """What the model reads before the document. ``show_schema`` adds a short description of the fields.

    ``template_options`` are variables of the model's chat template, as ``{reasoning_effort: low}``. Thinking cannot be
    switched on: the grammar holds from the first token, so a model would find its first word taken.
    """

    instructions: Text = "Extract the information from the document as one JSON object."
    examples: tuple[Example, ...] = ()
    show_schema: bool = True
    template_options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("template_options")
    @classmethod
    def _thinks_in_a_field(cls, options: dict[str, Any]) -> dict[str, Any]:
        on = [name for name in ("enable_thinking", "thinking") if options.get(name)]
        if on:
            raise ValueError(f"{on[0]} must be off; a model may think in a text field that the schema has first")
        return options


class ChunkingConfig(Settings):
    """How a long document is split. ``max_tokens`` None: as much as the context length allows."""

    max_tokens: int | None = Field(default=None, ge=16)
    overlap_tokens: int = Field(default=64, ge=0)
    repeat_preamble: bool = True

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> ChunkingConfig:
        if self.max_tokens is not None and self.overlap_tokens >= self.max_tokens:
            raise ValueError("overlap_tokens must be smaller than max_tokens")
        return self


class DecodingConfig(Settings):
    """What decides an output besides the prompt; part of a document's key.

    ``max_output_tokens`` is the first attempt's budget; a truncated output gets ``truncation_factor`` times as much
    once. ``layout`` is the JSON layout the model writes (see :mod:`pipeline.grammar`). ``max_list_items`` ends a list
    without ``maxItems``, which would otherwise end with the tokens; an output that reaches it is invalid, never cut.
    ``nul`` is what becomes of U+0000 in a text: kept as JSON allows it, stripped, or an invalid output. ``passes`` is
    how often the model is asked at most for a schema with lists: each further pass sees what was found and adds what
    was missed (:mod:`pipeline.uniting`); the first that adds nothing is the last.
    """

    layout: Layout = "indented"
    max_output_tokens: int = Field(default=1024, ge=1)
    truncation_factor: int = Field(default=4, ge=1)
    temperature: float = Field(default=0.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    seed: int = 0
    max_retries: int = Field(default=1, ge=0)
    max_list_items: int | None = Field(default=None, ge=1)
    nul: Literal["keep", "strip", "reject"] = "keep"
    passes: int = Field(default=1, ge=1, le=10)


class EngineConfig(Settings):
    """The engine and its limits. ``args`` goes to vLLM unchanged (``tensor_parallel_size`` and all others).

    ``kind`` ``openai`` sends requests to a vLLM server at ``base_url`` (see :mod:`pipeline.remote_engine`). ``model``
    is then where its tokenizer comes from, ``served_model`` the server's name for it where that differs, and
    ``api_key_env`` the *name* of the environment variable that holds the key on driver and executors.
    """

    kind: Literal["vllm", "openai", "scripted"] = "vllm"
    model: str = "demo"
    revision: str | None = None
    args: dict[str, Any] = Field(default_factory=dict)
    base_url: str | None = None
    api_key_env: str | None = None
    served_model: str | None = None
    request_timeout_s: float = Field(default=600.0, gt=0)
    max_in_flight: int | None = Field(default=None, ge=1)
    stall_timeout_s: float = Field(default=600.0, gt=0)
    document_timeout_s: float | None = Field(default=None, gt=0)
    script: str | None = None

    @field_validator("args")
    @classmethod
    def _can_be_right(cls, args: dict[str, Any]) -> dict[str, Any]:
        for forbidden in ("model", "revision", "min_tokens"):
            if forbidden in args:
                raise ValueError(f"{forbidden} cannot be set here")
        faults = [fault for name, value in args.items() if (fault := engine_arg_fault(name, value))]
        if faults:
            raise ValueError("; ".join(faults))
        return args

    @field_validator("base_url")
    @classmethod
    def _is_base_url(cls, url: str | None) -> str | None:
        return None if url is None else base_url_of(url)

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):  # the text might be a key: not repeated
            raise ValueError("must be the name of an environment variable (A-Z, 0-9, _), not the key itself")
        return name

    @model_validator(mode="after")
    def _belongs_together(self) -> EngineConfig:
        if self.kind != "openai":
            given = [name for name in ("base_url", "api_key_env", "served_model") if getattr(self, name) is not None]
            if given:
                raise ValueError(f"{', '.join(given)} only with kind openai (--engine openai)")
            return self
        if self.base_url is None:
            raise ValueError("kind openai needs base_url (--base-url http://HOST:PORT/v1)")
        useless = sorted(set(self.args) - {"max_model_len", "trust_remote_code"})
        if useless:
            raise ValueError(f"args {', '.join(useless)} cannot be set: the server has its own")
        return self


def base_url_of(text: str) -> str:
    """The address of a server's OpenAI interface without what does not belong there.

    Raises:
        ValueError: no http(s) address, or one with a password, a query, or the path of one endpoint.
    """
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as http://HOST:PORT/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:  # not repeated: it may hold a key
        raise ValueError("must hold neither user, key nor query; name the key's variable with --api-key-env")
    path = parts.path.rstrip("/")
    if path.endswith(("/completions", "/chat", "/models", "/responses")):
        raise ValueError(f"must end before {path[path.rindex('/') :]}, usually in /v1")
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


class DSparkConfig(Settings):
    """The one switch is ``enabled``; everything else is inferred unless set (article's names and defaults).

    ``max_token_budget`` bounds draft tokens per step over all requests, ``max_concurrent_structs`` the requests that
    draft at the same time, ``draft_model`` selects vLLM's own trained DSpark on GPUs.
    """

    enabled: bool = True
    max_json_depth: int = Field(default=128, ge=1)
    max_token_budget: int = Field(default=8192, ge=1)
    max_concurrent_structs: int | None = Field(default=None, ge=1)
    draft_model: str | None = None
    self_test: bool = True


class OutputConfig(Settings):
    """What is written and when a run counts as failed; all of it may change between runs into the same folder.

    ``grounding`` finds each value's place in its document (``meta.spans``). Values of the fields in
    ``require_grounding`` (see :class:`pipeline.grounding_rule.GroundingRule`) that stand nowhere are treated by
    ``ungrounded``. ``confidence`` keeps the probability of each value (``meta.confidence``). ``report`` writes
    ``report.html``, which shows a sample of documents.
    """

    path: str | None = None
    formats: tuple[OutputFormat, ...] = ("parquet", "jsonl")
    profile: str = "spark"
    id_field: str = "doc_id"
    max_reject_rate: float | None = Field(default=None, ge=0.0, le=1.0)
    report: bool = True
    grounding: bool = True
    require_grounding: tuple[str, ...] = ()
    ungrounded: Literal["reject", "null"] = "reject"
    confidence: bool = False

    @field_validator("require_grounding")
    @classmethod
    def _paths_are_named(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        if any(not path.strip() for path in paths):
            raise ValueError("a path is blank; write a field as /orders/*/amount")
        return paths

    @property
    def reads_text(self) -> bool:
        """Whether writing the output needs the documents' text."""
        return self.grounding or bool(self.require_grounding)


class JournalConfig(Settings):
    """When a worker flushes outcomes to the journal; what is lost in a crash is at most one interval."""

    flush_outcomes: int = Field(default=256, ge=1)
    flush_interval_s: float = Field(default=30.0, gt=0)
    retry_rejects: bool = False


class PartitionConfig(Settings):
    """How much work a task of the extraction stage gets on a cluster: ``minutes`` at an estimated speed."""

    minutes: float = Field(default=10.0, gt=0)
    tokens_per_s: float = Field(default=2000.0, gt=0)


class RunConfig(Settings):
    """One run. ``schema_spec`` is what :func:`pipeline.schema.load_schema` takes as text."""

    schema_spec: str | None = None
    input: InputConfig = InputConfig()
    prompt: PromptConfig = PromptConfig()
    chunking: ChunkingConfig = ChunkingConfig()
    decoding: DecodingConfig = DecodingConfig()
    engine: EngineConfig = EngineConfig()
    dspark: DSparkConfig = DSparkConfig()
    output: OutputConfig = OutputConfig()
    journal: JournalConfig = JournalConfig()
    partition: PartitionConfig = PartitionConfig()
    quiet: bool = False


def load_config(values: Mapping[str, Any], *, file: Path | None = None) -> RunConfig:
    """Merge ``file`` (YAML, the same nesting) with ``values`` (which win) into a validated :class:`RunConfig`.

    Raises:
        ConfigError: unreadable file, unknown key, or a value out of range; names each of them.
    """
    base = read_settings(file) if file else {}
    try:
        return RunConfig.model_validate(_merge(base, values))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        in_file = file is not None and not any(holds(values, fault["loc"]) for fault in faults)
        lines = [fault_line(fault, RunConfig) for fault in faults]
        raise ConfigError(f"wrong settings{f' in {file}' if in_file else ''}: " + "; ".join(lines)) from None


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
