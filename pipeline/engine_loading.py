"""Loading vLLM's ``LLMEngine``: its arguments, and what the engine has to know of the loaded model."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from pipeline.config import DSparkConfig, EngineConfig
from pipeline.dspark.arguments import engine_arguments
from pipeline.dspark.contract import contract_faults
from pipeline.errors import ConfigError, EngineStartError

logger = logging.getLogger(__name__)

CPU_MAX_IN_FLIGHT = 16
_CANARY_GRAMMAR = r"""root ::= "{\"height\": " [1-9] [0-9]{0,3} "}"
"""
_CANARY_OUTPUT = re.compile(r'\{"height": [1-9][0-9]{0,3}\}')
_CANARY_TOKENS = 24


def load_engine(model: str, config: EngineConfig, dspark: DSparkConfig) -> Any:
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    _make_llvmlite_scannable()
    from vllm import EngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.llm_engine import LLMEngine

    check_names(config.args, [field.name for field in fields(EngineArgs)])
    device = str(current_platform.device_type)
    if device == "cpu":
        _use_threads()
    return LLMEngine.from_engine_args(EngineArgs(**engine_args(model, config, dspark, device=device)))


def check_names(args: Iterable[str], known: Sequence[str]) -> None:
    """Raise ConfigError where vLLM does not know an engine argument."""
    for name in args:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise ConfigError(
                f"this version of vLLM has no engine argument {name!r}",
                hint=f"did you mean {close[0]}?" if close else "--engine-arg takes those of vLLM's EngineArgs",
            )


def _use_threads() -> None:
    """As many threads as ``OMP_NUM_THREADS`` says now: a preloaded OpenMP read it when the process started, and Spark
    starts its workers with one."""
    import torch

    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and torch.get_num_threads() < int(wanted):
        torch.set_num_threads(int(wanted))


def usable_dspark(dspark: DSparkConfig) -> DSparkConfig:
    """The settings, or DSpark switched off, said in the log, where this vLLM lacks what it relies on."""
    if not dspark.enabled or dspark.draft_model:  # the trained one is vLLM's own
        return dspark
    _make_llvmlite_scannable()
    faults = contract_faults()
    if not faults:
        return dspark
    logger.warning("dspark is off, decoding goes on plainly: %s", "; ".join(faults))
    return dspark.model_copy(update={"enabled": False})


def _make_llvmlite_scannable() -> None:
    """vLLM's CPU start looks into every attribute of every loaded module; llvmlite's library proxy answers ``__dict__``
    with a function and ends the start. So numba may be imported before the engine (by us, or by a user's schema)."""
    try:
        from llvmlite.binding import ffi

        ffi.lib._fntab.setdefault("__dict__", {})
    except (ImportError, AttributeError):
        return  # no numba here, or another llvmlite whose proxy is built differently


def engine_args(model: str, config: EngineConfig, dspark: DSparkConfig, *, device: str) -> dict[str, Any]:
    """Keyword arguments of vLLM's ``EngineArgs``: our defaults, then DSpark's, then what the user set.

    Raises:
        ConfigError: a setting that this device cannot follow.
    """
    args: dict[str, Any] = {
        "model": model,
        "revision": config.revision if "/" in model and not os.path.isdir(model) else None,
        "enable_prefix_caching": True,
        "generation_config": "vllm",
        "disable_log_stats": True,
        "structured_outputs_config": {"backend": "xgrammar"},
        "trust_remote_code": False,
    }
    if device == "cpu":
        args |= {"enforce_eager": True, "max_num_seqs": CPU_MAX_IN_FLIGHT, "dtype": "bfloat16"}
    try:
        args |= engine_arguments(dspark.model_dump(), model=model, device=device)
    except ValueError as error:
        raise ConfigError(str(error), hint="leave dspark.draft_model out, or run on GPUs") from None
    return args | dict(config.args)


def stop_tokens_of(tokenizer: Any, settings: Any) -> list[int]:
    """End tokens of the tokenizer and of the model's generation settings; chat models often have several."""
    ids = {tokenizer.eos_token_id}
    declared = settings.model_config.try_get_generation_config().get("eos_token_id")
    ids.update(declared if isinstance(declared, list) else [declared])
    return sorted(token for token in ids if isinstance(token, int))


def request_faults() -> tuple[type[Exception], ...]:
    """What vLLM raises for a request that it will not take; everything else means that the engine is dead."""
    from vllm import exceptions

    return (ValueError, getattr(exceptions, "VLLMClientError", ValueError))


class StartDecoder:
    """The engine as :class:`pipeline.dspark.selftest.Decoder`, before its first request."""

    def __init__(self, engine: Any, stop_tokens: list[int]) -> None:
        self._engine = engine
        self._stop_tokens = stop_tokens
        self._tokenizer = engine.get_tokenizer()
        self._num_requests = 0

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def text(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=True))

    def decode(
        self, prompts: Sequence[Sequence[int]], *, grammar: str, max_tokens: int, dspark: Mapping[str, Any]
    ) -> list[list[int]]:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        names = [f"dspark-start-{self._num_requests + index}" for index in range(len(prompts))]
        self._num_requests += len(prompts)
        for name, prompt in zip(names, prompts, strict=True):
            sampling = SamplingParams(
                max_tokens=max_tokens,
                temperature=0.0,
                detokenize=False,
                stop_token_ids=self._stop_tokens,
                structured_outputs=StructuredOutputsParams(grammar=grammar),
                extra_args={"dspark": dict(dspark)},
            )
            self._engine.add_request(name, {"prompt_token_ids": list(prompt)}, sampling)
        outputs: dict[str, list[int]] = {}
        while self._engine.has_unfinished_requests():
            outputs |= {o.request_id: list(o.outputs[0].token_ids) for o in self._engine.step() if o.finished}
        return [outputs[name] for name in names]


def check_constrained(decoder: StartDecoder) -> None:
    """Decode one short prompt under a grammar, before any document is read.

    Raises:
        EngineStartError: the output does not follow it, as where a version of vLLM no longer reads the constraint.
    """
    prompt = decoder.encode("The tower is about 330 metres tall.")
    (output,) = decoder.decode([prompt], grammar=_CANARY_GRAMMAR, max_tokens=_CANARY_TOKENS, dspark={"enabled": False})
    text = decoder.text(output)
    if _CANARY_OUTPUT.fullmatch(text) is None:
        raise EngineStartError(
            f"the engine does not hold its outputs to a grammar: it wrote {text!r}",
            hint="use the versions of vllm and xgrammar that pyproject.toml names",
        )
