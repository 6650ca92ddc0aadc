"""A whole decoding benchmark: engines, measurements, format errors, charts, recorded drafts."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.charts import line_chart
from pipeline.config import DecodingConfig, EngineConfig, Example, Layout
from pipeline.decode_benchmark import VARIANTS, DecodeBenchmark, Measurements, Variant
from pipeline.decode_formats import format_errors
from pipeline.decode_report import summary
from pipeline.decode_workload import Workload, load_workload
from pipeline.errors import ConfigError
from pipeline.forced_share import forced_share
from pipeline.models import resolve_model
from pipeline.tokenizer import Tokenizer


def run_decode(
    *,
    engine: EngineConfig,
    in_flight: Sequence[int],
    documents: Path | None = None,
    schema_spec: str | None = None,
    examples: Sequence[Example] = (),
    layout: Layout = "indented",
    limit: int | None = None,
    max_tokens: int = 1024,
    variants: Sequence[Variant] = VARIANTS,
    count_format_errors: bool = False,
    write_gold: bool = False,
    charts: Path | None = None,
    traces: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure and return the figures of :func:`pipeline.decode_report.summary`.

    ``charts`` is a folder for PNG files, ``traces`` a file for ``simulate`` (one more pass). ``write_gold`` makes the
    engines write the documents' gold records (:mod:`pipeline.decode_gold`). Raises ConfigError, InputError or
    SchemaError before an engine starts, EngineError when one dies.
    """
    if write_gold and count_format_errors:
        raise ConfigError("format errors are the model's own", hint="leave out --format-errors or --write-gold")
    model = resolve_model(engine)
    workload = load_workload(
        tokenizer=Tokenizer.load(model, revision=engine.revision),
        documents=documents,
        schema_spec=schema_spec,
        examples=examples,
        layout=layout,
        limit=limit,
        with_gold=write_gold,
    )
    form = workload.only_form
    if form is None and count_format_errors:
        raise ConfigError("format errors are counted under one schema", hint="leave out --format-errors")
    decoding = DecodingConfig(layout=layout, max_output_tokens=max_tokens)
    engine = engine.model_copy(update={"args": {"max_num_seqs": max(16, *in_flight), **engine.args}})
    benchmark = DecodeBenchmark(model, engine=engine, decoding=decoding, variants=variants)
    try:
        found = benchmark.run(workload, in_flight=in_flight, max_tokens=max_tokens, say=say)
        dtype = str(benchmark.engine("plain").vllm_engine.vllm_config.model_config.dtype).removeprefix("torch.")
        figures = summary(found, model=engine.model, dtype=dtype, machine=machine())
        texts = next(iter(found.texts.values()))
        figures["forced_share"] = round(_forced_share(workload, texts), 4)
        if form is not None and count_format_errors:
            plain = benchmark.engine("plain")
            figures["format_errors"] = format_errors(
                plain, workload, form, max_tokens=max_tokens, in_flight=max(in_flight), decoding=decoding
            )
        if traces is not None:
            benchmark.trace(found, max_tokens=max_tokens)
            traces.write_text(json.dumps(_traces(found, figures)), encoding="utf-8")
    finally:
        benchmark.close()
    if charts is not None:
        charts.mkdir(parents=True, exist_ok=True)
        _draw(charts, figures)
    return figures


def _forced_share(workload: Workload, texts: Sequence[str]) -> float:
    """Over all documents, weighed by the length of their outputs."""
    forced = sum(forced_share(f.grammar, [text]) * len(text) for f, text in zip(workload.forms, texts, strict=True))
    return forced / max(1, sum(map(len, texts)))


def machine() -> dict[str, Any]:
    """Where a figure was measured."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return {"cpu": name, "num_cores": os.cpu_count(), "python": platform.python_version()}


def _traces(found: Measurements, figures: Mapping[str, Any]) -> dict[str, Any]:
    """What ``simulate`` reads: drafts per request, measured times, and the measured cost table."""
    drafts: dict[str, list[tuple[list[float], int]]] = {}
    for request_id, survivals, accepted in found.traces:
        name = request_id if request_id in found.request_sizes else request_id.rpartition("-")[0]  # vLLM adds a suffix
        drafts.setdefault(name, []).append((survivals, accepted))
    return {
        "requests": found.request_sizes,
        "drafts": drafts,
        "cost_table_ms": figures["cost_table_ms"],
        "steps": found.steps,
        "measured_s": {
            variant: {
                level: found.total(variant, int(level), "elapsed_s")
                for level in figures["mean_acceptance_length_by_in_flight"]
            }
            for variant in ("plain", "off", "dspark")
        },
    }


def _draw(folder: Path, figures: Mapping[str, Any]) -> None:
    line_chart(
        folder / "decode_concurrency.png",
        {
            variant: [(float(level), value) for level, value in rates.items()]
            for variant, rates in figures["tokens_per_s"].items()
        },
        title="Output tokens per second by requests in flight",
        x_label="requests in flight",
        y_label="tokens/s",
    )
    line_chart(
        folder / "decode_ratios.png",
        {
            name: [(float(level), value) for level, value in figures[key].items()]
            for name, key in (("DSpark", "ratios"), ("vLLM ngram", "ratios_ngram"), ("drafting off", "ratios_off"))
            if figures[key]
        },
        title="Speed relative to plain vLLM",
        x_label="requests in flight",
        y_label="times as fast",
    )
    if figures["ratios_by_output_tokens"]:
        line_chart(
            folder / "decode_output_length.png",
            {"DSpark": [(float(n), ratio) for n, ratio in figures["ratios_by_output_tokens"].items()]},
            title="Speed relative to plain vLLM by output length, one request in flight",
            x_label="output tokens (mean of a quarter of the documents)",
            y_label="times as fast",
        )
