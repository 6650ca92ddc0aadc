"""Results of a finished run, read back from its output folder."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipeline.errors import InputError
from pipeline.storage import Storage
from pipeline.strict_json import JsonTextError, loads
from pipeline.writers import MANIFEST, RECORD_LINES, RECORDS, REJECTS

_SAME_VALUES = ("spark", "ascii")
"""Profiles whose lines hold the values as they were extracted."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record; ``meta`` is empty where only lines were written."""

    doc_id: str
    value: dict[str, Any]
    meta: Mapping[str, Any]


class RunResults:
    """Manifest, records and rejects below ``folder``.

    Raises:
        InputError: the folder holds no finished run.
    """

    def __init__(self, folder: str) -> None:
        self._storage = Storage(folder)
        manifest = self._storage.read(MANIFEST)
        if manifest is None:
            raise InputError(f"{folder} holds no finished run", hint="pass the --output folder of a run")
        self.folder = folder
        self.manifest: dict[str, Any] = json.loads(manifest)

    def records(self) -> Iterator[StoredRecord]:
        """Every record. Values come from the lines where these hold them unchanged, else from Parquet, whose dates
        and datetimes become ISO texts again."""
        output = self.manifest.get("settings", {}).get("output", {})
        id_field = output.get("id_field")
        has_table = self._storage.exists(RECORDS)
        if id_field and output.get("profile") in _SAME_VALUES and self._storage.exists(RECORD_LINES):
            metas = {row["doc_id"]: row["meta"] for row in self._rows(RECORDS, ["doc_id", "meta"])} if has_table else {}
            for value in self._lines():
                doc_id = str(value.pop(id_field))
                yield StoredRecord(doc_id, value, metas.get(doc_id) or {})
        elif has_table:
            for row in self._rows(RECORDS, ["doc_id", "record", "meta"]):
                yield StoredRecord(row["doc_id"], json_value(row["record"]), row["meta"])
        else:
            raise InputError(
                f"{self.folder}: the records cannot be told apart or were changed by a profile",
                hint="write them as Parquet too (--format parquet)",
            )

    def rejects(self) -> Iterator[dict[str, Any]]:
        """Every reject, with the columns of ``rejects.parquet``."""
        yield from self._rows(REJECTS, None)

    def _rows(self, dataset: str, columns: list[str] | None) -> Iterator[dict[str, Any]]:
        import pyarrow.parquet as pq

        for file in self._storage.files(dataset):
            with self._storage.open_input_file(file.path) as source:
                for batch in pq.ParquetFile(source).iter_batches(columns=columns):
                    yield from batch.to_pylist()

    def _lines(self) -> Iterator[dict[str, Any]]:
        for file in self._storage.files(RECORD_LINES):
            data = self._storage.read(file.path)
            assert data is not None
            for number, line in enumerate(data.decode("utf-8").split("\n"), start=1):
                if line.strip():
                    try:
                        yield loads(line)
                    except JsonTextError as error:
                        raise InputError(f"{file.path}:{number} is not JSON: {error.message}") from None


def json_value(value: Any) -> Any:
    """A value from Arrow as a JSON value: maps as objects, dates and times as ISO text, absent fields left out."""
    if isinstance(value, Mapping):
        return {name: json_value(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(name): json_value(item) for name, item in value}
        return [json_value(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
