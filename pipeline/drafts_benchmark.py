"""The drafters' benchmark: gold records replayed against the drafters, without a model and without a GPU."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.dspark.drafting import Matcher
from pipeline.dspark.gold import Layout, write_gold
from pipeline.dspark.replay import METHODS, GoldRecord, replay
from pipeline.dspark.tokens import TokenTable, build_token_table
from pipeline.errors import ConfigError, InputError
from pipeline.grammar import build_grammar
from pipeline.schema import Schema, load_schema


@dataclass(frozen=True)
class DraftsSettings:
    """`order` is `given`, `reversed` or a seed to shuffle with; `rate` the acceptance rate to hold."""

    documents: Path
    schema: str
    tokenizer: Path
    layout: Layout = "indented"
    order: str = "given"
    without: frozenset[str] = frozenset()
    max_draft_tokens: int = 16
    rate: float = 0.62


def measure_drafts(settings: DraftsSettings) -> dict[str, Any]:
    """Replay every method over the documents; the figures of each under its name.

    A document is `{"text": …, "gold": …}`; with a key `schema` it names its own schema file, relative to the documents.
    Raises InputError and ConfigError where documents or tokenizer cannot be read, SchemaError for a schema.
    """
    rows = _ordered(_read(settings.documents), settings.order)
    table = load_token_table(settings.tokenizer)
    schemas: dict[str, Schema] = {}
    for row in rows:
        name = _schema_of(row, settings)
        if name not in schemas:
            schemas[name] = load_schema(name)
    records = [_record(row, settings, schemas) for row in rows]
    matchers = grammar_matchers(schemas, table, settings.layout)
    figures: dict[str, Any] = {}
    gc.collect()
    gc.freeze()  # as the engine does after its start: what was built once is not looked through again and again
    for method in METHODS:
        result = replay(
            records,
            method=method,
            tokenizer=table,
            matchers=matchers,
            max_draft_tokens=settings.max_draft_tokens,
            without=settings.without,
            rate=settings.rate,
        )
        figures[method] = result.to_json()
    figures["records"] = len(records)
    figures["layout"], figures["order"] = settings.layout, settings.order
    figures["max_draft_tokens"], figures["without"] = settings.max_draft_tokens, sorted(settings.without)
    return figures


def load_token_table(folder: Path) -> TokenTable:
    """The token table of a model folder, or of its tokenizer.json."""
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json" if folder.is_dir() else folder
    if not file.is_file():
        raise ConfigError(f"{folder} has no tokenizer.json", hint="pass the folder of a model with a fast tokenizer")
    return build_token_table(Tokenizer.from_file(str(file)))


def grammar_matchers(schemas: dict[str, Schema], table: TokenTable, layout: Layout) -> dict[str, Callable[[], Matcher]]:
    """For each schema what makes a fresh matcher of its grammar."""
    import xgrammar

    stops = sorted(table.special_ids)[:1] or [len(table.pieces)]
    pieces = [*table.pieces, b""] if not table.special_ids else table.pieces
    info = xgrammar.TokenizerInfo(pieces, xgrammar.VocabType.RAW, stop_token_ids=stops)
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)

    def maker(schema: Schema) -> Callable[[], Matcher]:
        compiled = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(build_grammar(schema, layout=layout).text))
        return lambda: xgrammar.GrammarMatcher(compiled)  # type: ignore[no-any-return,unused-ignore]

    return {name: maker(schema) for name, schema in schemas.items()}


def drafts_table(figures: dict[str, Any]) -> str:
    """The figures as a Markdown table, with what each drafter did."""
    lines = [
        "| method | tokens | steps | mean acceptance length | acceptance rate | µs a step |",
        "|---|---|---|---|---|---|",
    ]
    for method in METHODS:
        one = figures[method]
        lines.append(
            f"| {method} | {one['tokens']} | {one['steps']} | {one['mean_acceptance_length']:.2f} "
            f"| {one['acceptance_rate']:.2f} | {one['draft_us']:.0f} |"
        )
    lines += ["", "| drafter | drafted | accepted | rate |", "|---|---|---|---|"]
    for name, counts in figures["dspark"]["by_drafter"].items():
        drafted, accepted = counts["drafted"], counts["accepted"]
        lines.append(f"| {name} | {drafted} | {accepted} | {accepted / drafted:.2f} |")
    if figures["dspark"]["refused_records"]:
        lines += [
            "",
            f"The grammar refuses {figures['dspark']['refused_records']} of {figures['records']} gold records.",
        ]
    return "\n".join(lines)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no JSON Lines file: {error}") from error
    rows = [row for row in rows if isinstance(row, dict) and "gold" in row and isinstance(row.get("text"), str)]
    if not rows:
        raise InputError(f"{path} has no document with text and gold", hint='lines {"text": "…", "gold": {…}}')
    return rows


def _ordered(rows: list[dict[str, Any]], order: str) -> Sequence[dict[str, Any]]:
    if order == "given":
        return rows
    if order == "reversed":
        return rows[::-1]
    if not order.lstrip("-").isdigit():
        raise ConfigError(f"order {order!r} is not known", hint="given, reversed or a number to shuffle with")
    return random.Random(int(order)).sample(rows, len(rows))


def _schema_of(row: dict[str, Any], settings: DraftsSettings) -> str:
    own = row.get("schema")
    return str(settings.documents.parent / own) if isinstance(own, str) else settings.schema


def _record(row: dict[str, Any], settings: DraftsSettings, schemas: dict[str, Schema]) -> GoldRecord:
    name = _schema_of(row, settings)
    output = write_gold(row["gold"], schemas[name].json_schema, settings.layout)
    return GoldRecord(str(row.get("id", "")), row["text"], output, name)
