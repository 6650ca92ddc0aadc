"""A schema examined before a run: fields and what enforces them, traps, output size, compile time and mask cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.compile_worker import LARGE_VOCABULARY, large_vocabulary_file
from pipeline.compiling import CompileReport, check_compiles
from pipeline.coverage import UNKNOWN, narrower_than
from pipeline.errors import SchemaError
from pipeline.field_rules import FieldRule, field_rules, is_open
from pipeline.field_types import infer
from pipeline.grammar import GrammarSpec, Layout, build_grammar
from pipeline.output_size import OutputSize, output_size
from pipeline.schema import Schema, spark_ddl
from pipeline.traps import Trap, traps_of

SLOW_MASK_US = 200.0
"""Masks of all requests of a step are made one after another: 64 at this price take as long as a step of a GPU."""
LARGE_VOCAB_SIZE = 100_000


@dataclass(frozen=True, slots=True)
class LintReport:
    """Everything ``jobs/lint_schema.py`` shows. ``compiled`` is None where compiling was not asked for.

    ``compiled_large`` is the same for a large vocabulary; ``narrower`` says what the grammar cannot write.
    """

    schema: Schema
    grammar: GrammarSpec
    fields: tuple[FieldRule, ...]
    traps: tuple[Trap, ...]
    size: OutputSize
    columns: str
    compiled: CompileReport | None
    compiled_large: CompileReport | None
    narrower: tuple[str, ...]


def lint(
    schema: Schema,
    *,
    layout: Layout = "indented",
    tokenizer_folder: str | Path | None = None,
    compile_grammar: bool = True,
    time_limit_s: float = 60.0,
    memory_limit_mb: int = 4096,
    num_tokens: int = 400,
) -> LintReport:
    """Examine a schema. Raises SchemaError where it has no grammar, no columns, or does not compile in its limits."""
    grammar = build_grammar(schema, layout=layout)
    fields = tuple(field_rules(schema.json_schema))
    traps = [trap for field in fields for trap in traps_of(field)]
    traps += _record_traps(schema, fields)
    traps += _keyword_traps(grammar)
    try:
        columns = spark_ddl(schema)
    except SchemaError as error:
        columns = ""
        traps.append(Trap("", "columns", str(error)))
    measured: list[CompileReport | None] = [None, None]
    for index, tokenizer in enumerate((tokenizer_folder, LARGE_VOCABULARY) if compile_grammar else ()):
        before = measured[0]
        if index and (large_vocabulary_file() is None or (before and before.vocab_size >= LARGE_VOCAB_SIZE)):
            continue
        measured[index] = check_compiles(
            grammar, tokenizer, time_limit_s=time_limit_s, memory_limit_mb=memory_limit_mb, num_tokens=num_tokens
        )
    traps += _mask_traps(fields, [report for report in measured if report is not None])
    size = output_size(schema.json_schema, layout)
    return LintReport(
        schema, grammar, fields, tuple(traps), size, columns, measured[0], measured[1],
        narrower_than(schema.json_schema),
    )  # fmt: skip


def _mask_traps(fields: tuple[FieldRule, ...], measured: list[CompileReport]) -> list[Trap]:
    """Masks that slow decoding, with the fields whose counted length is the usual cause (xgrammar#852)."""
    slow = [report for report in measured if report.mask_mean_us > SLOW_MASK_US]
    if not slow:
        return []
    worst = max(slow, key=lambda report: report.mask_mean_us)
    counted = [field.path for field in fields if any(rule.startswith("maxLength") for rule in field.enforced)]
    cause = f"; maxLength of {', '.join(counted[:6])} is counted in the grammar" if counted else ""
    message = f"{worst.mask_mean_us:.0f} µs for each token of each request ({worst.vocab_size} tokens){cause}"
    return [Trap("", "slow masks", message)]


def _keyword_traps(grammar: GrammarSpec) -> list[Trap]:
    """Words that JSON Schema does not know, such as ``maxlength`` or OpenAPI's ``nullable``: they change nothing."""
    unknown = [found for found in grammar.coverage if found.note == UNKNOWN and not found.keyword.startswith("x-")]
    message = "{} is no keyword of JSON Schema: it changes nothing"
    return [Trap(found.path, "unknown keyword", message.format(found.keyword)) for found in unknown]


def _record_traps(schema: Schema, fields: tuple[FieldRule, ...]) -> list[Trap]:
    traps = []
    names = [field.path for field in fields if not any(mark in field.path for mark in ".[{")]
    if len(names) > 1:
        order = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        traps.append(Trap("", "key order", f"keys are written in the declared order: {order}"))
    if is_open(infer(schema.json_schema)) or any(is_open(field.field_type) for field in fields):
        traps.append(Trap("", "open object", "undeclared keys are allowed somewhere: the model may add its own"))
    return traps
