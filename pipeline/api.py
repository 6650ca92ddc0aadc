"""The Python entry: ``pipeline.extract(df, schema=...)`` for notebooks and programs."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipeline.errors import ConfigError
from pipeline.settings import run_config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.config import RunConfig


def extract(
    df: DataFrame,
    *,
    schema: Any,
    output: str | None = None,
    config: RunConfig | None = None,
    overwrite: bool = False,
    show: Callable[[str], None] | None = None,
    **settings: Any,
) -> DataFrame:
    """Extract one record per row of ``df`` (a text column and an id column) now, and give the results.

    The work is done once, when this returns: the result reads finished files, so caching it, counting it or joining
    it runs no model. ``schema`` is anything that :func:`pipeline.schema.load_schema` takes. ``output`` keeps the
    results and makes the same call resume; without it they live in a temporary folder until the program ends.
    ``settings``: ``model``, ``instructions``, ``examples`` (dicts with ``text`` and ``output``), ``engine_args``,
    ``dspark``, ``max_retries``, ``id_column``, ``text_column``, ``profile``, ``retry_rejects``. ``config`` holds all
    others. ``show`` gets the progress line about once a second.

    Returns:
        ``doc_id``, ``record`` (struct of the schema's types, null for rejects), ``error`` (``reason, detail``, null
        for records), ``meta`` (``key, model, attempts, prompt_tokens, output_tokens, ...``).

    Raises:
        ConfigError, InputError, EngineError, OutputError: as :func:`pipeline.run.run`.
    """
    from pipeline.readers import documents_of
    from pipeline.run import run
    from pipeline.schema import load_schema

    folder = output or _temporary_folder(df.sparkSession)
    unseen = {"formats": ["parquet"], "report": False}
    values = {"output": {"path": folder, **(unseen if output is None else {})}}
    made = run_config(config, values=values, **settings)
    documents = documents_of(df, made.input)
    result = run(
        made, spark=df.sparkSession, documents=documents, schema=load_schema(schema), overwrite=overwrite, show=show
    )
    return read_results(df.sparkSession, result.output)


def read_results(spark: SparkSession, output: str) -> DataFrame:
    """Records and rejects of a finished run as one DataFrame (see :func:`extract`)."""
    from pyspark.sql import functions as F

    from pipeline.storage import Storage
    from pipeline.writers import RECORDS, REJECTS

    storage = Storage(output)
    records = spark.read.parquet(storage.uri(RECORDS))
    rejects = spark.read.parquet(storage.uri(REJECTS))
    no_error = F.lit(None).cast("struct<reason:string,detail:string>")
    no_record = F.lit(None).cast(records.schema["record"].dataType)
    return records.select("doc_id", "record", no_error.alias("error"), "meta").unionByName(
        rejects.select("doc_id", no_record.alias("record"), F.struct("reason", "detail").alias("error"), "meta")
    )


def _temporary_folder(spark: SparkSession) -> str:
    from pipeline.session import is_local

    if not is_local(spark):
        raise ConfigError("on a cluster the results need a folder that all machines see", hint="pass output=URI")
    folder = tempfile.mkdtemp(prefix="extract-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
