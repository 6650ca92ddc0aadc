"""Extract one validated record per document: ``spark-submit jobs/extract.py`` or ``python jobs/extract.py``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

if __package__ in (None, ""):  # run as a file: the package lies beside this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from jobs.settings import engine_args, nest, read_examples, text_or_file
from pipeline.config import RunConfig, load_config
from pipeline.errors import ConfigError, InputError, OutputError, PipelineError
from pipeline.faults import first_line

EXIT_FAILED, EXIT_USAGE, EXIT_REJECTS = 1, 2, 3
FILE = click.Path()  # never checked here: it makes the shell complete file names, and URIs pass

EPILOG = """\b
Examples:
  spark-submit jobs/extract.py --input pipeline/samples/orders.jsonl \\
      --schema schemas/orders.py:CustomerOrders --output out/orders
  spark-submit jobs/extract.py --input letters/ --input-format text --schema contract.json \\
      --model Qwen/Qwen3-4B --engine-arg tensor_parallel_size=2 --output s3a://bucket/contracts
  spark-submit jobs/extract.py --engine openai --base-url http://gpustack/v1 --api-key-env GPUSTACK_KEY \\
      --model Qwen/Qwen3-4B --served-model qwen3-4b --input letters/ --schema contract.json --output out
  python jobs/extract.py --config run.yaml --limit 20 --dry-run

\b
Run the same command again to resume. Change only --profile or --format to write the results anew without the model.
Exit codes: 0 done, 1 failed, 2 wrong usage, settings or input, 3 more rejects than --max-reject-rate.
"""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--input", "input_path", type=FILE, metavar="PATH_OR_TABLE", help="Documents: a file, folder, glob, URI or table."
)
@click.option(
    "--input-format",
    metavar="FORMAT",
    help="jsonl, parquet, csv, table; or one document a file: text, pdf, html, docx.",
)
@click.option("--id-column", metavar="NAME", help="Column that names a document. [default: doc_id or id]")
@click.option("--text-column", metavar="NAME", help="Column with the text. [default: text]")
@click.option("--schema", type=FILE, metavar="SPEC", help="FILE.py:Class, package.module:Class or FILE.json.")
@click.option("--output", type=FILE, metavar="DIR", help="Folder or URI for the results.")
@click.option(
    "--model", type=FILE, metavar="NAME", help="demo, a Hugging Face hub id, or a model folder. [default: demo]"
)
@click.option("--instructions", metavar="TEXT|@FILE", help="What the model is told before the document.")
@click.option(
    "--examples", type=FILE, metavar="FILE.jsonl", help='Few-shot examples, {"text": ..., "output": {...}} a line.'
)
@click.option("--profile", metavar="NAME", help="Form of records.jsonl: spark, java, kettle, ascii. [default: spark]")
@click.option(
    "--format", "formats", multiple=True, metavar="NAME", help="parquet or jsonl; repeatable. [default: both]"
)
@click.option("--limit", type=int, metavar="N", help="Only the first N documents.")
@click.option("--dry-run", is_flag=True, help="Count the work, try a sample of it, estimate the rest; write nothing.")
@click.option(
    "--dry-run-documents", type=click.IntRange(min=0), default=8, metavar="N",
    help="Documents that --dry-run samples; 0 loads no model. [default: 8]",
)  # fmt: skip
@click.option("--max-retries", type=int, metavar="N", help="Retries of an invalid output. [default: 1]")
@click.option("--passes", type=int, metavar="N", help="Times the model is asked for what lists lack. [default: 1]")
@click.option("--max-reject-rate", type=float, metavar="RATE", help="Exit with 3 above this share of rejects (0 to 1).")
@click.option("--id-field", metavar="NAME", help='Name of the id in records.jsonl; "" leaves it out. [default: doc_id]')
@click.option("--grounding/--no-grounding", default=None, help="Find each value in its document. [default: on]")
@click.option(
    "--require-grounding", multiple=True, metavar="PATH", help="Fields whose values must be found; repeatable."
)
@click.option("--ungrounded", metavar="reject|null", help="What becomes of a value that is not. [default: reject]")
@click.option("--confidence", is_flag=True, default=None, help="Keep the probability of each value.")
@click.option("--report/--no-report", default=None, help="Write report.html with a sample. [default: on]")
@click.option("--engine", metavar="KIND", help="vllm in each worker, or openai: a vLLM server. [default: vllm]")
@click.option("--base-url", metavar="URL", help="The server, up to /v1. With --engine openai.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the server's key.")
@click.option("--served-model", metavar="NAME", help="The server's name for --model. [default: the same]")
@click.option("--max-in-flight", type=int, metavar="N", help="Requests at a time, of each task. [server: 16]")
@click.option("--engine-arg", "engine_arg", multiple=True, metavar="KEY=VALUE", help="Passed to vLLM; repeatable.")
@click.option(
    "--config", "config_file", type=FILE, metavar="FILE.yaml", help="The same settings as a file; options win."
)
@click.option("--dspark/--no-dspark", default=None, help="Speculative decoding with DSpark. [default: on]")
@click.option("--target-partition-minutes", type=float, metavar="N", help="Work per task on a cluster. [default: 10]")
@click.option("--retry-rejects", is_flag=True, default=None, help="Do earlier rejects again.")
@click.option("--overwrite", is_flag=True, help="Replace results of a run with other settings in the same folder.")
@click.option("--quiet", is_flag=True, default=None, help="No progress, no table; errors only.")
@click.option("--verbose", is_flag=True, help="Log what happens, with tracebacks.")
def main(
    config_file: str | None, dry_run: bool, dry_run_documents: int, overwrite: bool, verbose: bool, **options: Any
) -> None:
    """Extract one validated record per document with a schema, on Spark and vLLM."""
    with guarded(verbose=verbose):
        config = _config(config_file, options)
        _check(config)
        if dry_run:
            from pipeline.dry_run import dry_run as check_work

            for line in check_work(config, num_documents=dry_run_documents):
                click.echo(line)
            return
        run_job(config, overwrite=overwrite)


@contextmanager
def guarded(*, verbose: bool) -> Iterator[None]:
    """Errors as one line and an exit code; tracebacks only with ``verbose``."""
    level = logging.INFO if verbose else logging.ERROR
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    if not verbose:
        logging.getLogger().addFilter(_is_not_py4j)
        os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # it logs each try of a hub that is not there
    try:
        yield
    except PipelineError as error:
        if verbose:
            logging.getLogger(__name__).exception("the run ended")
        _fail(error)
    except (SystemExit, KeyboardInterrupt, click.exceptions.Exit):
        raise
    except Exception as error:
        if verbose:
            raise
        click.echo(f"error: unexpected {type(error).__name__}: {first_line(error)} (see --verbose)", err=True)
        sys.exit(EXIT_FAILED)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs a traceback on the root logger when Ctrl-C ends its wait for Spark."""
    return Path(record.pathname).parent.name != "py4j"


