"""A run of the failure cases on a real local Spark with the scripted engine, and what it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from pipeline.config import RunConfig, load_config
from pipeline.run import run
from pipeline.schema import load_schema, spark_ddl
from tests.scripts import PEOPLE_SCHEMA

TEXT: dict[str, Any] = {"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]}


class Job:
    """Runs over documents given in place, and what they left."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def run(
        self, documents: Any, *, schema: Any = PEOPLE_SCHEMA, script: str = "scripts:people", **sections: Any
    ) -> Any:
        """``documents`` are texts, rows, or the bytes of a JSON Lines file. The manifest."""
        source = self.folder / "in.jsonl"
        if isinstance(documents, bytes):
            source.write_bytes(documents)
        else:
            rows = [row if isinstance(row, dict) else {"id": f"d{n}", "text": row} for n, row in enumerate(documents)]
            source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = {name: sections.pop(name) for name in ("overwrite",) if name in sections}
        return run(
            self.config(source, script, sections), spark=self.spark, schema=load_schema(schema), **options
        ).manifest

    def config(self, source: Path, script: str, sections: dict[str, Any]) -> RunConfig:
        output = {"path": str(self.folder / "out"), "report": False, "grounding": False}
        values: dict[str, Any] = {
            "input": {"path": str(source)}, "output": output | sections.pop("output", {}),
            "engine": {"kind": "scripted", "script": f"tests.{script}"},
        }  # fmt: skip
        return load_config(values | sections)

    def records(self) -> dict[str, Any]:
        return {row["doc_id"]: row["record"] for row in self._rows("records.parquet")}

    def metas(self) -> dict[str, Any]:
        return {row["doc_id"]: row["meta"] for row in self._rows("records.parquet")}

    def rejects(self) -> dict[str, str]:
        return {row["doc_id"]: row["reason"] for row in self._rows("rejects.parquet")}

    def read_lines(self, schema: Any, mode: str = "FAILFAST") -> list[Any]:
        """The lines as Spark reads them with the schema's own types."""
        ddl = f"doc_id STRING, {spark_ddl(load_schema(schema))}"
        return (
            self.spark.read.schema(ddl).option("mode", mode).json(str(self.folder / "out" / "records.jsonl")).collect()
        )

    def _rows(self, name: str) -> list[Any]:
        return list(pq.read_table(self.folder / "out" / name).to_pylist())
