"""Real vLLM engines for the tests of DSpark, and requests in token ids."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config import PromptConfig
from pipeline.data import Chunk
from pipeline.dspark.arguments import engine_arguments
from pipeline.dspark.coordinator import Coordinator, coordinator_of
from pipeline.grammar import build_grammar
from pipeline.prompting import Prompting
from pipeline.schema import load_schema
from pipeline.tokenizer import Tokenizer


@dataclass(frozen=True)
class Job:
    """One document's request."""

    name: str
    prompt_token_ids: list[int]
    span: tuple[int, int]
    grammar: str
    max_tokens: int = 80


class Bench:
    """An ``LLMEngine`` with DSpark that decodes jobs with drafting on or off."""

    def __init__(self, model: Path, **args: Any) -> None:
        os.environ.update(
            VLLM_ENABLE_V1_MULTIPROCESSING="0",
            VLLM_CPU_KVCACHE_SPACE="1",
            VLLM_LOGGING_LEVEL="ERROR",
            VLLM_NO_USAGE_STATS="1",
        )
        from vllm import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        settings = args.pop("dspark", {})
        defaults = {
            "enforce_eager": True,
            "max_num_seqs": 16,
            "dtype": "float32",
            "max_model_len": 2048,
            "disable_log_stats": True,
            "generation_config": "vllm",
            "structured_outputs_config": {"backend": "xgrammar"},
        }
        arguments = engine_arguments({"enabled": True, **settings}, model=str(model), device="cpu")
        self.engine = LLMEngine.from_engine_args(EngineArgs(model=str(model), **(defaults | arguments | args)))
        self._ids = itertools.count()

    @property
    def coordinator(self) -> Coordinator:
        coordinator = coordinator_of(self.engine)
        assert coordinator is not None
        return coordinator

    @property
    def scheduler(self) -> Any:
        return self.engine.engine_core.engine_core.scheduler

    def add(self, job: Job, *, dspark: bool, **sampling: Any) -> str:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        request_id = f"{next(self._ids)}-{job.name}"
        start, end = job.span
        params = {
            "temperature": 0.0,
            "max_tokens": job.max_tokens,
            "structured_outputs": StructuredOutputsParams(grammar=job.grammar) if job.grammar else None,
            "output_kind": RequestOutputKind.FINAL_ONLY,
            "extra_args": {"dspark": {"document_start": start, "document_end": end, "enabled": dspark}},
        }
        self.engine.add_request(
            request_id, {"prompt_token_ids": job.prompt_token_ids}, SamplingParams(**(params | sampling))
        )
        return request_id

    def run(self, jobs: Sequence[Job], *, dspark: bool, in_flight: int = 4, **sampling: Any) -> dict[str, list[int]]:
        """Output token ids by job name."""
        return {
            name: list(output.token_ids) for name, output in self.outputs(jobs, dspark, in_flight, **sampling).items()
        }

    def outputs(self, jobs: Sequence[Job], dspark: bool, in_flight: int, **sampling: Any) -> dict[str, Any]:
        """vLLM's ``CompletionOutput`` by job name."""
        waiting = list(reversed(jobs))
        names: dict[str, str] = {}
        done: dict[str, Any] = {}
        while waiting or self.engine.has_unfinished_requests():
            while waiting and len(names) - len(done) < in_flight:
                job = waiting.pop()
                names[self.add(job, dspark=dspark, **sampling)] = job.name
            for output in self.engine.step():
                if output.finished:
                    done[names[output.request_id]] = output.outputs[0]
        return done

    def close(self) -> None:
        self.engine.engine_core.shutdown()


def set_jobs(model: Path, data: Path, *, per_set: int, skip: int = 0, max_tokens: int = 80) -> list[Job]:
    """Jobs for documents of every labelled set below ``data``; different schemas, short enough for the test engine."""
    tokenizer = Tokenizer.load(str(model))
    jobs = []
    for folder in sorted(path for path in data.iterdir() if (path / "documents.jsonl").is_file()):
        taken = 0
        with (folder / "documents.jsonl").open(encoding="utf-8") as lines:
            for index, line in enumerate(lines):
                row = json.loads(line)
                # one set names a schema per document
                file = folder / row.get("schema", "schema.json")
                prompting, grammar = _prompting(tokenizer, str(file))
                text = row["text"]
                prompt = prompting.first(Chunk(f"{folder.name}-{index}", 0, 1, text, 0, len(text), key=str(index)))
                if index < skip or len(prompt.token_ids) > 1500:
                    continue
                jobs.append(Job(f"{folder.name}-{index}", prompt.token_ids, prompt.document_span, grammar, max_tokens))
                taken += 1
                if taken == per_set:
                    break
    return jobs


def _prompting(tokenizer: Tokenizer, spec: str) -> tuple[Prompting, str]:
    schema = load_schema(spec)
    return Prompting(tokenizer, config=PromptConfig(), json_schema=schema.json_schema), build_grammar(schema).text


def text_job(model: Path, text: str, grammar: str, *, name: str = "job", max_tokens: int = 80) -> Job:
    """A job with ``text`` as the whole prompt."""
    ids = Tokenizer.load(str(model)).encode(text)
    return Job(name, ids, (0, len(ids)), grammar, max_tokens)
