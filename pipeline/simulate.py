"""Replays recorded drafts against a cost table: what decoding would take on another machine.

Assumptions, repeated in every output:

- the drafts' survival estimates and what the model accepted are those of the recorded run, whatever the machine;
- of an admitted prefix, min(prefix, accepted) tokens survive and the model adds one; what was accepted beyond the
  prefix is drafted again in the next step;
- a prompt is read in one step (with chunks of at most ``max_step_tokens``) shared with decoding requests;
- for the machine of the recorded run: a step's time is a sum of costs per token, sampled token and context, fitted to
  the run's own steps; drafts are admitted by the run's cost table of steps that only decode;
- for other machines: the larger of reading all weights and computing all tokens, plus a fixed time per step;
  attention over the context and the cache's memory are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.dspark.budget import Budget
from pipeline.dspark.costs import CostTable
from pipeline.step_model import Load, StepModel

ASSUMPTIONS = tuple(line.strip() for line in (__doc__ or "").split("Assumptions", 1)[1].split("- ")[1:])


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """One request: prompt tokens to read, and its drafts in order as (survival probabilities, accepted).

    ``num_cached_tokens`` of the prompt were in the prefix cache: not read, but attended to.
    """

    num_prompt_tokens: int
    num_output_tokens: int
    drafts: tuple[tuple[tuple[float, ...], int], ...]
    num_cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Simulated:
    """``elapsed_s`` for all requests with ``in_flight`` at a time."""

    in_flight: int
    elapsed_s: float
    num_steps: int
    num_output_tokens: int
    mean_acceptance_length: float


@dataclass(frozen=True, slots=True)
class Machine:
    """A model on an accelerator. Bytes and operations per second are what is reached, not the data sheet's."""

    name: str
    num_parameters: float
    bytes_per_parameter: float = 2.0
    bytes_per_s: float = 3.6e12  # HBM3e of an H200: 4.8e12 on paper
    operations_per_s: float = 6.0e14  # bf16 of an H200: 9.9e14 on paper
    num_devices: int = 1
    fixed_ms: float = 4.0  # scheduling, launching, sampling, drafting, filling masks

    @property
    def knee_tokens(self) -> float:
        """Tokens per step from which arithmetic takes longer than reading the weights."""
        return self.bytes_per_parameter * self.operations_per_s / (2.0 * self.bytes_per_s)

    def cost_table(self, *, max_tokens: int = 16384) -> CostTable:
        """The table of this machine; sizes from 1 to ``max_tokens``, as few as tell where the knee is."""
        sizes = np.unique(
            np.array([1.0, 32.0, *(self.knee_tokens * np.array([1.0, 2.0, 8.0])), max_tokens]).astype(int)
        )
        reading_ms = 1e3 * self.num_parameters * self.bytes_per_parameter / self.bytes_per_s / self.num_devices
        computing_ms = 1e3 * 2.0 * self.num_parameters * sizes / self.operations_per_s / self.num_devices
        times = self.fixed_ms + np.maximum(reading_ms, computing_ms)
        return CostTable([(int(size), float(time)) for size, time in zip(sizes, times, strict=True)])


H200_MODELS = (
    Machine("1B", 1e9),
    Machine("8B", 8e9),
    Machine("70B on 4", 70e9, num_devices=4),
)


class _Running:
    """One request while it is simulated."""

    def __init__(self, trace: RequestTrace) -> None:
        self.prompt_left = trace.num_prompt_tokens
        self.context = trace.num_cached_tokens
        self.tokens_left = trace.num_output_tokens
        self._drafts = deque(trace.drafts)

    def draft(self) -> tuple[tuple[float, ...], int]:
        return self._drafts[0] if self._drafts else ((), 0)

    def advance(self, admitted: int) -> int:
        """Tokens emitted in a step that verifies ``admitted`` draft tokens."""
        if not self._drafts:
            emitted = 1
        else:
            survivals, accepted = self._drafts.popleft()
            survived = min(admitted, accepted)
            emitted = survived + 1
            if accepted > admitted:  # the model adds the next right token itself; the rest is drafted again
                rest = survivals[emitted:]
                scale = survivals[emitted - 1] or 1.0
                self._drafts.appendleft((tuple(min(s / scale, 1.0) for s in rest), accepted - emitted))
        emitted = min(emitted, self.tokens_left)
        self.tokens_left -= emitted
        return emitted

    def advance_plainly(self) -> int:
        self.tokens_left -= 1
        return 1


def simulate(
    traces: Sequence[RequestTrace],
    costs: CostTable,
    *,
    in_flight: int,
    drafting: bool = True,
    max_token_budget: int = 8192,
    max_step_tokens: int = 8192,
    model: StepModel | None = None,
) -> Simulated:
    """Decode all ``traces`` with continuous batching; ``drafting`` False decodes one token per step and request.

    ``costs`` decides what is admitted and, without a ``model``, how long a step takes.
    """
    budget = Budget(costs, max_token_budget=max_token_budget)
    waiting = deque(traces)
    running: list[_Running] = []
    elapsed_ms = 0.0
    num_steps = num_output = num_decode_tokens = num_decode_steps = 0
    while waiting or running:
        while waiting and len(running) < in_flight:
            running.append(_Running(waiting.popleft()))
        decoding = [request for request in running if request.prompt_left == 0]
        room = max_step_tokens - len(decoding)
        num_prefill = 0
        parts: list[tuple[int, int, bool]] = []
        for request in running:
            if request.prompt_left and room > num_prefill:
                read = min(request.prompt_left, room - num_prefill)
                parts.append((read, request.context, False))
                request.prompt_left -= read
                request.context += read
                num_prefill += read
                if request.prompt_left == 0:
                    request.tokens_left -= 1
                    num_output += 1
        admitted = [0] * len(decoding)
        if drafting and decoding:
            admitted = budget.admit([r.draft()[0] for r in decoding], num_prefill=num_prefill).num_tokens
        num_tokens = num_prefill + len(decoding) + sum(admitted)
        parts += [(1 + count, request.context, True) for request, count in zip(decoding, admitted, strict=True)]
        elapsed_ms += float(costs.step_ms([num_tokens])[0]) if model is None else model.step_ms(Load.of(parts))
        num_steps += 1
        for request, count in zip(decoding, admitted, strict=True):
            emitted = request.advance(count) if drafting else request.advance_plainly()
            request.context += emitted
            num_output += emitted
            num_decode_tokens += emitted
            num_decode_steps += 1
        running = [request for request in running if request.prompt_left or request.tokens_left > 0]
    return Simulated(
        in_flight,
        elapsed_ms / 1e3,
        num_steps,
        num_output,
        num_decode_tokens / num_decode_steps if num_decode_steps else 1.0,
    )
