"""vLLM's ``LLMEngine`` behind submit / step / close; decides nothing about documents.

Dated note (2026-11): the engine runs in this process (``VLLM_ENABLE_V1_MULTIPROCESSING=0``) unless the environment
says otherwise. A core process of its own would double the resident memory of a CPU worker, and a dead core could
outlive its Spark task; in process, killing the worker frees the GPU.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.config import DecodingConfig, DSparkConfig, EngineConfig
from pipeline.data import FinishReason
from pipeline.dspark.coordinator import coordinator_of
from pipeline.dspark.selftest import measure_costs, self_test
from pipeline.dspark.tokens import TokenTable, build_token_table
from pipeline.engine_loading import (
    StartDecoder,
    check_constrained,
    load_engine,
    request_faults,
    stop_tokens_of,
    usable_dspark,
)
from pipeline.errors import EngineError, EngineStartError, PipelineError
from pipeline.protocols import Completion, Request

logger = logging.getLogger(__name__)

QUEUE_AHEAD = 1.25
"""Requests submitted for each one that can run, so that a finished one is replaced within the same step."""

_FINISH: Mapping[str, FinishReason] = {"stop": "stop", "length": "length", "abort": "abort", "repetition": "length"}


@dataclass(slots=True)
class _Running:
    request: Request
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
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
            dspark = usable_dspark(dspark)
            self._engine = load_engine(model, config, dspark)
        except PipelineError:
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
        self._request_faults = request_faults()
        self._stop_tokens = stop_tokens_of(self._tokenizer, settings)
        self._table: TokenTable | None = None
        check_constrained(StartDecoder(self._engine, self._stop_tokens))
        self._drafts = dspark.enabled and self._start_dspark(dspark)
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

    def _start_dspark(self, dspark: DSparkConfig) -> bool:
        """Measure the cost table and test DSpark; False (said in the log) where plain decoding must do."""
        coordinator = coordinator_of(self._engine)
        if coordinator is None:  # vLLM's own trained DSpark, or an engine core in another process
            return True
        decoder = StartDecoder(self._engine, self._stop_tokens)
        measure_costs(decoder, max_requests=self.max_num_seqs)
        if dspark.self_test:
            result = self_test(decoder)
            if not result.passed:
                coordinator.enabled = False
                logger.warning("dspark is off, decoding goes on plainly: %s", result.reason)
                return False
        logger.info("dspark enabled (%s)", coordinator.describe())
        coordinator.counters.reset()
        return True

    def _sampling(self, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        start, end = request.document_span
        seed = self._decoding.seed if request.seed is None else request.seed
        return SamplingParams(
            max_tokens=request.max_tokens,
            temperature=self._decoding.temperature,
            top_p=self._decoding.top_p,
            seed=seed if self._decoding.temperature > 0 else None,
            logprobs=0 if request.wants_logprobs else None,  # 0: of the chosen token only
            detokenize=False,  # decoded once at the end instead of token by token
            output_kind=RequestOutputKind.DELTA,
            stop_token_ids=self._stop_tokens,
            structured_outputs=StructuredOutputsParams(grammar=request.grammar) if request.grammar else None,
            extra_args={
                "dspark": {
                    "document_start": start,
                    "document_end": end,
                    "enabled": self._drafts,
                    "examples": [list(span) for span in request.example_spans],
                }
            },
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
        if delta.logprobs:
            found = zip(delta.logprobs, delta.token_ids, strict=True)
            running.logprobs.extend(known[token].logprob for known, token in found)
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
            tokens=self._pieces(running),
            logprobs=tuple(running.logprobs),
            detail="" if reason in {"stop", "length"} else f"vLLM ended the request: {delta.finish_reason}",
        )

    def _pieces(self, running: _Running) -> tuple[bytes, ...]:
        """What each token of an output stands for, where log-probabilities are asked for."""
        if not running.logprobs:
            return ()
        if self._table is None:
            self._table = build_token_table(self._tokenizer.backend_tokenizer)
        return tuple(self._table.decode_bytes([token]) for token in running.token_ids)
