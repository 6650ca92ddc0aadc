"""What the decoding benchmark decodes: prompts of one document set under one schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipeline.config import Example, Layout, PromptConfig
from pipeline.data import Chunk
from pipeline.decode_gold import is_legal
from pipeline.dspark.gold import write_gold
from pipeline.errors import InputError
from pipeline.grammar import build_grammar
from pipeline.prompting import Prompting
from pipeline.protocols import Prompt
from pipeline.schema import Schema, load_schema
from pipeline.tokenizer import Tokenizer

SAMPLE_SCHEMA = "schemas.orders:CustomerOrders"


@dataclass(frozen=True, slots=True)
class Form:
    """One schema with its grammar and its prompts."""

    schema: Schema
    grammar: str
    prompting: Prompting


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts, chunks and forms of the same documents, in order. ``name`` says what they are in reports.

    ``golds`` are the gold records as texts, where the engine shall write those (else empty).
    """

    name: str
    chunks: tuple[Chunk, ...]
    prompts: tuple[Prompt, ...]
    forms: tuple[Form, ...]
    layout: Layout
    golds: tuple[str, ...] = ()

    @property
    def num_prompt_tokens(self) -> int:
        return sum(len(prompt.token_ids) for prompt in self.prompts)

    @property
    def num_examples(self) -> int:
        """The most that any prompt shows."""
        return max(len(prompt.example_spans) for prompt in self.prompts)

    @property
    def only_form(self) -> Form | None:
        """The form of all documents; None where they have several."""
        first, *others = self.forms
        return first if all(form is first for form in others) else None


def load_workload(
    *,
    tokenizer: Tokenizer,
    documents: Path | None = None,
    schema_spec: str | None = None,
    examples: Sequence[Example] = (),
    layout: Layout = "indented",
    limit: int | None = None,
    with_gold: bool = False,
) -> Workload:
    """Read ``documents`` (JSON Lines with ``id`` and ``text``); None: the packaged order samples and their examples.

    A document may name its own ``schema``, a file relative to the documents'; ``examples`` are not shown there.

    Raises:
        InputError: the file cannot be read, a line has no text, or (``with_gold``) no usable ``gold``.
        SchemaError: a schema cannot be used.
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
    rows = _rows(text, name)[:limit]
    if not rows:
        raise InputError(f"{name} holds no documents")
    known: dict[tuple[str, bool], Form] = {}
    chunks, forms = [], []
    for number, row in enumerate(rows, start=1):
        chunks.append(_chunk(row, number))
        spec, own = schema_spec, documents is not None and isinstance(row.get("schema"), str)
        if documents is not None and own:
            spec = str(documents.parent / row["schema"])
        if spec is None:
            raise InputError("documents of your own need a schema", hint="--schema FILE.py:Class or FILE.json")
        if (spec, own) not in known:
            schema = load_schema(spec)
            config = PromptConfig(examples=() if own else tuple(examples))
            prompting = Prompting(tokenizer, config=config, json_schema=schema.json_schema, layout=layout)
            known[spec, own] = Form(schema, build_grammar(schema, layout=layout).text, prompting)
        forms.append(known[spec, own])
    return Workload(
        name=name,
        chunks=tuple(chunks),
        prompts=tuple(form.prompting.first(chunk) for form, chunk in zip(forms, chunks, strict=True)),
        forms=tuple(forms),
        layout=layout,
        golds=tuple(_gold(*of, layout) for of in zip(rows, chunks, forms, strict=True)) if with_gold else (),
    )


def _gold(row: Mapping[str, Any], chunk: Chunk, form: Form, layout: Layout) -> str:
    if not isinstance(row.get("gold"), dict):
        raise InputError(f"document {chunk.doc_id}: no gold", hint='expected {"text": ..., "gold": {...}} a line')
    text = write_gold(row["gold"], form.schema.json_schema, layout)
    if not is_legal(form.grammar, text):
        raise InputError(f"document {chunk.doc_id}: its gold record does not follow the schema", hint="see --schema")
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _rows(text: str, name: str) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{name}, line {number}: no JSON: {error}") from None
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise InputError(f"{name}, line {number}: no text", hint='expected {"id": ..., "text": ...} a line')
        rows.append(row)
    return rows


def _chunk(row: Mapping[str, Any], number: int) -> Chunk:
    doc_id = str(row.get("id", number))
    return Chunk(doc_id, 0, 1, row["text"], 0, len(row["text"]), key=doc_id)
