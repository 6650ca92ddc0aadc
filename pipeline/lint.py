"""A schema examined before a run: fields and what enforces them, traps, output size, compile time and mask cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.compiling import CompileReport, check_compiles
from pipeline.errors import SchemaError
from pipeline.field_rules import FieldRule, field_rules, is_open
from pipeline.field_types import infer
from pipeline.grammar import GrammarSpec, Layout, build_grammar
from pipeline.output_size import OutputSize, output_size
from pipeline.schema import Schema, spark_ddl
from pipeline.traps import Trap, traps_of

SLOW_MASK_US = 1000.0
"""A mask that costs more than this per token is felt: a GPU step with 64 requests takes 10 to 20 ms."""


@dataclass(frozen=True, slots=True)
class LintReport:
    """Everything ``jobs/lint_schema.py`` shows. ``compiled`` is None where compiling was not asked for."""

    schema: Schema
    grammar: GrammarSpec
    fields: tuple[FieldRule, ...]
    traps: tuple[Trap, ...]
    size: OutputSize
    columns: str
    compiled: CompileReport | None


def lint(
    schema: Schema,
    *,
    layout: Layout = "spaced",
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
    try:
        columns = spark_ddl(schema)
    except SchemaError as error:
        columns = ""
        traps.append(Trap("", "columns", str(error)))
    compiled = None
    if compile_grammar:
        compiled = check_compiles(
            grammar, tokenizer_folder, time_limit_s=time_limit_s, memory_limit_mb=memory_limit_mb, num_tokens=num_tokens
        )
        if compiled.mask_mean_us > SLOW_MASK_US:
            traps.append(
                Trap("", "slow masks", f"{compiled.mask_mean_us:.0f} µs for each token of each request: decoding slows")
            )
    size = output_size(schema.json_schema, layout)
    return LintReport(schema, grammar, fields, tuple(traps), size, columns, compiled)


def _record_traps(schema: Schema, fields: tuple[FieldRule, ...]) -> list[Trap]:
    traps = []
    names = [field.path for field in fields if not any(mark in field.path for mark in ".[{")]
    if len(names) > 1:
        order = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        traps.append(Trap("", "key order", f"keys are written in the declared order: {order}"))
    if is_open(infer(schema.json_schema)) or any(is_open(field.field_type) for field in fields):
        traps.append(Trap("", "open object", "undeclared keys are allowed somewhere: the model may add its own"))
    return traps
