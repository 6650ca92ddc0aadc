"""Extraction as a column: an iterator pandas UDF over the same loop and the same worker engine as the job.

For notebooks and SQL. It journals nothing: Spark may evaluate a column again, and then the engine works again. Prefer
:func:`pipeline.extract` where the work is worth keeping. Locally one engine works at a time, so repartition to one
partition, or Spark's other tasks wait for it in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from pipeline.config import RunConfig
from pipeline.data import Chunk, RejectReason
from pipeline.journal import outcome_row
from pipeline.schema import arrow_type, load_schema, to_arrow_value
from pipeline.session import engine_pool, with_package
from pipeline.settings import run_config
from pipeline.udf.chunk import split_text
from pipeline.udf.extract import extractor_of
from pipeline.udf.ground import ground_record
from pipeline.udf.merge import DocumentRecord, merge_document
from pipeline.udf.stage import Stage, build_stage
from pipeline.udf.worker import engine_of
from pipeline.writers import META_TYPE

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

_ERROR_TYPE = pa.struct([("reason", pa.string()), ("detail", pa.string())])


def extract_udf(schema: Any, *, config: RunConfig | None = None, **settings: Any) -> ExtractUdf:
    """A column function from text to ``struct<record, error, meta>``, rows in order; exactly one of the first two set.

    ``schema`` and ``settings`` are those of :func:`pipeline.extract`: ``model``, ``instructions``, ``examples``,
    ``engine_args``, ``dspark``.

    Raises:
        ConfigError: anything that is wrong with the settings; no model is loaded here.
    """
    stage = build_stage(run_config(config, **settings), schema=load_schema(schema))
    return ExtractUdf(stage)


class ExtractUdf:
    """What :func:`extract_udf` gives: call it with a column, or :meth:`register` it for SQL.

    It has the attributes of a PySpark UDF, so ``spark.udf.register(name, udf)`` takes it too.
    """

    def __init__(self, stage: Stage) -> None:
        from pyspark.sql.functions import pandas_udf

        self._key_variable = stage.config.engine.api_key_env
        made = pandas_udf(column_function(stage), result_type(stage))
        self._udf = made.asNondeterministic()  # Spark must not copy the call into every use of the column
        self.func = self._udf.func
        self.returnType = self._udf.returnType
        self.evalType = self._udf.evalType
        self.deterministic = False

    def __call__(self, column: Column | str) -> Column:
        with engine_pool(with_package(_session()), key_variable=self._key_variable):
            return self._udf(column)

    def asNondeterministic(self) -> ExtractUdf:
        return self

    def register(self, spark: SparkSession, name: str) -> None:
        """Make the function known to SQL: ``select name(text) from documents``."""
        with engine_pool(with_package(spark), key_variable=self._key_variable):
            spark.udf.register(name, self._udf)


def result_type(stage: Stage) -> DataType:
    """``struct<record, error, meta>`` with every field nullable, as either of the first two is null."""
    from pyspark.sql.pandas.types import from_arrow_type

    whole = pa.struct([("record", arrow_type(stage.schema)), ("error", _ERROR_TYPE), ("meta", META_TYPE)])
    return _nullable(from_arrow_type(whole, prefer_timestamp_ntz=True))


def _nullable(kind: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType), True) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _nullable(kind.valueType), True)
    return kind


def column_function(stage: Stage) -> Callable[[Iterator[pd.Series]], Iterator[pd.DataFrame]]:
    """Series of texts to frames of ``record, error, meta``; the engine stays full across series."""

    def run(batches: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
        work = _Column(stage)
        first = next(iter(batches), None)
        if first is None:
            return
        with engine_of(stage) as loaded:
            for outcome in extractor_of(stage, loaded).run(work.chunks(_chain(first, batches))):
                work.take(outcome.chunk, outcome_row(outcome, now_us=0))
                yield from work.finished()
        yield from work.finished()

    run.__annotations__ = {"batches": Iterator[pd.Series], "return": Iterator[pd.DataFrame]}
    return run


@dataclass(slots=True)
class _Row:
    """One document on its way: its chunks with the outcomes that have come."""

    chunks: list[dict[str, Any]]
    num_waiting: int


@dataclass(slots=True)
class _Batch:
    rows: list[_Row] = field(default_factory=list)
    num_waiting: int = 0


class _Column:
    """Keeps documents in order while their outcomes come in any order."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._batches: deque[_Batch] = deque()
        self._waiting: dict[str, tuple[_Batch, _Row]] = {}
        self._num_rows = 0
        self._type = arrow_type(stage.schema)

    def chunks(self, batches: Iterable[pd.Series]) -> Iterator[Chunk]:
        for series in batches:
            batch = _Batch()
            self._batches.append(batch)
            pieces = [piece for text in series for piece in self._enter(text, batch)]
            yield from pieces

    def take(self, chunk: Chunk, outcome: dict[str, Any]) -> None:
        batch, row = self._waiting[chunk.doc_id]
        row.chunks[chunk.index]["outcome"] = outcome
        row.num_waiting -= 1
        if row.num_waiting == 0:
            del self._waiting[chunk.doc_id]
            batch.num_waiting -= 1

    def finished(self) -> Iterator[pd.DataFrame]:
        """Frames of the batches at the head that are complete."""
        while self._batches and self._batches[0].num_waiting == 0:
            yield self._frame(self._batches.popleft().rows)

    def _enter(self, text: Any, batch: _Batch) -> list[Chunk]:
        if not isinstance(text, str) or not text.replace("\x00", " ").strip():
            reason = {"reason": str(RejectReason.EMPTY_INPUT), "detail": "the document has no text"}
            batch.rows.append(_Row([_chunk_row(Chunk("", 0, 1, "", 0, 0, "")) | reason | {"key": None}], 0))
            return []
        doc_id = str(self._num_rows)
        self._num_rows += 1
        pieces = split_text(self._stage, doc_id, text)
        row = _Row([_chunk_row(piece) for piece in pieces], len(pieces))
        batch.rows.append(row)
        batch.num_waiting += 1
        self._waiting[doc_id] = (batch, row)
        return pieces

    def _frame(self, rows: list[_Row]) -> pd.DataFrame:
        records: list[Any] = []
        errors: list[dict[str, Any] | None] = []
        metas: list[dict[str, Any]] = []
        for row in rows:
            outcome = merge_document({"doc_id": "", "chunks": row.chunks}, self._stage)
            assert outcome is not None, "a finished batch has all outcomes"
            if isinstance(outcome, DocumentRecord) and self._stage.config.output.reads_text:
                outcome = ground_record(outcome, row.chunks, self._stage)
            if isinstance(outcome, DocumentRecord):
                records.append(to_arrow_value(self._stage.schema, outcome.value))
                errors.append(None)
                metas.append(outcome.meta)
            else:
                records.append(None)
                errors.append({"reason": outcome.row["reason"], "detail": outcome.row["detail"]})
                metas.append(outcome.row["meta"])
        # plain Python values: a pandas column would turn integers with nulls into floats and dates into nanoseconds
        values = pa.array(records, type=self._type).to_pylist(maps_as_pydicts="strict")
        return pd.DataFrame(
            {name: pd.Series(v, dtype=object) for name, v in (("record", values), ("error", errors), ("meta", metas))}
        )


def _chunk_row(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_index": chunk.index,
        "char_start": chunk.char_start,
        "char_end": chunk.char_end,
        "key": chunk.key,
        "text": chunk.text,
        "reason": None,
        "detail": None,
        "outcome": None,
    }


def _chain(first: pd.Series, rest: Iterator[pd.Series]) -> Iterator[pd.Series]:
    yield first
    yield from rest


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()
