"""The extraction loop: requests in flight, validation, retry by cause, exactly one outcome per chunk."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pipeline.chunk_job import ChunkJob
from pipeline.confidence import field_confidence, merge_confidence
from pipeline.config import DecodingConfig
from pipeline.data import Attempt, Chunk, FieldError, Outcome, Record, Reject, RejectReason
from pipeline.errors import EngineStalledError, InternalError
from pipeline.passes import Passes
from pipeline.protocols import Completion, Engine, Merge, Prompt, Prompter, Request, Split, Unite, Validating
from pipeline.validation import Invalid, Valid

logger = logging.getLogger(__name__)

MIN_OUTPUT_TOKENS = 8
"""A prompt that leaves fewer tokens than this for the answer does not fit."""


class Extractor:
    """Drives one engine over any number of chunks; keeps it full across the borders of Arrow batches.

    ``split`` and ``merge`` serve truncated chunks; without them such a chunk is rejected as TRUNCATED. ``unite`` serves
    further passes (``decoding.passes``); without it there is one.
    ``confidence`` asks the engine for probabilities. ``clock`` is injected for tests.
    """

    MAX_SPLIT_DEPTH = 3

    def __init__(
        self,
        engine: Engine,
        *,
        prompter: Prompter,
        validator: Validating,
        grammar: str,
        decoding: DecodingConfig,
        split: Split | None = None,
        merge: Merge | None = None,
        unite: Unite | None = None,
        stall_timeout_s: float = 600.0,
        document_timeout_s: float | None = None,
        max_in_flight: int | None = None,
        confidence: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._prompter = prompter
        self._validator = validator
        self._grammar = grammar
        self._decoding = decoding
        self._split = split
        self._merge = merge
        self._passes = Passes(prompter, unite, number=decoding.passes)
        self._stall_timeout_s = stall_timeout_s
        self._document_timeout_s = document_timeout_s
        self._max_in_flight = max_in_flight or engine.max_in_flight
        self._wants_confidence = confidence
        self._clock = clock
        self._jobs: dict[str, ChunkJob] = {}
        self._ready: deque[ChunkJob] = deque()
        self._outcomes: deque[Outcome] = deque()
        self._num_requests = 0

    def run(self, chunks: Iterable[Chunk]) -> Iterator[Outcome]:
        """Yield exactly one outcome per chunk, in order of completion.

        Chunks are pulled only as the engine has room. Raises whatever the engine raises, and
        :class:`EngineStalledError` when it makes no progress.
        """
        source = iter(chunks)
        exhausted = False
        num_in = num_out = 0
        last_progress, processed = self._clock(), self._engine.num_processed_tokens
        try:
            while True:
                while not exhausted and len(self._jobs) + len(self._ready) < self._max_in_flight:
                    chunk = next(source, None)
                    if chunk is None:
                        exhausted = True
                        break
                    num_in += 1
                    self._start(chunk)
                while self._ready and len(self._jobs) < self._max_in_flight:
                    self._submit(self._ready.popleft())
                while self._outcomes:
                    num_out += 1
                    yield self._outcomes.popleft()
                if not self._jobs:
                    if exhausted and not self._ready and not self._outcomes:
                        break
                    last_progress = self._clock()
                    continue
                completions = self._engine.step()
                now = self._clock()
                if completions or self._engine.num_processed_tokens != processed:
                    last_progress, processed = now, self._engine.num_processed_tokens
                elif now - last_progress > self._stall_timeout_s:
                    raise EngineStalledError(
                        f"no token came for {now - last_progress:.0f} s with {len(self._jobs)} requests in flight",
                        hint="see engine.stall_timeout_s",
                    )
                for completion in completions:
                    self._finish(completion)
                if self._document_timeout_s is not None:
                    self._expire(now)
        finally:
            for request_id in list(self._jobs):
                self._engine.abort(request_id)
            self._jobs.clear()
            self._ready.clear()
        if num_in != num_out:
            raise InternalError(f"{num_in} chunks went in, {num_out} outcomes came out")

    # -- one chunk's life ---------------------------------------------------------------------------------------

    def _start(self, chunk: Chunk) -> None:
        if not chunk.text.strip():
            self._outcomes.append(Reject(chunk, RejectReason.EMPTY_INPUT, "the document has no text"))
            return
        self._enqueue(ChunkJob(chunk, self._decoding.max_output_tokens, self._clock()))

    def _enqueue(self, job: ChunkJob, prompt: Prompt | None = None) -> None:
        job.prompt = prompt or self._prompter.first(job.chunk)
        room = self._engine.max_model_len - len(job.prompt.token_ids)
        if room < MIN_OUTPUT_TOKENS:
            if not job.attempts and self._divide(job):
                return
            self._reject(
                job,
                RejectReason.TOO_LONG,
                f"the prompt has {len(job.prompt.token_ids)} tokens, the model takes {self._engine.max_model_len}",
            )
            return
        self._ready.append(job)

    def _submit(self, job: ChunkJob) -> None:
        assert job.prompt is not None
        self._num_requests += 1
        job.request_id = f"{self._num_requests}:{job.chunk.chunk_id}:{len(job.attempts) + 1}"
        job.submitted = self._clock()
        room = self._engine.max_model_len - len(job.prompt.token_ids)
        self._jobs[job.request_id] = job
        self._engine.submit(
            Request(
                request_id=job.request_id,
                prompt_token_ids=job.prompt.token_ids,
                max_tokens=min(job.budget, room),
                grammar=self._grammar,
                document_span=job.prompt.document_span,
                wants_logprobs=self._wants_confidence,
                example_spans=job.prompt.example_spans,
            )
        )

    def _finish(self, completion: Completion) -> None:
        job = self._jobs.pop(completion.request_id, None)
        if job is None:
            return  # ended in the step in which it was aborted
        verdict = self._validator.validate(completion.text) if completion.finish_reason == "stop" else None
        errors = tuple(verdict.errors) if isinstance(verdict, Invalid) else ()
        job.attempts.append(
            Attempt(
                number=len(job.attempts) + 1,
                raw_output=completion.text,
                finish_reason=completion.finish_reason,
                prompt_tokens=completion.prompt_tokens,
                output_tokens=completion.output_tokens,
                latency_ms=(self._clock() - job.submitted) * 1000.0,
                errors=errors,
                num_cached_tokens=completion.num_cached_tokens,
            )
        )
        if isinstance(verdict, Valid):
            confidence = self._confidence(completion)
            self._take(job, Record(job.chunk, verdict.value, verdict.json, tuple(job.attempts), confidence))
        elif job.found is not None:
            self._close(job, job.found)
        elif isinstance(verdict, Invalid):
            self._retry_invalid(job, completion.text, verdict)
        elif completion.finish_reason == "length":
            self._retry_truncated(job)
        else:
            self._reject(job, RejectReason.REFUSED_BY_ENGINE, completion.detail or "the engine aborted the request")

    def _take(self, job: ChunkJob, record: Record) -> None:
        """One more pass is worth its tokens while the last one told something new."""
        job.num_passes += 1
        before, job.found = job.found, self._passes.add(job.found, record)
        if job.num_passes < self._passes.number and job.found is not before:
            self._enqueue(job, self._passes.prompt(job.found))
        else:
            self._close(job, job.found)

    def _confidence(self, completion: Completion) -> dict[str, float] | None:
        if not self._wants_confidence:
            return None
        return field_confidence(completion.text, completion.tokens, completion.logprobs)

    def _retry_invalid(self, job: ChunkJob, raw: str, verdict: Invalid) -> None:
        if job.retries >= self._decoding.max_retries:
            detail = "; ".join(f"{e.path or '/'}: {e.message}" for e in verdict.errors[:5])
            self._reject(job, RejectReason(verdict.reason), detail, verdict.errors)
            return
        job.retries += 1
        prompt = self._prompter.retry(job.chunk, raw, verdict.errors)
        if self._engine.max_model_len - len(prompt.token_ids) < MIN_OUTPUT_TOKENS:
            prompt = self._prompter.first(job.chunk)  # no room for the errors: ask once more without them
        self._enqueue(job, prompt)

    def _retry_truncated(self, job: ChunkJob) -> None:
        """The budget grows once; then the chunk is split. Broken text is never fed back."""
        assert job.prompt is not None
        room = self._engine.max_model_len - len(job.prompt.token_ids)
        if not job.grown and self._decoding.truncation_factor > 1 and job.budget < room:
            job.grown = True
            job.budget = min(job.budget * self._decoding.truncation_factor, room)
            self._enqueue(job, job.prompt)
        elif not self._divide(job):
            self._reject(
                job,
                RejectReason.TRUNCATED,
                f"the output did not end within {min(job.budget, room)} tokens",
            )

    def _divide(self, job: ChunkJob) -> bool:
        """Replace a job by jobs for the halves of its chunk; False where that is not possible."""
        if self._split is None or self._merge is None or job.depth >= self.MAX_SPLIT_DEPTH:
            return False
        halves = self._split(job.chunk)
        if len(halves) < 2:
            return False
        job.halves = [None] * len(halves)
        for index, half in enumerate(halves):
            child = ChunkJob(half, self._decoding.max_output_tokens, job.started, parent=job, depth=job.depth + 1)
            child.half_index = index
            self._enqueue(child)
        return True

    def _reject(self, job: ChunkJob, reason: RejectReason, detail: str, errors: Sequence[FieldError] = ()) -> None:
        self._close(job, Reject(job.chunk, reason, detail, tuple(job.attempts), tuple(errors)))

    def _close(self, job: ChunkJob, outcome: Outcome) -> None:
        if job.done:
            return
        job.done = True
        if job.found is not None:  # whatever became of a further pass, the record stays
            outcome = replace(job.found, attempts=tuple(job.attempts))
        if job.parent is None:
            self._outcomes.append(outcome)
        else:
            self._close_half(job.parent, job.half_index, outcome)

    def _close_half(self, parent: ChunkJob, index: int, outcome: Outcome) -> None:
        parent.halves[index] = outcome
        if any(half is None for half in parent.halves):
            return
        for half in parent.halves:  # in their order, whichever was done first
            assert half is not None
            parent.attempts.extend(
                replace(attempt, number=number)
                for number, attempt in enumerate(half.attempts, start=len(parent.attempts) + 1)
            )
        values: list[dict[str, Any]] = []
        for half in parent.halves:
            if isinstance(half, Reject):
                self._reject(parent, half.reason, f"part {half.chunk.chunk_id}: {half.detail}", half.errors)
                return
            assert half is not None
            values.append(half.value)
        assert self._merge is not None
        merged = self._merge(values)
        if isinstance(merged, str):
            self._reject(parent, RejectReason.MERGE_CONFLICT, merged)
        else:
            parts = [(half.value, half.confidence or {}) for half in parent.halves if isinstance(half, Record)]
            confidence = merge_confidence(parts, merged[0]) if self._wants_confidence else None
            self._close(parent, Record(parent.chunk, merged[0], merged[1], tuple(parent.attempts), confidence))

    def _expire(self, now: float) -> None:
        limit = self._document_timeout_s
        assert limit is not None
        for request_id, job in list(self._jobs.items()):
            if now - job.started > limit:
                self._engine.abort(request_id)
                del self._jobs[request_id]
                self._reject(job, RejectReason.TIMEOUT, f"no outcome within {limit:g} s")
