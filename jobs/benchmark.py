"""Measure decoding: ``python jobs/benchmark.py decode`` (and ``seed``, ``serve``, ``simulate``, ``drafts``)."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import click

if __package__ in (None, ""):  # run as a file: the package lies beside this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from jobs.settings import engine_args, read_examples
from pipeline.errors import PipelineError

EXIT_FAILED, EXIT_USAGE = 1, 2


EPILOG = """\b
Examples:
  python jobs/benchmark.py decode --model Qwen/Qwen3-4B --in-flight 1 --in-flight 16 --charts out/charts
  python jobs/benchmark.py seed --model demo --requests 16 --max-tokens 256
  python jobs/benchmark.py overhead --limit 200
  python jobs/benchmark.py COMMAND --help
"""


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  python jobs/benchmark.py {line}" for line in lines)


class _Group(click.Group):
    """Errors of the package as one line; exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PipelineError as error:
            click.echo("error: " + " ".join(str(error).split()), err=True)
            ctx.exit(EXIT_USAGE)


@click.group(
    cls=_Group, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("--verbose", is_flag=True, help="Log what happens.")
def main(verbose: bool) -> None:
    """Measure what DSpark brings."""
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)


@main.command(
    epilog=_examples(
        "decode --limit 8 --variant plain --variant dspark",
        "decode --documents letters.jsonl --schema contract.json --model Qwen/Qwen3-4B --traces traces.json",
        "decode --write-gold --in-flight 1 --in-flight 16",
    )
)
@click.option("--documents", type=click.Path(path_type=Path), help="JSON Lines with text. [default: order samples]")
@click.option("--schema", metavar="SPEC", help="FILE.py:Class, package.module:Class or FILE.json.")
@click.option("--examples", metavar="FILE.jsonl", help='Few-shot examples, {"text": ..., "output": {...}} a line.')
@click.option("--model", default="demo", show_default=True, metavar="NAME", help="demo, a hub id or a model folder.")
@click.option("--in-flight", type=int, multiple=True, default=(1, 4, 16), show_default=True, help="Repeatable.")
@click.option("--limit", type=int, metavar="N", help="Only the first N documents.")
@click.option("--max-tokens", type=int, default=512, show_default=True, help="Longest output.")
@click.option("--layout", type=click.Choice(["indented", "spaced", "compact"]), default="indented", show_default=True)
@click.option("--variant", "variants", type=click.Choice(["plain", "ngram", "off", "dspark"]), multiple=True)
@click.option("--engine-arg", multiple=True, metavar="KEY=VALUE", help="Passed to vLLM; repeatable.")
@click.option("--format-errors", is_flag=True, help="Also count format errors under each kind of constraint.")
@click.option(
    "--write-gold", is_flag=True, help="Have the gold records written: decoding as with a model that makes no mistake."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="OUT", help="All figures as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="OUT", help="The table as a file.")
@click.option("--charts", type=click.Path(path_type=Path), metavar="DIR", help="PNG charts.")
@click.option("--traces", type=click.Path(path_type=Path), metavar="OUT", help="Recorded drafts, for simulate.")
def decode(json_file: Path | None, markdown: Path | None, **options: Any) -> None:
    """Plain vLLM, vLLM's ngram and DSpark on the same documents, interleaved."""
    from pipeline.config import EngineConfig, Example
    from pipeline.decode_report import markdown as table
    from pipeline.decode_run import run_decode

    figures = run_decode(
        engine=EngineConfig(model=options["model"], args=engine_args(options["engine_arg"]) or {}),
        in_flight=options["in_flight"],
        documents=options["documents"],
        schema_spec=options["schema"],
        examples=[Example.model_validate(example) for example in read_examples(options["examples"]) or ()],
        layout=options["layout"],
        limit=options["limit"],
        max_tokens=options["max_tokens"],
        count_format_errors=options["format_errors"],
        write_gold=options["write_gold"],
        charts=options["charts"],
        traces=options["traces"],
        say=lambda line: click.echo(line, err=True),
        **({"variants": options["variants"]} if options["variants"] else {}),
    )
    _write(json_file, json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    _write(markdown, table(figures))
    click.echo(table(figures))


@main.command(epilog=_examples("seed --model Qwen/Qwen3-4B --json seed.json"))
@click.option("--model", default="demo", show_default=True, metavar="NAME", help="demo, a hub id or a model folder.")
@click.option("--requests", "num_requests", type=int, default=100, show_default=True)
@click.option("--in-flight", type=int, default=16, show_default=True)
@click.option("--max-tokens", type=int, default=2048, show_default=True)
@click.option("--engine-arg", multiple=True, metavar="KEY=VALUE", help="Passed to vLLM; repeatable.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="OUT", help="All figures as JSON.")
def seed(engine_arg: tuple[str, ...], json_file: Path | None, **options: Any) -> None:
    """The article's workload: one prompt, 100 requests, 16 in flight, temperature 0.2, with DSpark off and on."""
    from pipeline.config import EngineConfig
    from pipeline.seed_benchmark import measure_seed, seed_table

    figures = measure_seed(
        engine=EngineConfig(model=options["model"], args=engine_args(engine_arg) or {}),
        num_requests=options["num_requests"],
        in_flight=options["in_flight"],
        max_tokens=options["max_tokens"],
    )
    _write(json_file, json.dumps(figures, indent=2) + "\n")
    click.echo(seed_table(figures))


@main.command(epilog=_examples("serve --base-url http://gpustack/v1 --api-key-env GPUSTACK_KEY --model deepseek-v41"))
@click.option("--base-url", required=True, metavar="URL", help="The server, up to /v1.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the server's key.")
@click.option("--model", metavar="NAME", help="The server's name for it. [default: the only one]")
@click.option("--requests", "num_requests", type=int, default=100, show_default=True)
@click.option("--in-flight", type=int, default=16, show_default=True)
@click.option("--max-tokens", type=int, default=2048, show_default=True)
@click.option(
    "--response-format", type=click.Choice(["json_schema", "json_object"]), default="json_schema", show_default=True
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="OUT", help="All figures as JSON.")
def serve(json_file: Path | None, **options: Any) -> None:
    """The article's workload against a server (vLLM, GPUStack), with DSpark off and on."""
    from pipeline.seed_benchmark import seed_table
    from pipeline.serve_benchmark import measure_server

    figures = measure_server(**options, say=lambda line: click.echo(line, err=True))
    _write(json_file, json.dumps(figures, indent=2) + "\n")
    click.echo(seed_table(figures))


@main.command(epilog=_examples("simulate --traces traces.json --in-flight 16 --in-flight 64"))
@click.option("--traces", type=click.Path(path_type=Path), required=True, metavar="FILE", help="From decode --traces.")
@click.option("--in-flight", type=int, multiple=True, default=(1, 4, 16, 64, 256), show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="OUT", help="All figures as JSON.")
@click.option("--charts", type=click.Path(path_type=Path), metavar="DIR", help="PNG charts.")
def simulate(traces: Path, in_flight: tuple[int, ...], json_file: Path | None, charts: Path | None) -> None:
    """Replay recorded drafts: the measured times again, then an H200-class machine."""
    from pipeline.simulate_run import run_simulate, simulate_table

    figures = run_simulate(traces, in_flight=in_flight, charts=charts)
    _write(json_file, json.dumps(figures, indent=2) + "\n")
    click.echo(simulate_table(figures))


@main.command(epilog=_examples("overhead --limit 200 --repeats 3"))
@click.option("--documents", type=click.Path(exists=True), metavar="FILE", help="JSON Lines. [default: order samples]")
@click.option("--schema", metavar="SPEC", help="FILE.py:Class, package.module:Class or FILE.json.")
@click.option("--examples", metavar="FILE.jsonl", help='Few-shot examples, {"text": ..., "output": {...}} a line.')
@click.option("--model", default="demo", show_default=True, metavar="NAME", help="demo, a hub id or a model folder.")
@click.option("--limit", type=int, default=200, show_default=True, metavar="N", help="How many documents.")
@click.option("--repeats", type=int, default=1, show_default=True, metavar="N", help="Both forms so many times.")
@click.option(
    "--max-tokens",
    type=int,
    default=1024,
    show_default=True,
    help="Longest output; a longer one is split, not enlarged.",
)
@click.option("--engine-arg", multiple=True, metavar="KEY=VALUE", help="Passed to vLLM; repeatable.")
@click.option("--dspark/--no-dspark", default=True, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="OUT", help="All figures as JSON.")
def overhead(json_file: Path | None, limit: int, repeats: int, **options: Any) -> None:
    """A whole Spark job against the same documents on the engine alone."""
    from pipeline.config import load_config
    from pipeline.overhead import measure_overhead, overhead_table

    samples = Path(__file__).resolve().parents[1] / "pipeline" / "samples"
    given = options["documents"] is not None
    config = load_config(
        {
            "input": {"path": options["documents"] or str(samples / "orders.jsonl"), "id_column": "id"},
            "schema_spec": options["schema"] or ("schemas.orders:CustomerOrders" if not given else None),
            "prompt": {
                "examples": read_examples(
                    options["examples"] or (None if given else str(samples / "orders_examples.jsonl"))
                )
                or []
            },
            "engine": {"model": options["model"], "args": engine_args(options["engine_arg"]) or {}},
            "dspark": {"enabled": options["dspark"]},
            "decoding": {"max_output_tokens": options["max_tokens"], "truncation_factor": 1},
            "quiet": True,
        }
    )
    figures = measure_overhead(
        config, num_documents=limit, repeats=repeats, say=lambda line: click.echo(line, err=True)
    )
    _write(json_file, json.dumps(figures, indent=2) + "\n")
    click.echo(overhead_table(figures))


@main.command(epilog=_examples("drafts --documents gold.jsonl --schema contract.json --tokenizer ~/models/Qwen3-4B"))
@click.option("--documents", type=click.Path(path_type=Path), required=True, metavar="FILE", help="With gold.")
@click.option("--schema", required=True, metavar="SPEC", help="FILE.py:Class, package.module:Class or FILE.json.")
@click.option("--tokenizer", type=click.Path(path_type=Path), required=True, metavar="DIR", help="With tokenizer.json.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="OUT", help="All figures as JSON.")
@click.option("--order", default="given", show_default=True, metavar="ORDER", help="given, reversed or a shuffle seed.")
@click.option("--layout", type=click.Choice(["indented", "spaced", "compact"]), default="indented", show_default=True)
@click.option("--without", multiple=True, metavar="DRAFTER", help="grammar, structure, history, document or output.")
@click.option("--max-draft-tokens", type=int, default=16, show_default=True, metavar="N", help="Of one request.")
@click.option("--rate", type=float, default=0.6, show_default=True, help="Acceptance rate to hold.")
def drafts(json_file: Path | None, without: tuple[str, ...], **options: Any) -> None:
    """Replay gold records against the drafters: no model, no GPU."""
    from pipeline.drafts_benchmark import DraftsSettings, drafts_table, measure_drafts

    figures = measure_drafts(DraftsSettings(without=frozenset(without), **options))
    _write(json_file, json.dumps(figures, indent=2) + "\n")
    click.echo(drafts_table(figures))


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run() -> None:
    """The program: what loads vLLM in this process needs a library loaded before it starts."""
    if {"decode", "seed"} & set(sys.argv):
        from pipeline.preload import restart_with_preload

        restart_with_preload()
    main()


if __name__ == "__main__":
    run()
