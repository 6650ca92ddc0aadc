"""Score a run against gold records: ``python jobs/evaluate.py RUN --gold FILE.jsonl``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

if __package__ in (None, ""):  # run as a file: the package lies beside this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline.errors import ConfigError, InputError, PipelineError
from pipeline.evaluation import Evaluation, Prediction, compare, evaluate
from pipeline.evaluation_text import evaluation_json, evaluation_markdown
from pipeline.report_evaluation import render_evaluation
from pipeline.results import RunResults
from pipeline.schema import Schema, load_schema
from pipeline.strict_json import JsonTextError, dumps, loads

EXIT_FAILED, EXIT_USAGE = 1, 2

EPILOG = """\b
Examples:
  python jobs/evaluate.py out/receipts --gold receipts.jsonl --schema receipts.json
  python jobs/evaluate.py out/new --against out/old --gold receipts.jsonl --output out/comparison

\b
Gold is JSON Lines with id, text and gold. RUN is the --output folder of a run, or a JSON Lines file of records.
"""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("run")
@click.option("--gold", "gold_file", required=True, metavar="FILE.jsonl", help="Right records: id and gold a line.")
@click.option("--against", metavar="RUN", help="Another run (A) that RUN (B) is compared with.")
@click.option(
    "--schema", "schema_spec", metavar="SPEC", help="Keys of lists and a check of records, as for extract.py."
)
@click.option("--id-field", default="doc_id", show_default=True, metavar="NAME", help="The id in a file of records.")
@click.option("--gold-id", default="id", show_default=True, metavar="NAME", help="The id in the gold file.")
@click.option("--gold-field", default="gold", show_default=True, metavar="NAME", help="The record in the gold file.")
@click.option("--output", metavar="DIR", help="Folder for evaluation.json, .md and .html. [default: the run's folder]")
def main(run: str, against: str | None, schema_spec: str | None, output: str | None, **options: Any) -> None:
    """Score RUN against gold records, field by field, and compare it with another run."""
    try:
        folder = _folder(run, output)
        schema = load_schema(schema_spec) if schema_spec else None
        names = options["gold_id"], options["gold_field"]
        gold = _by_id(Path(options["gold_file"]), names[0], names[1])
        result = _evaluate(run, gold, schema, options["id_field"])
        comparison = compare(_evaluate(against, gold, schema, options["id_field"]), result) if against else None
    except PipelineError as error:
        click.echo("error: " + " ".join(str(error).split()), err=True)
        sys.exit(EXIT_USAGE)
    title = f"Evaluation of {Path(run).name}" + (f" against {Path(against).name}" if against else "")
    text = evaluation_markdown(result, title=title, comparison=comparison)
    figures = evaluation_json(result, comparison=comparison)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "evaluation.json").write_text(json.dumps(figures, indent=2, default=str) + "\n")
        (folder / "evaluation.md").write_text(text, encoding="utf-8")
        html = render_evaluation(result, title=title, comparison=comparison)
        (folder / "evaluation.html").write_text(html, encoding="utf-8")
    except OSError as error:
        click.echo(f"error: cannot write to {folder}: {error.strerror}", err=True)
        sys.exit(EXIT_FAILED)
    click.echo(text.split("\n## Worst")[0].rstrip())
    click.echo(f"\nwritten to {folder}: evaluation.json, .md and .html")


def _folder(run: str, output: str | None) -> Path:
    if output:
        return Path(output)
    if "://" in run:
        raise ConfigError("the run is not on this machine", hint="pass --output DIR")
    return Path(run) if Path(run).is_dir() else Path(run).parent


def _evaluate(run: str, gold: dict[str, Any], schema: Schema | None, id_field: str) -> Evaluation:
    predictions = _predictions(run, id_field)
    if not gold.keys() & predictions.keys():
        raise InputError(f"no document of {run} has gold", hint="see --gold-id and --id-field for the names of the ids")
    wrong: list[str] = []
    if schema is not None:
        import jsonschema_rs

        check = jsonschema_rs.validator_for(schema.json_schema)
        wrong = [i for i, p in predictions.items() if p.value is not None and not check.is_valid(_plain(p.value))]
    return evaluate(gold, predictions, json_schema=schema.json_schema if schema else None, validate=wrong)


def _predictions(run: str, id_field: str) -> dict[str, Prediction]:
    path = Path(run)
    if path.is_file():
        return {name: Prediction(value) for name, value in _by_id(path, id_field).items()}
    results = RunResults(run)
    found = {
        record.doc_id: Prediction(record.value, confidence=_confidence(record.meta)) for record in results.records()
    }
    for reject in results.rejects():
        found[reject["doc_id"]] = Prediction(None, reason=reject["reason"])
    return found


def _by_id(path: Path, id_name: str, *field: str) -> dict[str, dict[str, Any]]:
    """Records of a file by their ids: what one field holds, or the rest of the line."""
    found: dict[str, dict[str, Any]] = {}
    for row in _rows(path, id_name, *field):
        name = str(row.pop(id_name))
        value = row[field[0]] if field else row
        if name in found:
            raise InputError(f"{path} has two lines for {name!r}", hint="remove one")
        if not isinstance(value, dict):
            raise InputError(f"{path}: {field[0]} of {name!r} is no object")
        found[name] = value
    return found


def _confidence(meta: Any) -> dict[str, float]:
    entries = meta.get("confidence") or ()
    return {entry["path"]: entry["confidence"] for entry in entries}


def _rows(path: Path, *names: str) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = loads(line)
        except JsonTextError as error:
            raise InputError(f"{path}:{number} is not JSON: {error.message}") from None
        missing = [name for name in names if not isinstance(row, dict) or name not in row]
        if missing:
            raise InputError(f"{path}:{number} has no {' and no '.join(missing)}", hint="see --help for other names")
        rows.append(row)
    if not rows:
        raise InputError(f"{path} holds no line")
    return rows


def _plain(value: Any) -> Any:
    return json.loads(dumps(value))


if __name__ == "__main__":
    main()
