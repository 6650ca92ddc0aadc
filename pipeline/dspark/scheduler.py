"""vLLM's scheduler with DSpark in the place where draft tokens arrive; translates, decides nothing.

The interface is private to vLLM and moves: :mod:`pipeline.dspark.contract` names everything relied on here.

Dated note (2026-11): vLLM refuses async scheduling together with a custom proposer (``VllmConfig.__post_init__``):
its drafts would have to exist before the tokens they continue. So only the synchronous scheduler is extended.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from vllm.logger import init_logger
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus

from pipeline.dspark.arguments import RequestSettings, SchedulerSettings
from pipeline.dspark.coordinator import Coordinator, Decoding, register
from pipeline.dspark.drafting import RequestDrafter
from pipeline.dspark.guarded import GuardedDrafter
from pipeline.dspark.inactive import Inactive
from pipeline.dspark.masks import Bitmask, Chain, MaskFiller
from pipeline.dspark.priming import prime
from pipeline.dspark.tokens import build_token_table

_MAX_PROMPT_TOKENS = 1 << 14  # of a prompt, to find repetitions in

logger = logging.getLogger(__name__)
if not logger.hasHandlers():  # vLLM's engine process configures its own logger only
    logger = init_logger(f"vllm.{__name__}")


class BatchedMasks:
    """vLLM's ``StructuredOutputManager`` with :meth:`grammar_bitmask` filling all rows of a request in one call."""

    def __init__(self, manager: Any, *, filler: MaskFiller, max_rows: int, coordinator: Coordinator) -> None:
        self._manager = manager
        self._filler = filler
        self._max_rows = max_rows
        self._coordinator = coordinator
        self._bitmask: Bitmask | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def grammar_bitmask(
        self, requests: dict[str, Request], request_ids: list[str], drafts: dict[str, list[int]]
    ) -> Bitmask | None:
        """Rows for each request in order: one per draft token and one more; None without requests."""
        started = time.perf_counter()
        chains = self._chains(requests, request_ids, drafts)
        if chains is None:
            original: Bitmask | None = self._manager.grammar_bitmask(requests, request_ids, drafts)
            return original
        num_rows = chains[-1].first_row + len(chains[-1].token_ids) + 1
        if self._bitmask is None:
            vocab_size = _grammar(requests[request_ids[0]]).vocab_size
            self._bitmask = np.full((self._max_rows, (vocab_size + 31) // 32), -1, dtype=np.int32)
        self._filler.fill(chains, self._bitmask)
        self._coordinator.counters.masking_ms += (time.perf_counter() - started) * 1000.0
        return self._bitmask[:num_rows]

    def _chains(
        self, requests: dict[str, Request], request_ids: list[str], drafts: dict[str, list[int]]
    ) -> list[Chain] | None:
        """None where only vLLM's own code knows what to do: reasoning, other backends, padded drafts."""
        if not request_ids or self._manager.reasoner_cls is not None:
            return None
        chains: list[Chain] = []
        row = 0
        for request_id in request_ids:
            grammar = _grammar(requests[request_id])
            token_ids = drafts.get(request_id, ())
            matcher = getattr(grammar, "matcher", None)
            if not hasattr(matcher, "traverse_draft_tree") or (token_ids and token_ids[-1] < 0):
                return None
            chains.append(Chain(None if grammar.is_terminated() else matcher, token_ids, row))
            row += len(token_ids) + 1
        return chains


def _grammar(request: Request) -> Any:
    structured = request.structured_output_request
    return structured.grammar if structured is not None else None


class DSparkScheduler(Scheduler):  # type: ignore[misc]
    """Fills draft slots with DSpark's drafts; everything else is vLLM's scheduler."""

    structured_output_manager: Any
    dynamic_sd_lookup: list[int] | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config = self.vllm_config
        settings = SchedulerSettings.from_additional_config(config.additional_config)
        self.dspark = Coordinator(settings, vocab_size=config.model_config.get_vocab_size())
        register(str(config.instance_id), self.dspark)
        manager: Any = self.structured_output_manager
        self.structured_output_manager = BatchedMasks(
            manager,
            filler=MaskFiller(max_draft_tokens=self.num_spec_tokens),
            max_rows=self.max_num_running_reqs * (1 + self.num_spec_tokens),
            coordinator=self.dspark,
        )
        # vLLM pads a one-token prefill to a full draft of blanks to hit a CUDA graph; a constant schedule stops that.
        if self.dynamic_sd_lookup is None:
            self.dynamic_sd_lookup = [self.num_spec_tokens] * (self.max_num_running_reqs + 1)
        backend = getattr(manager.tokenizer, "backend_tokenizer", None)
        self._tokens = build_token_table(backend) if backend is not None else None
        self._eos_token_id: int | None = getattr(manager.tokenizer, "eos_token_id", None)
        self._inactive = Inactive()
        self._step_started = 0.0
        # In process the engine says so after its self-test; here it is known only that vLLM took the scheduler.
        log = logger.debug if os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0" else logger.info
        if self._tokens is None:
            logger.warning("dspark is off, decoding goes on plainly: the model's tokenizer has no fast form")
        else:
            log("dspark enabled (%s)", self.dspark.describe())

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        self._step_started = time.perf_counter()
        return super().schedule(*args, **kwargs)

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        sampled = model_runner_output.sampled_token_ids
        rows = model_runner_output.req_id_to_index
        for request_id, draft in scheduler_output.scheduled_spec_decode_tokens.items():
            if sampled and request_id in self.dspark:
                self.dspark.verified(request_id, len(draft), max(len(sampled[rows[request_id]]) - 1, 0))
        parts = self._parts(scheduler_output)
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        num_tokens = scheduler_output.total_num_scheduled_tokens
        if num_tokens:
            step_ms = (time.perf_counter() - self._step_started) * 1000.0
            # What is not known to decode reads, also for a request that was aborted while the model computed.
            num_prefill = num_tokens - sum(tokens for tokens, _, decodes in parts if decodes)
            self.dspark.stepped(num_tokens, num_prefill=num_prefill, step_ms=step_ms)
            if self.dspark.trace_step is not None:
                self.dspark.trace_step(parts, step_ms)
        return outputs

    def _parts(self, scheduler_output: Any) -> list[tuple[int, int, bool]]:
        """(tokens, context before them, whether it decodes) of each request in a step that has just been computed."""
        parts = []
        drafts = scheduler_output.scheduled_spec_decode_tokens
        for request_id, num_tokens in scheduler_output.num_scheduled_tokens.items():
            request = self.requests.get(request_id)
            if request is None:
                continue
            before = request.num_computed_tokens - num_tokens  # counted when it was scheduled
            # After a preemption outputs are read like a prompt.
            decodes = before >= request.num_prompt_tokens and num_tokens <= 1 + len(drafts.get(request_id, ()))
            parts.append((num_tokens, before, decodes))
        return parts

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """Set ``spec_token_ids`` of every request that decodes in the next step; the proposer's drafts are empty."""
        decoding: list[Decoding] = []
        for request_id in draft_token_ids.req_ids:
            request = self.requests.get(request_id)
            if request is None or request.is_finished():
                continue
            request.spec_token_ids = []
            if request.is_prefill_chunk or request.status != RequestStatus.RUNNING:
                continue
            if request_id not in self.dspark and not self._open(request):
                continue
            grammar = _grammar(request)
            if grammar.is_terminated() or not self._is_constrained(request):
                continue
            decoding.append(Decoding(request_id, request.output_token_ids, grammar.matcher, self._room(request)))
        if not decoding:
            return
        drafts = self.dspark.draft(decoding, num_prefill=self._num_prefill_tokens())
        for request_id, token_ids in drafts.items():
            request = self.requests[request_id]
            request.spec_token_ids = self.structured_output_manager.validate_tokens(request, token_ids)

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        completed = request.status == RequestStatus.FINISHED_STOPPED
        self.dspark.close(request.request_id, request.output_token_ids, completed=completed)
        self._inactive.forget(request.request_id)
        return super()._free_request(request, *args, **kwargs)

    def _open(self, request: Request) -> bool:
        """Start drafting for a request; False for one that DSpark cannot help."""
        if request.request_id in self._inactive:
            return False
        grammar = _grammar(request)
        if self._tokens is None or not hasattr(getattr(grammar, "matcher", None), "find_jump_forward_string"):
            reason = "plain text" if grammar is None else "its grammar is not one of xgrammar's"
            line = self._inactive.note(request.request_id, reason if self._tokens is not None else "no fast tokenizer")
            if line is not None:
                logger.warning("%s", line)
            return False
        settings = RequestSettings.from_extra_args(request.sampling_params.extra_args)
        make = functools.partial(self._drafter, request, settings)
        self.dspark.open(request.request_id, settings, lambda: GuardedDrafter(make, log=logger))
        return True

    def _drafter(self, request: Request, settings: RequestSettings) -> RequestDrafter:
        assert self._tokens is not None
        prompt: Sequence[int] = request.prompt_token_ids or ()
        span = prompt[settings.document_start : settings.document_end]
        kind, text = request.structured_output_request.structured_output_key
        memory = self.dspark.memories.of((kind, text))
        if settings.examples and not memory.num_records:
            matcher = _grammar(request).matcher.fork()
            matcher.reset()
            examples = [(self._text(prompt[a:b]), prompt[c:d]) for a, b, c, d in settings.examples]
            prime(memory, examples, tokenizer=self._tokens, matcher=matcher)
        return RequestDrafter(
            document=self._text(span),
            tokenizer=self._tokens,
            memory=memory,
            prompt=self._tokens.decode_bytes(prompt[-_MAX_PROMPT_TOKENS:]),
            eos_token_id=self._eos_token_id,
        )

    def _text(self, token_ids: Sequence[int]) -> str:
        assert self._tokens is not None
        return self._tokens.decode_bytes(token_ids).decode("utf-8", "replace")

    def _is_constrained(self, request: Request) -> bool:
        """False while a reasoning model still thinks: the grammar does not hold yet."""
        manager = self.structured_output_manager
        return (
            manager.reasoner_cls is None
            or manager.enable_in_reasoning
            or bool(request.structured_output_request.reasoning_ended)
        )

    def _room(self, request: Request) -> int:
        """Draft tokens that can still be emitted, besides the token the model adds itself."""
        return int(min(request.max_tokens - request.num_output_tokens, self.max_model_len - request.num_tokens)) - 1

    def _num_prefill_tokens(self) -> int:
        """Prompt tokens that will probably share the next step."""
        num_tokens = sum(r.num_tokens - r.num_computed_tokens for r in self.running if r.is_prefill_chunk)
        room = self.max_num_running_reqs - len(self.running)
        for request in self.waiting:
            if room <= 0 or num_tokens >= self.max_num_scheduled_tokens:
                break
            num_tokens += request.num_tokens
            room -= 1
        return int(min(num_tokens, self.max_num_scheduled_tokens))