def _config(file: str | None, options: dict[str, Any]) -> RunConfig:
    values = nest(
        {
            "input.path": options["input_path"],
            "input.format": options["input_format"],
            "input.id_column": options["id_column"],
            "input.text_column": options["text_column"],
            "input.limit": options["limit"],
            "schema_spec": options["schema"],
            "output.path": options["output"],
            "output.profile": options["profile"],
            "output.formats": list(options["formats"]) or None,
            "output.id_field": options["id_field"],
            "output.max_reject_rate": options["max_reject_rate"],
            "output.grounding": options["grounding"],
            "output.require_grounding": list(options["require_grounding"]) or None,
            "output.ungrounded": options["ungrounded"],
            "output.confidence": options["confidence"],
            "output.report": options["report"],
            "engine.model": options["model"],
            "engine.args": engine_args(options["engine_arg"]),
            "engine.kind": options["engine"],
            "engine.base_url": options["base_url"],
            "engine.api_key_env": options["api_key_env"],
            "engine.served_model": options["served_model"],
            "engine.max_in_flight": options["max_in_flight"],
            "prompt.instructions": text_or_file(options["instructions"]),
            "prompt.examples": read_examples(options["examples"]),
            "decoding.max_retries": options["max_retries"],
            "decoding.passes": options["passes"],
            "dspark.enabled": options["dspark"],
            "partition.minutes": options["target_partition_minutes"],
            "journal.retry_rejects": options["retry_rejects"],
            "quiet": options["quiet"],
        }
    )
    return load_config(values, file=Path(file) if file else None)


def _check(config: RunConfig) -> None:
    missing = [
        option
        for option, value in (
            ("--input", config.input.path),
            ("--schema", config.schema_spec),
            ("--output", config.output.path),
        )
        if not value
    ]
    if missing:
        raise ConfigError(f"missing {', '.join(missing)}", hint="see --help for examples")


def run_job(config: RunConfig, *, overwrite: bool = False, retry_reasons: Sequence[str] = ()) -> None:
    """Run with progress and a table at the end; exits with :data:`EXIT_REJECTS` above the allowed share of rejects."""
    from jobs.terminal import Terminal, summary
    from pipeline.run import run
    from pipeline.run_folder import done_so_far

    terminal = Terminal(quiet=config.quiet)
    signal.signal(signal.SIGTERM, _stop)
    try:
        result = run(
            config,
            overwrite=overwrite,
            retry_reasons=retry_reasons,
            say=terminal.say,
            show=terminal.show if terminal.is_live else None,
        )
    except KeyboardInterrupt:
        terminal.clear()
        done = done_so_far(str(config.output.path))
        click.echo(f"stopped: {done} texts are done and kept; run the same command again to go on", err=True)
        sys.exit(EXIT_FAILED)
    finally:
        terminal.clear()
    if not config.quiet:
        for line in summary(result):
            click.echo(line)
    limit = config.output.max_reject_rate
    if limit is not None and result.reject_rate > limit:
        click.echo(
            f"error: {result.reject_rate:.1%} of the documents were rejected, more than --max-reject-rate {limit:.1%}",
            err=True,
        )
        sys.exit(EXIT_REJECTS)


def _stop(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _fail(error: PipelineError) -> NoReturn:
    click.echo("error: " + " ".join(str(error).split()), err=True)
    if isinstance(error, ConfigError | InputError):
        sys.exit(EXIT_USAGE)
    from pipeline.session import log_file

    if log_file().exists() and not isinstance(error, OutputError):
        click.echo(f"what Spark and the engine said is in {log_file()}", err=True)
    sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
