"""A vLLM server (vLLM, GPUStack) behind submit / step / close, for executors without a GPU.

Requests carry the same token ids and the same grammar as the engine in this process, over ``/v1/completions``, so that
the outputs are the same. A thread runs an event loop with one HTTP client; the loop's own thread only hands over
requests and takes completions.

What goes wrong: 429 and 503 (busy) are waited out, as long as the extraction loop's stall limit allows; a broken
connection, a time-out, another 5xx or an answer that is not understood is tried again up to
:data:`pipeline.endpoint.MAX_FAILURES` times. Then a server that answers a trivial request is well and this request is
not: it ends with finish reason ``error``, as does one that the server refuses (400, 413, 422); any other server counts
as a dead engine. Everything else (401, 403, 404, ...) would refuse all requests and ends the engine at once.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from pipeline.backoff import Backoff, retry_after_s
from pipeline.config import DecodingConfig, EngineConfig
from pipeline.data import FinishReason
from pipeline.endpoint import CONNECT_TIMEOUT_S, MAX_FAILURES, Endpoint, error_detail, kind_of
from pipeline.errors import ConfigError, EngineError, EngineStartError
from pipeline.protocols import Completion, Request
from pipeline.tokenizer import Tokenizer

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 16
"""Requests of one task at the server at the same time, unless set."""

_TIMEOUT_WEIGHT = 3  # a time-out counts as so many failures: three of them are enough
_STEP_S = 0.5
_CLOSE_S = 5.0
_FINISH: Mapping[str, FinishReason] = {"stop": "stop", "length": "length", "repetition": "length"}


class RemoteEngine:
    """Implements :class:`pipeline.protocols.Engine` over HTTP.

    ``served_model`` is the server's name for the model whose tokenizer is ``tokenizer``. ``dspark`` False asks a
    server with DSpark to decode these requests plainly. The key is read here, from this process's environment.
    Raises :class:`EngineStartError` where it is missing.
    """

    def __init__(
        self,
        *,
        config: EngineConfig,
        decoding: DecodingConfig,
        served_model: str,
        tokenizer: Tokenizer,
        max_model_len: int,
        dspark: bool = True,
        backoff: Backoff | None = None,
    ) -> None:
        import httpx2

        self.max_model_len = max_model_len
        self.max_in_flight = config.max_in_flight or MAX_IN_FLIGHT
        self._endpoint = Endpoint.of(config)
        self._decoding = decoding
        self._served_model = served_model
        self._tokenizer = tokenizer
        self._dspark = dspark
        self._backoff = backoff or Backoff()
        self._num_processed = 0
        self._not_before_s = 0.0
        self._counters = dict.fromkeys(("remote_requests", "remote_busy", "remote_failures"), 0.0)
        self._running: dict[str, Future[Completion]] = {}
        self._ended: queue.SimpleQueue[tuple[str, Future[Completion]]] = queue.SimpleQueue()
        try:
            headers = self._endpoint.headers()
        except ConfigError as error:
            raise EngineStartError(error.message, hint=error.hint) from None
        self._client = httpx2.AsyncClient(
            base_url=self._endpoint.base_url,
            headers=headers,
            timeout=httpx2.Timeout(config.request_timeout_s, connect=CONNECT_TIMEOUT_S, pool=None),
            limits=httpx2.Limits(max_connections=self.max_in_flight, max_keepalive_connections=self.max_in_flight),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="remote-engine", daemon=True)
        self._thread.start()
        logger.info("requests go to %s, model %s", self._endpoint.base_url, served_model)

    @property
    def num_processed_tokens(self) -> int:
        return self._num_processed

    def submit(self, request: Request) -> None:
        """Send a request; at most ``max_in_flight`` are at the server, further ones wait for a connection."""
        request_id = request.request_id
        future = self._start(self._complete(request))
        self._running[request_id] = future
        future.add_done_callback(lambda done: self._ended.put((request_id, done)))

    def step(self) -> list[Completion]:
        """Requests that ended; waits up to half a second for the first. Raises :class:`EngineError`: it is dead."""
        completions: list[Completion] = []
        deadline = time.monotonic() + _STEP_S
        while self._running:
            try:
                request_id, future = self._ended.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                break
            if self._running.get(request_id) is not future:
                continue  # aborted
            del self._running[request_id]
            completion = future.result()
            self._num_processed += completion.prompt_tokens + completion.output_tokens
            completions.append(completion)
            deadline = 0.0  # take what else has ended, wait no longer
        return completions

    def abort(self, request_id: str) -> None:
        """Close the request's connection, which ends it at the server too."""
        future = self._running.pop(request_id, None)
        if future is not None:
            future.cancel()

    def counters(self) -> dict[str, float]:
        """Requests sent, and how many of them met a busy or a failing server, since the engine started."""
        return dict(self._counters)

    def close(self) -> None:
        """Abort what runs and end the thread; safe to call twice."""
        for request_id in list(self._running):
            self.abort(request_id)
        if self._loop.is_closed():
            return
        try:
            self._start(self._client.aclose()).result(timeout=_CLOSE_S)
        except TimeoutError:
            logger.warning("a connection to %s did not close", self._endpoint.base_url)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _start(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _complete(self, request: Request) -> Completion:
        """Send until there is an answer. Raises :class:`EngineError` where there will be none."""
        import httpx2

        body = self._body(request)
        num_failures = num_busy = 0
        while True:
            await self._wait_for_turn()
            self._counters["remote_requests"] += 1
            weight = 1
            try:
                response = await self._client.post("completions", json=body)
            except httpx2.HTTPError as error:
                fault = f"{type(error).__name__}: {error}".rstrip(": ")
                weight = _TIMEOUT_WEIGHT if isinstance(error, httpx2.ReadTimeout) else 1
            else:
                detail = error_detail(response.content)
                kind = kind_of(response.status_code)
                if kind == "done":
                    completion = self._completion(request, response)
                    if completion is not None:
                        return completion
                    fault = "its answer is not understood"
                elif kind == "refused":
                    return _refusal(request, detail)
                elif kind == "fatal":
                    raise EngineError(self._endpoint.describe(response.status_code, detail))
                elif kind == "busy":
                    num_busy += 1
                    await self._pause(response, num_busy)
                    continue
                else:
                    fault = f"it answered {response.status_code}: {detail}".rstrip(": ")
            num_failures += weight
            self._counters["remote_failures"] += 1
            if num_failures >= MAX_FAILURES:
                if await self._is_well():
                    return _refusal(request, f"the server fails on this request, again and again: {fault}")
                raise EngineError(
                    f"{self._endpoint.base_url} failed again and again: {fault}",
                    hint="is the server running, and engine.request_timeout_s long enough for one answer?",
                )
            logger.debug("%s: %s; trying again", self._endpoint.base_url, fault)
            await asyncio.sleep(self._backoff.wait_s(num_failures))

    async def _is_well(self) -> bool:
        """Whether the server generates anything at all."""
        import httpx2

        trivial = Request("", self._tokenizer.encode("a"), 1, "", (0, 0))
        try:
            response = await self._client.post("completions", json=self._body(trivial))
        except httpx2.HTTPError:
            return False
        return kind_of(response.status_code) == "done" and self._completion(trivial, response) is not None

    async def _wait_for_turn(self) -> None:
        """No request leaves while the server has asked this task to wait; the first ones after are spread a little."""
        while (left := self._not_before_s - time.monotonic()) > 0:
            await asyncio.sleep(left + self._backoff.first_s * self._backoff.draw())

    async def _pause(self, response: httpx2.Response, num_busy: int) -> None:
        self._counters["remote_busy"] += 1
        asked_s = retry_after_s(response.headers.get("retry-after"))
        if asked_s is not None:
            self._not_before_s = max(self._not_before_s, time.monotonic() + asked_s)
        if num_busy == 1:
            logger.info("%s is busy (%d), waiting", self._endpoint.base_url, response.status_code)
        await asyncio.sleep(max(asked_s or 0.0, self._backoff.wait_s(num_busy)))

    def _body(self, request: Request) -> dict[str, Any]:
        """Everything that decides the output is said, so that no default of the server counts."""
        start, end = request.document_span
        decoding = self._decoding
        body: dict[str, Any] = {
            "model": self._served_model,
            "prompt": request.prompt_token_ids,
            "max_tokens": request.max_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "top_k": 0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "return_token_ids": True,
            "vllm_xargs": {
                "dspark_document_start": start,
                "dspark_document_end": end,
                "dspark_enabled": int(self._dspark),
            },
        }
        if decoding.temperature > 0:
            body["seed"] = decoding.seed if request.seed is None else request.seed
        if request.grammar:
            body["structured_outputs"] = {"grammar": request.grammar}
        if request.wants_logprobs:
            body["logprobs"] = 0  # of the chosen token only
        return body

    def _completion(self, request: Request, response: httpx2.Response) -> Completion | None:
        """The answer; None where it is not one."""
        try:
            answer = response.json()
            choice, usage = answer["choices"][0], answer["usage"]
            token_ids = choice.get("token_ids")
            text = choice["text"] if token_ids is None else self._tokenizer.decode(token_ids)
            reason = _FINISH.get(choice["finish_reason"], "error")
            logprobs = choice["logprobs"]["token_logprobs"] if request.wants_logprobs else ()
            details = usage.get("prompt_tokens_details") or {}
            return Completion(
                request_id=request.request_id,
                text=str(text),
                finish_reason=reason,
                prompt_tokens=int(usage["prompt_tokens"]),
                output_tokens=int(usage["completion_tokens"]),
                num_cached_tokens=int(details.get("cached_tokens") or 0),
                tokens=self._tokenizer.pieces(token_ids) if request.wants_logprobs else (),
                logprobs=tuple(map(float, logprobs)),
                detail="" if reason != "error" else f"the server ended the request: {choice['finish_reason']}",
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            logger.debug("answer not understood: %s", type(error).__name__)
            return None


def _refusal(request: Request, detail: str) -> Completion:
    return Completion(request.request_id, "", "error", len(request.prompt_token_ids), 0, detail=detail)
