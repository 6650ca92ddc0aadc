"""One pass of an engine over prompts with a fixed number of requests in flight, timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.protocols import Completion, Engine, Request


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass took and gave, in the order of its requests. ``ended_s`` is when each ended, from the start."""

    elapsed_s: float
    completions: tuple[Completion, ...]
    ended_s: tuple[float, ...]
    num_steps: int

    @property
    def num_output_tokens(self) -> int:
        return sum(completion.output_tokens for completion in self.completions)

    @property
    def num_output_bytes(self) -> int:
        return sum(len(completion.text.encode()) for completion in self.completions)

    @property
    def texts(self) -> list[str]:
        return [completion.text for completion in self.completions]


def decode(engine: Engine, requests: Sequence[Request], *, in_flight: int) -> Pass:
    """Decode all ``requests``, never more than ``in_flight`` at a time, in order of submission."""
    waiting = list(reversed(requests))
    done: dict[str, tuple[Completion, float]] = {}
    num_running = num_steps = 0
    started = time.perf_counter()
    while waiting or num_running:
        while waiting and num_running < in_flight:
            engine.submit(waiting.pop())
            num_running += 1
        for completion in engine.step():
            done[completion.request_id] = completion, time.perf_counter() - started
            num_running -= 1
        num_steps += 1
    elapsed_s = time.perf_counter() - started
    completions, ended_s = zip(*(done[request.request_id] for request in requests), strict=True)
    return Pass(elapsed_s, completions, ended_s, num_steps)
