"""Sources of documents as one DataFrame: ``position, doc_id, text, metadata, reason, detail``.

``text`` is null where ``reason`` says why: bytes that are no UTF-8, lines that are no JSON, values that are no text.
Nothing is replaced silently and no line is lost. What is wrong with the source as a whole (missing path, missing
column, unknown format) is raised on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.config import InputConfig, InputFormat
from pipeline.data import RejectReason
from pipeline.errors import InputError
from pipeline.input_source import InputSource, find_source, require_columns
from pipeline.sources import SPLIT_BYTES, Read, SourceFile, read_function
from pipeline.udf.arrow import DOCUMENT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POSITION = "_extract_position"


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to documents next: a function of batches, and the columns that it gives."""

    function: Read
    columns: str


def read_documents(spark: SparkSession, config: InputConfig) -> DataFrame:
    """The documents of a source; at most ``config.limit`` of them, the first ones.

    Raises:
        ConfigError, InputError: as :func:`read_through`.
    """
    return read_through(spark, config, None)


def read_through(
    spark: SparkSession, config: InputConfig, step: Step | None, *, source: InputSource | None = None
) -> DataFrame:
    """The documents of a source after one more step, in the Python workers that read them where that is possible.

    ``source`` is what :func:`pipeline.input_source.find_source` found already.

    Raises:
        ConfigError: no path, unknown format, unknown column, a format whose library is not installed.
        InputError: the path is missing or cannot be read.
    """
    source = source or find_source(config)
    if source is None:
        assert config.path is not None
        if config.format == "table" or _table_exists(spark, config.path):
            return apply_step(documents_of(_table(spark, config.path), config), step)
        if not Path(config.path).exists():
            raise InputError(f"there is no table and no path {config.path!r}", hint="pass another --input")
        source = find_source(config, may_be_table=False)
        assert source is not None
    if source.kind == "parquet":
        return apply_step(documents_of(_parquet(spark, str(config.path)), config), step)
    return _from_files(spark, config, source, step)


def apply_step(documents: DataFrame, step: Step | None) -> DataFrame:
    """One more step over documents; none changes nothing."""
    return documents if step is None else documents.mapInArrow(step.function, step.columns)


def documents_of(frame: DataFrame, config: InputConfig) -> DataFrame:
    """Documents of any DataFrame. Text must be string or binary; other rows' faults become reasons.

    Raises:
        ConfigError: the id column or the text column is missing.
        InputError: the text column is neither string nor binary.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType

    id_column = require_columns(frame.columns, config)
    kind = frame.schema[config.text_column].dataType
    if not isinstance(kind, StringType | BinaryType):
        raise InputError(
            f"column {config.text_column!r} is {kind.simpleString()}, expected string or binary",
            hint="pass --text-column",
        )
    if config.limit is not None:
        frame = frame.limit(config.limit)
    text, doc_id = F.col(f"`{config.text_column}`"), F.col(f"`{id_column}`").cast("string")
    valid = F.is_valid_utf8(text.cast("string"))
    position = F.col(_POSITION)
    no_id, bad = doc_id.isNull(), text.isNotNull() & ~valid
    undecodable = F.lit(str(RejectReason.UNDECODABLE_INPUT))
    # numbered first: an expression inside coalesce would only count the rows for which it is looked at
    return frame.withColumn(_POSITION, F.monotonically_increasing_id()).select(
        position.alias("position"),
        F.coalesce(doc_id, F.concat(F.lit("row:"), position.cast("string"))).alias("doc_id"),
        F.when(valid & ~no_id, text.cast("string")).alias("text"),
        F.create_map().cast("map<string,string>").alias("metadata"),
        F.when(no_id | bad, undecodable).alias("reason"),
        F.when(no_id, F.lit(f"column {id_column} is null")).when(bad, F.lit("not UTF-8 text")).alias("detail"),
    )


def _from_files(spark: SparkSession, config: InputConfig, source: InputSource, step: Step | None) -> DataFrame:
    function = read_function(
        source.kind, id_column=source.id_column, text_column=config.text_column, limit=config.limit
    )
    found = _parts(spark, source.files, source.kind)
    num_parts = _num_tasks(spark, found)
    rows = [(index, index * num_parts // len(found), *part) for index, part in enumerate(found)]
    schema = "index int, task int, uri string, name string, start long, stop long, first_line long"
    parts = spark.createDataFrame(rows, schema).repartitionById(num_parts, "task")
    if step is not None and (config.limit is None or num_parts == 1):  # one Python worker does both
        return parts.mapInArrow(_composed(function, step.function), step.columns)
    documents = parts.mapInArrow(function, DOCUMENT_COLUMNS)
    if config.limit is not None:
        documents = documents.orderBy("position").limit(config.limit)
    return apply_step(documents, step)


def _num_tasks(spark: SparkSession, parts: list[tuple[Any, ...]]) -> int:
    """Tasks that read: enough for all cores, each with at most 64 MB, however many small files there are."""
    num_bytes = sum(min(stop - start, SPLIT_BYTES) for _, _, start, stop, _ in parts)
    wanted = max(2 * int(spark.sparkContext.defaultParallelism), num_bytes // SPLIT_BYTES + 1)
    return int(max(1, min(len(parts), wanted)))


def _composed(first: Read, second: Read) -> Read:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return second(first(batches))

    return run


def _parts(spark: SparkSession, files: Sequence[SourceFile], kind: InputFormat) -> list[tuple[Any, ...]]:
    """(uri, name, start, stop, first line) of each part; only JSON Lines files are split, and only large ones."""
    from pipeline.sources import count_function, split_file

    if kind != "jsonl":
        return [(f.uri, f.name, 0, f.size_bytes, 1) for f in files]
    parts = [(f.uri, f.name, *span) for f in files for span in split_file(f)]
    if len(parts) == len(files):
        return [(*part, 1) for part in parts]
    schema = "index int, uri string, name string, start long, stop long"
    frame = spark.createDataFrame([(i, *part) for i, part in enumerate(parts)], schema)
    counted = frame.repartitionById(len(parts), "index").mapInArrow(count_function(), "index int, lines long").collect()
    lines = {row["index"]: row["lines"] for row in counted}
    numbered, uri, line = [], "", 1
    for index, part in enumerate(parts):
        line = 1 if part[0] != uri else line
        numbered.append((*part, line))
        uri, line = part[0], line + lines[index]
    return numbered


def _table_exists(spark: SparkSession, name: str) -> bool:
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:  # a name that Spark cannot parse is no table; what it raises differs by catalog
        return False


def _table(spark: SparkSession, name: str) -> DataFrame:
    if not _table_exists(spark, name):
        raise InputError(f"there is no table {name!r}", hint="pass a table, or a path with --input-format")
    return spark.table(name)


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return spark.read.parquet(path)
    except (PySparkException, Py4JError) as error:
        raise InputError(f"cannot read {path} as Parquet: {str(error).strip().splitlines()[0]}") from None
