"""The decoding benchmark: plain vLLM, vLLM's ngram and DSpark on the same documents, interleaved in one process."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pipeline.config import DecodingConfig, DSparkConfig, EngineConfig
from pipeline.decode_gold import make_write
from pipeline.decode_passes import Pass, decode
from pipeline.decode_workload import Workload
from pipeline.dspark.coordinator import Coordinator, coordinator_of
from pipeline.engine import VllmEngine
from pipeline.errors import ConfigError
from pipeline.protocols import Request

logger = logging.getLogger(__name__)

Variant = Literal["plain", "ngram", "off", "dspark"]
VARIANTS: tuple[Variant, ...] = ("plain", "ngram", "off", "dspark")
"""``plain``: vLLM with xgrammar and no speculation at all. ``off``: the DSpark engine with drafting switched off, which
shows what reserved draft slots cost. ``ngram``: vLLM's prompt lookup, at most 8 tokens after a match of 2 to 4."""

NGRAM = {"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
_SLICES = 2  # each pass is cut in slices and the variants take turns, so that a slow spell hits all of them


@dataclass(frozen=True, slots=True)
class Measurement:
    """One variant on one slice of the documents. ``counters`` are DSpark's, for this slice alone.

    With one request in flight ``document_s`` holds each document's time, ``document_tokens`` its output tokens.
    """

    variant: str
    in_flight: int
    slice_index: int
    num_documents: int
    elapsed_s: float
    num_output_tokens: int
    num_output_bytes: int
    num_steps: int
    counters: Mapping[str, float] = field(default_factory=dict)
    document_s: tuple[float, ...] = ()
    document_tokens: tuple[int, ...] = ()


@dataclass(slots=True)
class Measurements:
    """All measurements of a run, and each variant's output texts by requests in flight.

    ``traces`` and ``request_sizes`` (prompt tokens read, output tokens, prompt tokens cached) are those of one more
    pass that verified every draft in full; a trace is a request id, the survival probabilities, and how many tokens
    were accepted. ``steps`` are those of the DSpark engine, drafting or not: parts (see ``Load``), milliseconds.
    """

    workload: Workload
    all: list[Measurement] = field(default_factory=list)
    texts: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    cost_table: list[tuple[int, float]] = field(default_factory=list)
    traces: list[tuple[str, list[float], int]] = field(default_factory=list)
    request_sizes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    steps: list[tuple[list[tuple[int, int, bool]], float]] = field(default_factory=list)

    def total(self, variant: str, in_flight: int, name: str) -> float:
        """Sum of one column (``elapsed_s``, ``num_output_tokens``, …) over the slices; 0.0 where not measured."""
        return float(sum(getattr(m, name) for m in self.all if m.variant == variant and m.in_flight == in_flight))

    def counter(self, name: str, in_flight: int | None = None) -> float:
        """Sum of one DSpark counter over the slices of the ``dspark`` variant."""
        return sum(
            m.counters.get(name, 0.0) for m in self.all if m.variant == "dspark" and in_flight in (None, m.in_flight)
        )


class DecodeBenchmark:
    """Holds one engine per kind of speculation, all in this process and never at work at the same time.

    On the CPU their caches are kept small: with two gigabytes each, the engine loaded last was up to half slower than
    the first (seen on a machine of 24 GB), whichever variant it was.
    """

    def __init__(
        self, model: str, *, engine: EngineConfig, decoding: DecodingConfig, variants: Sequence[Variant] = VARIANTS
    ) -> None:
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        self._variants = tuple(variants)
        self._ids = itertools.count()
        self._golds: dict[str, list[int]] = {}  # what a request shall write, by its id
        kinds: dict[str, tuple[DSparkConfig, dict[str, Any]]] = {
            "plain": (DSparkConfig(enabled=False), {}),
            "ngram": (DSparkConfig(enabled=False), {"speculative_config": NGRAM}),
            "dspark": (DSparkConfig(), {}),
        }
        wanted = {_engine_of(variant) for variant in variants} | {"plain"}
        self._engines = {
            kind: VllmEngine(
                model,
                config=engine.model_copy(update={"args": {**extra, **engine.args}}),
                decoding=decoding,
                dspark=dspark,
            )
            for kind, (dspark, extra) in kinds.items()
            if kind in wanted
        }

    def run(
        self, workload: Workload, *, in_flight: Sequence[int], max_tokens: int, say: Callable[[str], None]
    ) -> Measurements:
        """Measure every variant and the bound at each number of requests in flight."""
        found = Measurements(workload)
        if workload.golds:
            for engine in self._engines.values():
                make_write(engine.vllm_engine, self._golds)
        for variant in self._variants:  # first use of an engine pays for compiled kernels and the grammar
            self._pass(variant, self._requests(workload, range(min(2, len(workload.prompts))), max_tokens), 2)
        coordinator = self._coordinator
        if coordinator is not None:
            coordinator.trace_step = lambda parts, step_ms: found.steps.append((list(parts), round(step_ms, 3)))
        for number in in_flight:
            self._reset()
            self._measure(found, workload, number, max_tokens)
            self._measure_bound(found, workload, number)
            say(_progress(found, number, self._variants))
        if coordinator is not None:
            coordinator.trace_step = None
            found.cost_table = coordinator.costs.points()
        return found

    def trace(self, found: Measurements, *, max_tokens: int) -> None:
        """Decode once more with every draft verified in full, and keep what was accepted (for ``simulate``)."""
        coordinator = self._coordinator
        if coordinator is None:
            return
        self._reset()
        coordinator.verify_all = True
        coordinator.trace = lambda request_id, survivals, accepted: found.traces.append(
            (request_id, [round(float(s), 4) for s in survivals], accepted)
        )
        try:
            workload = found.workload
            done = self._pass("dspark", self._requests(workload, range(len(workload.prompts)), max_tokens), 4)
            found.request_sizes = {
                c.request_id: (c.prompt_tokens - c.num_cached_tokens, c.output_tokens, c.num_cached_tokens)
                for c in done.completions
            }
        finally:
            coordinator.verify_all, coordinator.trace = False, None

    def engine(self, variant: Variant) -> VllmEngine:
        return self._engines[_engine_of(variant)]

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()

    @property
    def _coordinator(self) -> Coordinator | None:
        engine = self._engines.get("dspark")
        return coordinator_of(engine.vllm_engine) if engine is not None else None

    def _measure(self, found: Measurements, workload: Workload, in_flight: int, max_tokens: int) -> None:
        for index, documents in enumerate(_slices(len(workload.prompts), in_flight)):
            order = [*self._variants[index % len(self._variants) :], *self._variants[: index % len(self._variants)]]
            for variant in order:
                before = self._counters()
                done = self._pass(variant, self._requests(workload, documents, max_tokens), in_flight)
                counters = _difference(self._counters(), before) if variant == "dspark" else {}
                found.all.append(_measurement(variant, in_flight, index, done, counters))
                found.texts.setdefault((variant, in_flight), []).extend(done.texts)

    def _measure_bound(self, found: Measurements, workload: Workload, in_flight: int) -> None:
        """One prefill pass over prompt and output: the arithmetic that no speculation can save."""
        best = "dspark" if "dspark" in self._variants else "plain"
        texts = found.texts[best, in_flight]
        engine = self._engines["plain"]
        engine.vllm_engine.reset_prefix_cache()
        for index, documents in enumerate(_slices(len(workload.prompts), in_flight)):
            requests = [
                Request(
                    request_id=f"bound-{next(self._ids)}",
                    prompt_token_ids=[*workload.prompts[d].token_ids, *self._encode(texts[d])],
                    max_tokens=1,
                    grammar="",
                    document_span=(0, 0),
                )
                for d in documents
            ]
            found.all.append(_measurement("bound", in_flight, index, decode(engine, requests, in_flight=in_flight), {}))

    def _encode(self, text: str) -> list[int]:
        return list(self._engines["plain"].vllm_engine.get_tokenizer().encode(text, add_special_tokens=False))

    def _pass(self, variant: Variant, requests: Sequence[Request], in_flight: int) -> Pass:
        coordinator = self._coordinator
        if coordinator is not None:
            coordinator.enabled = variant == "dspark"
        return decode(self.engine(variant), requests, in_flight=in_flight)

    def _requests(self, workload: Workload, documents: Sequence[int], max_tokens: int) -> list[Request]:
        requests = [
            Request(
                request_id=f"{next(self._ids)}-{workload.chunks[d].doc_id}",
                prompt_token_ids=workload.prompts[d].token_ids,
                max_tokens=max_tokens,
                grammar=workload.forms[d].grammar,
                document_span=workload.prompts[d].document_span,
                example_spans=workload.prompts[d].example_spans,
            )
            for d in documents
        ]
        if workload.golds:
            end = self._engines["plain"].vllm_engine.get_tokenizer().eos_token_id
            if end is None:
                raise ConfigError("the model's tokenizer has no end token", hint="leave out --write-gold")
            for d, request in zip(documents, requests, strict=True):
                self._golds[request.request_id] = [*self._encode(workload.golds[d]), end]
        return requests

    def _reset(self) -> None:
        """Every variant starts with an empty prefix cache, and DSpark with an empty history."""
        for engine in self._engines.values():
            engine.vllm_engine.reset_prefix_cache()
        if self._coordinator is not None:
            self._coordinator.forget()

    def _counters(self) -> dict[str, float]:
        return self._coordinator.counters.snapshot() if self._coordinator is not None else {}


def _engine_of(variant: str) -> str:
    return "dspark" if variant == "off" else variant


def _slices(num_documents: int, in_flight: int) -> Iterator[range]:
    """At most ``_SLICES`` ranges, none so short that a pass could not keep its requests in flight."""
    number = max(1, min(_SLICES, num_documents // max(2 * in_flight, 1)))
    borders = [num_documents * index // number for index in range(number + 1)]
    return (range(start, end) for start, end in itertools.pairwise(borders))


def _measurement(variant: str, in_flight: int, index: int, done: Pass, counters: Mapping[str, float]) -> Measurement:
    alone = in_flight == 1
    return Measurement(
        document_s=tuple(end - start for start, end in itertools.pairwise((0.0, *done.ended_s))) if alone else (),
        document_tokens=tuple(c.output_tokens for c in done.completions) if alone else (),
        variant=variant,
        in_flight=in_flight,
        slice_index=index,
        num_documents=len(done.completions),
        elapsed_s=done.elapsed_s,
        num_output_tokens=done.num_output_tokens,
        num_output_bytes=done.num_output_bytes,
        num_steps=done.num_steps,
        counters=counters,
    )


def _difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Growth of each total; ratios are left out, since they do not add up."""
    ratios = {"mean_acceptance_length", "acceptance_rate"}
    return {name: value - before.get(name, 0.0) for name, value in after.items() if name not in ratios}


def _progress(found: Measurements, in_flight: int, variants: Sequence[str]) -> str:
    times = ", ".join(f"{v} {found.total(v, in_flight, 'elapsed_s'):.1f} s" for v in (*variants, "bound"))
    return f"{in_flight} in flight: {times}"
