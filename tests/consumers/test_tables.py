"""Spark, pandas, polars and DuckDB read both outputs of the spark profile back as the same records."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipeline.field_types import FieldType, infer
from pipeline.profiles import load_profile
from pipeline.schema import Schema, spark_ddl, to_arrow_value
from pipeline.storage import Storage
from pipeline.writers import LinesPart, ParquetPart, record_schema
from tests.consumers.shipment import shipment_schema, shipments
from tests.test_profiles import SAMPLE_SETS, sample_records

SETS = [*SAMPLE_SETS, "shipment"]
META = {
    "key": "k", "model": "m", "num_chunks": 1, "attempts": 1, "prompt_tokens": 1, "output_tokens": 1,
    "finish_reason": "stop", "latency_ms": 1.0, "conflicts": [],
}  # fmt: skip


class Output:
    """Both outputs of one set on disk, and what they must read as: plain values by document id."""

    def __init__(self, folder: Path, name: str) -> None:
        self.schema: Schema = shipment_schema()
        records: list[tuple[str, Any]] = [(f"s-{number}", value) for number, value in enumerate(shipments())]
        if name != "shipment":
            self.schema, records = sample_records(name)
        self.type = infer(self.schema.json_schema)
        self.lines, self.parquet = folder / "records.jsonl", folder / "records.parquet"
        profile = load_profile("spark", self.schema.json_schema)
        storage = Storage(str(folder))
        lines = LinesPart(storage, "records.jsonl/part-0.jsonl")
        rows = ParquetPart(storage, "records.parquet/part-0.parquet", record_schema(self.schema))
        for doc_id, value in records:
            lines.add(str(profile.to_line(doc_id, "doc_id", value)))
            rows.add({"doc_id": doc_id, "record": to_arrow_value(self.schema, value), "meta": META}, weight=100)
        lines.close()
        rows.close()
        self.expected = {doc_id: plain(self.type, value) for doc_id, value in records}

    def check(self, rows: list[dict[str, Any]], *, record: bool) -> None:
        """Rows as dicts, ``record`` where the fields lie in a column of that name."""
        seen = {row["doc_id"]: plain(self.type, row["record"] if record else row) for row in rows}
        assert seen == self.expected


@pytest.fixture(scope="module", params=SETS)
def output(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Output:
    return Output(tmp_path_factory.mktemp(str(request.param)), str(request.param))


def plain(type_: FieldType, value: Any) -> Any:
    """A value from any reader in one comparable form: instants, Decimals, floats, lists, dicts; NaN is null."""
    if (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NaTType", "NAType")
    ):
        return None
    if type_.kind == "struct":
        return {f.name: plain(f.type, value.get(f.name)) for f in type_.fields}
    if type_.kind == "list":
        assert type_.item is not None
        return [plain(type_.item, item) for item in list(value)]
    convert: dict[str, Callable[[Any], Any]] = {
        "integer": _integer, "number": float, "decimal": lambda v: Decimal(str(v)), "boolean": bool, "string": str,
        "date": _day, "timestamp": _instant,
    }  # fmt: skip
    return convert[type_.kind](value)


def _integer(value: Any) -> int:
    assert int(value) == value
    return int(value)


def _day(value: Any) -> date:
    if isinstance(value, datetime):  # pandas and DuckDB may give midnight
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(str(value)[:10])


def _instant(value: Any) -> datetime:
    """Milliseconds matter here; a time without zone is what a reader in UTC gives."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    moment = datetime.fromisoformat(moment.isoformat())  # pandas' Timestamp as plain datetime
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@pytest.fixture(scope="module")
def session() -> Any:
    pyspark = pytest.importorskip("pyspark.sql")
    builder = pyspark.SparkSession.builder.master("local[1]").appName("consumers")
    options = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "1"}
    return builder.config(map=options).getOrCreate()


def spark_rows(frame: Any) -> list[dict[str, Any]]:
    """Rows as dicts; PySpark gives instants in this machine's time without saying so, which is undone here."""
    rows: list[dict[str, Any]] = _with_zone([row.asDict(recursive=True) for row in frame.collect()])
    return rows


def _with_zone(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_zone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_zone(item) for item in value]
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["PERMISSIVE", "FAILFAST"])
def test_spark_reads_lines_with_the_schema(session: Any, output: Output, mode: str) -> None:
    reader = session.read.schema(f"doc_id STRING, {spark_ddl(output.schema)}").option("mode", mode)
    output.check(spark_rows(reader.json(str(output.lines))), record=False)


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["PERMISSIVE", "FAILFAST"])
def test_spark_reads_lines_without_a_schema_and_finds_nothing_corrupt(session: Any, output: Output, mode: str) -> None:
    frame = session.read.option("mode", mode).json(str(output.lines))
    assert "_corrupt_record" not in frame.columns
    output.check(spark_rows(frame), record=False)


@pytest.mark.spark
def test_spark_reads_parquet_with_the_same_types_as_the_schema(session: Any, output: Output) -> None:
    frame = session.read.parquet(str(output.parquet))
    output.check(spark_rows(frame), record=True)
    lines = session.read.schema(f"doc_id STRING, {spark_ddl(output.schema)}").json(str(output.lines))
    assert frame.select("doc_id", "record.*").exceptAll(lines).count() == 0
    assert lines.exceptAll(frame.select("doc_id", "record.*")).count() == 0


def test_pandas_reads_both(output: Output) -> None:
    pandas = pytest.importorskip("pandas")
    file = str(next(output.lines.iterdir()))
    frame = pandas.read_json(file, lines=True, dtype=False, convert_dates=False, precise_float=True)
    output.check(frame.to_dict("records"), record=False)
    output.check(pandas.read_parquet(output.parquet).to_dict("records"), record=True)


def test_polars_reads_both(output: Output) -> None:
    polars = pytest.importorskip("polars")
    file = str(next(output.lines.iterdir()))
    output.check(polars.read_ndjson(file, infer_schema_length=None).to_dicts(), record=False)
    output.check(polars.read_parquet(f"{output.parquet}/*.parquet").to_dicts(), record=True)


def test_duckdb_reads_both(output: Output) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for source, record in (
            (f"read_json('{output.lines}/*', format = 'newline_delimited', sample_size = -1)", False),
            (f"read_parquet('{output.parquet}/*.parquet')", True),
        ):
            table = connection.execute(f"SELECT * FROM {source}")
            names = [column[0] for column in table.description]
            output.check([dict(zip(names, row, strict=True)) for row in table.fetchall()], record=record)
