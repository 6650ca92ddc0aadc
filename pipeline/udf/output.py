"""The output stage: documents with their chunks' outcomes to record, line and reject files, as ``mapInArrow``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from pipeline.output_counts import count_in, no_counts
from pipeline.schema_types import convert, field_type
from pipeline.storage import Storage
from pipeline.udf.arrow import grouped_documents
from pipeline.udf.ground import ground_record
from pipeline.udf.lines import LineFormatter
from pipeline.udf.merge import DocumentRecord, DocumentReject, merge_document
from pipeline.udf.sample import TaskSample
from pipeline.udf.stage import Stage
from pipeline.writers import (
    RECORD_LINES,
    RECORDS,
    REJECT_SCHEMA,
    REJECTS,
    LinesPart,
    ParquetPart,
    Part,
    record_schema,
    staged_path,
)

RESULT_COLUMNS = "parts string, counts string, sample string"
_RESULT_SCHEMA = pa.schema([("parts", pa.string()), ("counts", pa.string()), ("sample", pa.string())])


def output_function(
    stage: Stage, *, root: str, round_id: str, datasets: Sequence[str], num_tasks: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Batches with :data:`pipeline.udf.arrow.OUTPUT_COLUMNS` to staged files.

    Gives one row: the files and the counts of this task attempt, and what it kept for the report (null without one).
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        task = _Output(stage, Storage(root), (round_id, context.partitionId(), context.taskAttemptId()), datasets)
        if stage.config.output.report:
            task.sample = TaskSample(partition=context.partitionId(), num_tasks=num_tasks)
        for document in grouped_documents(batches):
            task.add(document)
        parts = [part.to_json() for part in task.close()]
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "parts": json.dumps(parts),
                    "counts": json.dumps(task.counts),
                    "sample": task.sample.to_json() if task.sample is not None else None,
                }
            ],
            schema=_RESULT_SCHEMA,
        )

    return run


class _Output:
    """The files of one task attempt; a file is opened with its first row."""

    def __init__(self, stage: Stage, storage: Storage, task: tuple[str, int, int], datasets: Sequence[str]) -> None:
        self._stage = stage
        self._storage = storage
        self._task = task
        self._datasets = datasets
        self._lines = LineFormatter(stage)
        self._type = field_type(stage.schema)
        self._open: dict[str, Any] = {}
        self.counts = no_counts()
        self.sample: TaskSample | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        self.counts["documents"] += 1
        outcome = merge_document(row, self._stage)
        if outcome is None:
            self.counts["missing"] += 1
            return
        if isinstance(outcome, DocumentRecord) and self._stage.config.output.reads_text:
            outcome = ground_record(outcome, row["chunks"], self._stage)
        if isinstance(outcome, DocumentRecord):
            outcome = self._record(outcome)
        if isinstance(outcome, DocumentReject):
            self._reject(outcome)
        if self.sample is not None:
            self.sample.see(outcome, row["chunks"])

    def close(self) -> list[Part]:
        parts = []
        for dataset, part in self._open.items():
            part.close()
            parts.append(Part(dataset, self._path(dataset), part.num_rows))
        return parts

    def _record(self, record: DocumentRecord) -> DocumentRecord | DocumentReject:
        """Write a record; one that the profile cannot carry is a reject instead."""
        line = self._lines.format(record)
        if isinstance(line, DocumentReject):
            return line
        self.counts["records"] += 1
        self._count(record)
        self.counts["nulled"] += record.num_nulled
        for span in record.meta["spans"] or ():
            count_in(self.counts["spans"], span["kind"])
        if RECORDS in self._datasets:
            value = {
                "doc_id": record.doc_id,
                "record": convert(self._type, record.value),
                "meta": record.meta,
            }
            self._part(RECORDS).add(value, weight=len(record.json))
        if RECORD_LINES in self._datasets:
            self._part(RECORD_LINES).add(line)
        return record

    def _reject(self, reject: DocumentReject) -> None:
        self.counts["rejects"] += 1
        self._count(reject)
        count_in(self.counts["by_reason"], reject.row["reason"])
        self._part(REJECTS).add(reject.row, weight=len(reject.row["raw_output"] or ""))

    def _count(self, outcome: DocumentRecord | DocumentReject) -> None:
        meta = outcome.meta if isinstance(outcome, DocumentRecord) else outcome.row["meta"]
        self.counts["retried"] += outcome.is_retried
        self.counts["conflicts"] += bool(meta["conflicts"])
        for name in ("num_chunks", "prompt_tokens", "output_tokens"):
            self.counts[name] += meta[name]

    def _part(self, dataset: str) -> Any:
        if dataset not in self._open:
            path = self._path(dataset)
            if dataset == RECORD_LINES:
                self._open[dataset] = LinesPart(self._storage, path)
            else:
                schema = record_schema(self._stage.schema) if dataset == RECORDS else REJECT_SCHEMA
                self._open[dataset] = ParquetPart(self._storage, path, schema)
        return self._open[dataset]

    def _path(self, dataset: str) -> str:
        return staged_path(*self._task, dataset)
