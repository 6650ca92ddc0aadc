"""One extraction per logical date: each day's documents into each day's folder.

Idempotent per date. A cleared or repeated run of a day goes on in that day's folder: what is done is not done again and
no record is written twice. A day whose settings changed is refused until ``--overwrite`` is among the ``arguments``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param
from extraction import JOBS, RECORDS, ExtractionOperator

DATA = os.environ.get("SPARK_EXTRACT_DATA", "/data")
_OPTIONS = (
    "input", "input_format", "id_column", "text_column", "schema", "output", "model", "examples", "instructions",
    "config", "profile", "max_reject_rate",
)  # fmt: skip
_TEXT = ["string", "null"]


def arguments(params: Mapping[str, Any]) -> list[str]:
    """What ``jobs/extract.py`` is called with."""
    given = [(name, params[name]) for name in _OPTIONS if params[name] not in (None, "")]
    options = [part for name, value in given for part in (f"--{name.replace('_', '-')}", str(value))]
    return [*options, *params["arguments"]]


with DAG(
    "extract_daily",
    description="One typed, validated record per document, a day at a time",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    doc_md=__doc__,
    tags=["extraction"],
    params={
        "input": Param(f"{DATA}/documents/{{{{ ds }}}}", type="string", description="file, folder, glob, URI or table"),
        "output": Param(
            f"{DATA}/records/{{{{ ds }}}}", type="string", description="a folder or URI of its own per day"
        ),
        "schema": Param(
            str(JOBS.parent / "schemas/orders.py:CustomerOrders"),
            type="string",
            description="FILE.py:Class, package.module:Class or FILE.json",
        ),
        "model": Param("demo", type="string", description="demo, a hub id or a model folder"),
        "input_format": Param(None, type=_TEXT, description="jsonl, parquet, csv, table, text, pdf, html or docx"),
        "id_column": Param(None, type=_TEXT, description="column that names a document"),
        "text_column": Param(None, type=_TEXT, description="column with the text"),
        "examples": Param(None, type=_TEXT, description="few-shot examples, a JSON Lines file"),
        "instructions": Param(None, type=_TEXT, description="text or @FILE"),
        "config": Param(None, type=_TEXT, description="YAML file with all finer settings"),
        "profile": Param(None, type=_TEXT, description="form of records.jsonl: spark, java, kettle, ascii"),
        "max_reject_rate": Param(
            0.2, type=["number", "null"], minimum=0, maximum=1, description="the task fails above"
        ),
        "arguments": Param([], type="array", items={"type": "string"}, description="any other options of the job"),
    },
):
    ExtractionOperator(
        task_id="extract",
        job="extract.py",
        arguments=arguments,
        name="extract_{{ ds }}",
        outlets=[RECORDS],
        max_active_tis_per_dag=1,  # one extraction fills the GPUs; the days of a backfill take turns
    )
