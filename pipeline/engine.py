"""vLLM's ``LLMEngine`` behind submit / step / close; decides nothing about documents.

Dated note (2026-11): the engine runs in this process (``VLLM_ENABLE_V1_MULTIPROCESSING=0``) unless the environment
says otherwise. A core process of its own would double the resident memory of a CPU worker, and a dead core could
outlive its Spark task; in process, killing the worker frees the GPU.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.config import DecodingConfig, DSparkConfig, EngineConfig
from pipeline.data import FinishReason
from pipeline.dspark.arguments import engine_arguments
from pipeline.errors import EngineError, EngineStartError
from pipeline.protocols import Completion, Request

logger = logging.getLogger(__name__)

CPU_MAX_IN_FLIGHT = 16
QUEUE_AHEAD = 1.25
"""Requests submitted for each one that can run, so that a finished one is replaced within the same step."""

_FINISH: Mapping[str, FinishReason] = {"stop": "stop", "length": "length", "abort": "abort", "repetition": "length"}


@dataclass(slots=True)
class _Running:
    request: Request
    token_ids: list[int] = field(default_factory=list)
    num_cached_tokens: int = 0


class VllmEngine:
    """One vLLM engine in this process; implements :class:`pipeline.protocols.Engine`.

    ``model`` is a folder or hub id (see :func:`pipeline.models.resolve_model`). Raises :class:`EngineStartError` when
    the model does not load. ``load_s`` is what loading took.
    """

    def __init__(self, model: str, *, config: EngineConfig, decoding: DecodingConfig, dspark: DSparkConfig) -> None:
        started = time.monotonic()
        self._decoding = decoding
        self._running: dict[str, _Running] = {}
        self._refused: deque[Completion] = deque()
        self._num_processed = 0
        self._num_steps = 0
        try:
            self._engine = _load(model, config, dspark)
        except EngineError:
            raise
        except Exception as error:  # vLLM raises anything here, from OSError to RuntimeError of a kernel
            raise EngineStartError(
                f"model {model!r} did not load: {type(error).__name__}: {error}",
                hint="check free memory and --engine-arg",
            ) from error
        settings = self._engine.vllm_config
        self.max_model_len = int(settings.model_config.max_model_len)
        self.max_num_seqs = int(settings.scheduler_config.max_num_seqs)
        self.max_in_flight = config.max_in_flight or max(1, int(self.max_num_seqs * QUEUE_AHEAD))
        self._tokenizer = self._engine.get_tokenizer()
        self._request_faults = _request_faults()
        self._stop_tokens = _stop_tokens(self._tokenizer, settings)
        self.load_s = time.monotonic() - started
        logger.info("engine ready in %.1f s: %s", self.load_s, model)

    @property
    def vllm_engine(self) -> Any:
        """The ``LLMEngine`` itself, for measurements and self-tests."""
        return self._engine

    @property
    def num_processed_tokens(self) -> int:
        return self._num_processed

    def submit(self, request: Request) -> None:
        """Hand a request to vLLM; one that vLLM refuses comes back from ``step`` with finish reason ``error``."""
        try:
            self._engine.add_request(
                request.request_id, {"prompt_token_ids": request.prompt_token_ids}, self._sampling(request)
            )
        except self._request_faults as error:  # validation of this one request, before it reaches the core
            self._refused.append(
                Completion(request.request_id, "", "error", len(request.prompt_token_ids), 0, detail=str(error))
            )
            return
        self._running[request.request_id] = _Running(request)

    def step(self) -> list[Completion]:
        """One forward pass. Raises :class:`EngineError` when the engine died."""
        ended = list(self._refused)
        self._refused.clear()
        if not self._running:
            return ended
        try:
            outputs = self._engine.step()
        except Exception as error:
            raise EngineError(f"the engine died: {type(error).__name__}: {error}") from error
        self._num_steps += 1
        for output in outputs:
            completion = self._take(output)
            if completion is not None:
                ended.append(completion)
        return ended

    def abort(self, request_id: str) -> None:
        if self._running.pop(request_id, None) is not None:
            self._engine.abort_request([request_id])

    def counters(self) -> dict[str, float]:
        """Numbers since the engine started: ``steps`` and, with DSpark, drafted and accepted tokens by drafter."""
        from pipeline.dspark.counters import snapshot

        return {"engine_steps": float(self._num_steps), "engine_load_s": self.load_s, **snapshot(self._engine)}

    def close(self) -> None:
        """Abort what runs and give the memory back."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        if self._running:
            engine.abort_request(list(self._running))
            self._running.clear()
        engine.engine_core.shutdown()

    def _sampling(self, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        start, end = request.document_span
        return SamplingParams(
            max_tokens=request.max_tokens,
            temperature=self._decoding.temperature,
            top_p=self._decoding.top_p,
            seed=self._decoding.seed if self._decoding.temperature > 0 else None,
            detokenize=False,  # decoded once at the end instead of token by token
            output_kind=RequestOutputKind.DELTA,
            stop_token_ids=self._stop_tokens,
            structured_outputs=StructuredOutputsParams(grammar=request.grammar) if request.grammar else None,
            extra_args={"dspark": {"document_start": start, "document_end": end}},
        )

    def _take(self, output: Any) -> Completion | None:
        running = self._running.get(output.request_id)
        if running is None:
            return None
        delta = output.outputs[0]
        self._num_processed += len(delta.token_ids)
        if not running.token_ids:
            self._num_processed += len(running.request.prompt_token_ids)
        running.token_ids.extend(delta.token_ids)
        running.num_cached_tokens = output.num_cached_tokens or running.num_cached_tokens
        if not output.finished:
            return None
        del self._running[output.request_id]
        reason = _FINISH.get(delta.finish_reason, "error")
        return Completion(
            request_id=output.request_id,
            text=self._tokenizer.decode(running.token_ids, skip_special_tokens=True),
            finish_reason=reason,
            prompt_tokens=len(running.request.prompt_token_ids),
            output_tokens=len(running.token_ids),
            num_cached_tokens=running.num_cached_tokens,
            detail="" if reason in {"stop", "length"} else f"vLLM ended the request: {delta.finish_reason}",
        )


def _load(model: str, config: EngineConfig, dspark: DSparkConfig) -> Any:
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    from vllm import EngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.llm_engine import LLMEngine

    device = str(current_platform.device_type)
    return LLMEngine.from_engine_args(EngineArgs(**engine_args(model, config, dspark, device=device)))


def engine_args(model: str, config: EngineConfig, dspark: DSparkConfig, *, device: str) -> dict[str, Any]:
    """Keyword arguments of vLLM's ``EngineArgs``: our defaults, then DSpark's, then what the user set."""
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
    args |= engine_arguments(dspark.model_dump(), model=model, device=device)
    return args | dict(config.args)


def _stop_tokens(tokenizer: Any, settings: Any) -> list[int]:
    """End tokens of the tokenizer and of the model's generation settings; chat models often have several."""
    ids = {tokenizer.eos_token_id}
    declared = settings.model_config.try_get_generation_config().get("eos_token_id")
    ids.update(declared if isinstance(declared, list) else [declared])
    return sorted(token for token in ids if isinstance(token, int))


def _request_faults() -> tuple[type[Exception], ...]:
    """What vLLM raises for a request that it will not take; everything else means that the engine is dead."""
    from vllm import exceptions

    return (ValueError, getattr(exceptions, "VLLMClientError", ValueError))
