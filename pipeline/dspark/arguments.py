"""DSpark's settings as vLLM engine arguments, and back inside the engine process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

PROPOSER = "pipeline.dspark.proposer.EmptyProposer"
SCHEDULER = "pipeline.dspark.scheduler.DSparkScheduler"

NUM_DRAFT_SLOTS = 31
"""Longest draft of one request. With the token before it that makes 32, which CUDA graphs are captured for anyway."""

_KEY = "dspark"


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What the scheduler needs to know; travels in ``vllm_config.additional_config["dspark"]``.

    ``max_token_budget`` bounds draft tokens per step over all requests, ``max_concurrent_structs`` the requests that
    draft at the same time (None: all). ``max_json_depth`` is checked on the driver and only reported here.
    """

    num_draft_slots: int = NUM_DRAFT_SLOTS
    max_token_budget: int = 8192
    max_concurrent_structs: int | None = None
    max_json_depth: int = 128

    @classmethod
    def from_additional_config(cls, additional_config: object) -> SchedulerSettings:
        """Read what :func:`engine_arguments` wrote; defaults where it wrote nothing (``vllm serve`` by hand)."""
        given = additional_config.get(_KEY, {}) if isinstance(additional_config, Mapping) else {}
        return cls(**{name: given[name] for name in cls.__slots__ if name in given})


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What one request says in ``SamplingParams.extra_args["dspark"]``.

    ``document_start``/``document_end`` are offsets in the prompt's token ids; without them the whole prompt is the
    document. ``examples`` are four offsets each: an example's document, start and end, and its output, start and end.
    ``enabled`` False decodes this request plainly. ``num_filler`` > 0 attaches so many arbitrary legal draft tokens
    instead of drafts: steps of a known size, for measuring.
    """

    document_start: int = 0
    document_end: int | None = None
    enabled: bool = True
    num_filler: int = 0
    examples: Sequence[Sequence[int]] = ()

    @classmethod
    def from_extra_args(cls, extra_args: object) -> RequestSettings:
        """Read ``extra_args["dspark"]``, or what a server's client sent flat in ``vllm_xargs``; never raises.

        Clients know ``dspark_document_start``, ``dspark_document_end`` and ``dspark_enabled`` (0 or 1); a value that
        is no number of that kind counts as not sent, because nobody's request may end a server.
        """
        if not isinstance(extra_args, Mapping):
            return cls()
        given = extra_args.get(_KEY)
        if isinstance(given, Mapping):
            return cls(**{name: given[name] for name in cls.__slots__ if name in given})
        sent = {name: extra_args.get(f"{_KEY}_{name}") for name in ("document_start", "document_end", "enabled")}
        numbers: dict[str, Any] = {name: value for name, value in sent.items() if isinstance(value, int) and value >= 0}
        if "enabled" in numbers:
            numbers["enabled"] = bool(numbers["enabled"])
        return cls(**numbers)


def engine_arguments(
    settings: Mapping[str, Any], *, model: str, device: str, num_draft_slots: int | None = None
) -> dict[str, Any]:
    """Keyword arguments for vLLM's ``EngineArgs`` that turn DSpark on; empty when ``settings["enabled"]`` is false.

    ``settings`` holds ``enabled``, ``max_json_depth``, ``max_token_budget``, ``max_concurrent_structs`` and
    ``draft_model``; missing ones keep their defaults. With ``draft_model`` the arguments select vLLM's own trained
    DSpark; the value may be the target's own name, since some checkpoints carry the head.

    Raises:
        ValueError: ``draft_model`` on a CPU, where vLLM has no trained DSpark.
    """
    if not settings.get("enabled", True):
        return {}
    draft_model = settings.get("draft_model")
    if draft_model:
        if device == "cpu":
            raise ValueError("dspark.draft_model needs a GPU: vLLM's trained DSpark does not run on the CPU")
        # The block length comes from the head's own configuration unless it is asked for.
        speculative: dict[str, Any] = {"method": "dspark", "model": draft_model}
        if num_draft_slots is not None:
            speculative["num_speculative_tokens"] = num_draft_slots
        return {"speculative_config": speculative}
    slots = num_draft_slots or NUM_DRAFT_SLOTS
    chosen = {name: settings[name] for name in SchedulerSettings.__slots__ if settings.get(name) is not None}
    scheduler = SchedulerSettings(**{**chosen, "num_draft_slots": slots})
    return {
        "speculative_config": {"method": "custom_class", "model": PROPOSER, "num_speculative_tokens": slots},
        "scheduler_cls": SCHEDULER,
        "async_scheduling": False,
        "additional_config": {_KEY: asdict(scheduler)},
    }
