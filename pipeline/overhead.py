"""What Spark costs: a whole job against the same requests through the engine alone, in processes of their own."""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.config import RunConfig
from pipeline.errors import InputError
from pipeline.preload import preload_environment


def measure_overhead(
    config: RunConfig, *, num_documents: int, repeats: int = 1, say: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Run both forms in turn and compare them.

    ``job_s`` is a job's whole wall time, from the start of its process (JVM included) to its manifest; ``job_load_s``
    the part of it that the engine took to load. ``alone_s`` is the loop over the same requests, in the job's order, on
    the engine without Spark, loading not counted. ``ratio`` is ``(job_s - job_load_s) / alone_s``, the median over
    ``repeats``, which take turns in what comes first. ``job_fixed_s`` is what the job took beside loading and its own
    loop: unlike the ratio, it does not compare two runs, of which one may have met a slower machine.

    Raises:
        InputError: fewer documents than asked for.
    """
    texts = _texts(config, num_documents)
    runs = []
    for number in range(repeats):
        run: dict[str, float] = {}
        for form in (_alone, _job)[:: 1 if number % 2 == 0 else -1]:
            variables = preload_environment() if form is _alone else None  # as Spark's workers have it
            run |= _in_process(form, config, texts, variables=variables)
        run["job_fixed_s"] = run["job_s"] - run["job_load_s"] - run["job_loop_s"]
        run["ratio"] = (run["job_s"] - run["job_load_s"]) / run["alone_s"]
        runs.append(run)
        if say is not None:
            parts = f"load {run['job_load_s']:.1f} s, fixed {run['job_fixed_s']:.1f} s"
            times = f"job {run['job_s']:.1f} s ({parts}), engine alone {run['alone_s']:.1f} s"
            say(f"{number + 1}/{repeats}: {times}, ratio {run['ratio']:.3f}")
    return {"num_documents": len(texts), "runs": runs, "ratio": statistics.median(run["ratio"] for run in runs)}


def overhead_table(figures: dict[str, Any]) -> str:
    """The figures as a Markdown table."""
    lines = [
        f"{figures['num_documents']} documents, median ratio **{figures['ratio']:.3f}**",
        "",
        "| job, s | of it load, s | loop, s | fixed, s | engine alone, s | output tokens job / alone | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in figures["runs"]:
        lines.append(
            f"| {run['job_s']:.1f} | {run['job_load_s']:.1f} | {run['job_loop_s']:.1f} | {run['job_fixed_s']:.1f} | "
            f"{run['alone_s']:.1f} | {run['job_output_tokens']:.0f} / {run['alone_output_tokens']:.0f} | "
            f"{run['ratio']:.3f} |"
        )
    return "\n".join(lines)


def _texts(config: RunConfig, num_documents: int) -> list[tuple[str, str]]:
    path = Path(str(config.input.path))
    column = config.input.id_column or "id"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not rows:
        raise InputError(f"{path} holds no document")
    texts = [(str(row[column]), str(row[config.input.text_column])) for row in rows]
    if len(texts) < num_documents:  # the same texts again, made distinct so that none is answered from the journal
        rounds = -(-num_documents // len(texts))
        texts = [
            (f"{doc_id}-{r}", text if r == 0 else f"{text}\n({r})") for r in range(rounds) for doc_id, text in texts
        ]
    return texts[:num_documents]


def _in_process(
    function: Callable[[RunConfig, Sequence[tuple[str, str]]], dict[str, float]],
    config: RunConfig,
    texts: Sequence[tuple[str, str]],
    *,
    variables: Mapping[str, str] | None = None,
) -> dict[str, float]:
    started = time.monotonic()
    before = dict(os.environ)
    os.environ.update(variables or {})
    try:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            figures = pool.apply(function, (config, texts))
    finally:
        os.environ.clear()
        os.environ.update(before)
    if "job_load_s" in figures:
        figures["job_s"] = time.monotonic() - started
    return figures


def _alone(config: RunConfig, texts: Sequence[tuple[str, str]]) -> dict[str, float]:
    from pipeline.engine import VllmEngine
    from pipeline.extractor import Extractor
    from pipeline.merging import Merger
    from pipeline.udf.chunk import split_text
    from pipeline.udf.stage import build_stage

    stage = build_stage(config)
    engine = VllmEngine(stage.model, config=config.engine, decoding=config.decoding, dspark=config.dspark)
    loop = Extractor(
        engine,
        prompter=stage.prompting,
        validator=stage.validator,
        grammar=stage.grammar,
        decoding=config.decoding,
        split=stage.halve,
        merge=Merger(stage.schema.json_schema, validator=stage.validator),
    )
    chunks = [chunk for doc_id, text in texts for chunk in split_text(stage, doc_id, text)]
    chunks.sort(key=lambda chunk: (-chunk.num_tokens, chunk.key))  # the order of a job, so that batches are alike
    started = time.monotonic()
    outcomes = list(loop.run(chunks))
    spent = time.monotonic() - started
    tokens = sum(attempt.output_tokens for outcome in outcomes for attempt in outcome.attempts)
    engine.close()
    return {"alone_s": spent, "alone_output_tokens": float(tokens)}


def _job(config: RunConfig, texts: Sequence[tuple[str, str]]) -> dict[str, float]:
    from pipeline.run import run

    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        documents = Path(folder) / "documents.jsonl"
        documents.write_text(
            "".join(json.dumps({"id": doc_id, "text": text}, ensure_ascii=False) + "\n" for doc_id, text in texts),
            encoding="utf-8",
        )
        config = config.model_copy(
            update={
                "input": config.input.model_copy(
                    update={"path": str(documents), "format": "jsonl", "id_column": "id", "text_column": "text"}
                ),
                "output": config.output.model_copy(update={"path": str(Path(folder) / "output")}),
            }
        )
        manifest = run(config).manifest
    return {
        "job_load_s": float(manifest["engine"]["load_s"]),
        "job_loop_s": float(manifest["engine"]["busy_s"]),
        "job_output_tokens": float(manifest["tokens"]["output"]),
        **{f"job_{name}_s": float(value) for name, value in manifest["timings_s"].items()},
    }
