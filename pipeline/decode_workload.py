"""What the decoding benchmark decodes: prompts of one document set under one schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pipeline.config import Example, Layout, PromptConfig
from pipeline.data import Chunk
from pipeline.errors import InputError
from pipeline.grammar import build_grammar
from pipeline.prompting import Prompting
from pipeline.protocols import Prompt
from pipeline.schema import Schema, load_schema
from pipeline.tokenizer import Tokenizer

SAMPLE_SCHEMA = "schemas.orders:CustomerOrders"


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts and chunks of the same documents, in order. ``name`` says what they are in reports."""

    name: str
    schema: Schema
    grammar: str
    prompting: Prompting
    chunks: tuple[Chunk, ...]
    prompts: tuple[Prompt, ...]
    layout: Layout
    num_examples: int

    @property
    def num_prompt_tokens(self) -> int:
        return sum(len(prompt.token_ids) for prompt in self.prompts)


def load_workload(
    *,
    tokenizer: Tokenizer,
    documents: Path | None = None,
    schema_spec: str | None = None,
    examples: Sequence[Example] = (),
    layout: Layout = "indented",
    limit: int | None = None,
) -> Workload:
    """Read ``documents`` (JSON Lines with ``id`` and ``text``); None: the packaged order samples and their examples.

    Raises:
        InputError: the file cannot be read, or a line has no text.
        SchemaError: the schema cannot be used.
    """
    samples = files("pipeline") / "samples"
    if documents is None:
        name, text = "order samples", (samples / "orders.jsonl").read_text(encoding="utf-8")
        schema_spec = schema_spec or SAMPLE_SCHEMA
        if not examples:
            lines = (samples / "orders_examples.jsonl").read_text(encoding="utf-8").splitlines()
            examples = [Example.model_validate_json(line) for line in lines if line.strip()]
    else:
        name, text = documents.stem if documents.stem != "documents" else documents.parent.name, _read(documents)
    if schema_spec is None:
        raise InputError("documents of your own need a schema", hint="--schema FILE.py:Class or FILE.json")
    schema = load_schema(schema_spec)
    chunks = tuple(_chunks(text, name)[:limit])
    if not chunks:
        raise InputError(f"{name} holds no documents")
    prompting = Prompting(
        tokenizer, config=PromptConfig(examples=tuple(examples)), json_schema=schema.json_schema, layout=layout
    )
    return Workload(
        name=name,
        schema=schema,
        grammar=build_grammar(schema, layout=layout).text,
        prompting=prompting,
        chunks=chunks,
        prompts=tuple(prompting.first(chunk) for chunk in chunks),
        layout=layout,
        num_examples=len(examples),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _chunks(text: str, name: str) -> list[Chunk]:
    chunks = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{name}, line {number}: no JSON: {error}") from None
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise InputError(f"{name}, line {number}: no text", hint='expected {"id": ..., "text": ...} a line')
        doc_id = str(row.get("id", number))
        chunks.append(Chunk(doc_id, 0, 1, row["text"], 0, len(row["text"]), key=doc_id))
    return chunks
