"""Examine a schema before a run: ``python jobs/lint_schema.py SCHEMA``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

if __package__ in (None, ""):  # run as a file: the package lies beside this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline.errors import ConfigError, PipelineError
from pipeline.field_rules import FieldRule
from pipeline.grammar import Layout
from pipeline.lint import LintReport, lint
from pipeline.schema import load_schema

EXIT_FAILED, EXIT_USAGE = 1, 2
_WIDEST = 48

EPILOG = """\b
Examples:
  python jobs/lint_schema.py schemas/orders.py:CustomerOrders
  python jobs/lint_schema.py contract.json --tokenizer ~/models/Qwen3-4B
  python jobs/lint_schema.py "id BIGINT NOT NULL, tags ARRAY<STRING>" --no-compile

\b
"while writing": the grammar makes anything else impossible. "afterwards": a breach costs a retry.
Mask cost is measured along random outputs, with one thread: for --tokenizer, or the demo model where it is there, or
bytes; and, where that one is small, for a vocabulary of 150,000 tokens as large models have, if vLLM is installed.
Exit codes: 0 usable, 1 lint itself failed, 2 the schema cannot be used.
"""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("schema_spec", metavar="SCHEMA")
@click.option("--tokenizer", metavar="DIR", help="Model folder whose tokenizer the masks are measured with.")
@click.option("--layout", type=click.Choice(["indented", "spaced", "compact"]), default="indented", show_default=True)
@click.option("--compile/--no-compile", "compile_grammar", default=True, help="Compile and measure. [default: on]")
@click.option(
    "--time-limit", "time_limit_s", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True,
    metavar="S", help="Seconds to compile.",
)  # fmt: skip
@click.option(
    "--memory-limit", "memory_limit_mb", type=click.IntRange(min=1), default=4096, show_default=True, metavar="MB",
    help="To compile.",
)  # fmt: skip
@click.option("--grammar", "show_grammar", is_flag=True, help="Print the grammar too.")
@click.option("--json", "as_json", is_flag=True, help="Print facts as JSON instead of tables.")
def main(schema_spec: str, tokenizer: str | None, layout: Layout, **options: Any) -> None:
    """Show what a run with SCHEMA enforces, risks and costs.

    SCHEMA is FILE.py:Class, package.module:Class, FILE.json or Spark DDL text.
    """
    try:
        if tokenizer and not Path(tokenizer).is_dir():
            raise ConfigError(f"there is no folder {tokenizer}", hint="pass --tokenizer a model folder")
        report = lint(
            load_schema(schema_spec), layout=layout, tokenizer_folder=tokenizer or _demo_tokenizer(),
            compile_grammar=options["compile_grammar"], time_limit_s=options["time_limit_s"],
            memory_limit_mb=options["memory_limit_mb"],
        )  # fmt: skip
    except PipelineError as error:
        click.echo("error: " + " ".join(str(error).split()), err=True)
        sys.exit(EXIT_USAGE)
    click.echo(json.dumps(facts(report), indent=2, ensure_ascii=False) if options["as_json"] else as_text(report))
    if options["show_grammar"]:
        click.echo("\n" + report.grammar.text.rstrip())


def as_text(report: LintReport) -> str:
    """The page for a person."""
    risks: dict[str, list[str]] = {}
    for trap in report.traps:
        risks.setdefault(trap.path, []).append(trap.kind)
    rows = [
        (f.path, _type(f), f.column, ", ".join(f.enforced) or "-", ", ".join(f.checked) or "-",
         ", ".join(risks.get(f.path, ["-"])))
        for f in report.fields
    ]  # fmt: skip
    lines = [f"{report.schema.name} ({report.schema.source}), fingerprint {report.schema.fingerprint[:12]}", ""]
    lines += _table(("field", "type", "column", "while writing", "afterwards", "risk"), rows)
    lines += ["", f"Columns: {report.columns or 'none'}", "", "Output size (characters; about 3 a token)"]
    size = report.size
    longest = "no bound" if size.longest_chars is None else f"{size.longest_chars} (about {size.longest_tokens} tokens)"
    lines.append(
        f"  shortest {size.shortest_chars}, typical {size.typical_chars} (about {size.typical_tokens} tokens), "
        f"longest {longest}"
    )
    if report.narrower:
        lines += ["", "The model cannot write all that the schema allows", *(f"  {text}" for text in report.narrower)]
    lines += ["", *_cost_lines(report), "", f"Traps ({len(report.traps)})"]
    traps = [(trap.path or "record", trap.kind, trap.message) for trap in report.traps]
    lines += _table(("field", "risk", "what to know"), traps, widest=110)
    return "\n".join(lines)


def _type(field: FieldRule) -> str:
    null = " | null" if field.nullable and "null" not in field.json_type and field.json_type != "any" else ""
    return field.json_type + null + ("" if field.required else ", optional")


def _cost_lines(report: LintReport) -> list[str]:
    lines = [f"Grammar: {len(report.grammar.text)} characters, layout {report.grammar.layout}"]
    done = [found for found in (report.compiled, report.compiled_large) if found is not None]
    head = ("vocabulary", "compiled in", "memory", "mask per token: mean", "worst", "measured on")
    rows = [
        (f"{found.vocab_size} tokens" if found.vocab_size else "bytes, no tokenizer", f"{found.compile_ms:.0f} ms",
         f"{found.memory_mb:.0f} MB", f"{found.mask_mean_us:.0f} µs", f"{found.mask_max_us:.0f} µs",
         f"{found.num_tokens} tokens")
        for found in done
    ]  # fmt: skip
    return lines + (_table(head, rows) if rows else [])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], widest: int = _WIDEST) -> list[str]:
    if not rows:
        return ["  none"]
    cells = [[_cut(cell, widest) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    lines = [("  " + "  ".join(row)).rstrip() for row in padded]
    return [lines[0], "  " + "  ".join("-" * width for width in widths), *lines[1:]]


def _cut(text: str, widest: int) -> str:
    return text if len(text) <= widest else text[: widest - 1] + "…"


def facts(report: LintReport) -> dict[str, Any]:
    """The same for a program."""
    from dataclasses import asdict

    return {
        "schema": report.schema.name,
        "fingerprint": report.schema.fingerprint,
        "fields": [
            {"path": f.path, "type": f.json_type, "column": f.column, "required": f.required, "nullable": f.nullable,
             "enforced": list(f.enforced), "checked": list(f.checked)}
            for f in report.fields
        ],
        "keywords": [asdict(keyword) for keyword in report.grammar.coverage],
        "traps": [asdict(trap) for trap in report.traps],
        "size": {**asdict(report.size), "typical_tokens": report.size.typical_tokens},
        "columns": report.columns,
        "narrower": list(report.narrower),
        "compiled": asdict(report.compiled) if report.compiled else None,
        "compiled_large": asdict(report.compiled_large) if report.compiled_large else None,
    }  # fmt: skip


def _demo_tokenizer() -> str | None:
    """The demo model's folder where it is already made; it is never made for a lint."""
    from pipeline.demo_model import demo_model_folder

    folder = demo_model_folder()
    return str(folder) if (folder / "tokenizer.json").is_file() else None


if __name__ == "__main__":
    main()
