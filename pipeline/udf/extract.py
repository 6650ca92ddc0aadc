"""The GPU stage: chunks of one partition through this worker's engine into the journal (``mapInArrow``)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from pipeline.data import Chunk, Outcome, Record, Reject, RejectReason, is_retried
from pipeline.extractor import Extractor
from pipeline.journal import JournalWriter, keys_of
from pipeline.markers import Marker, Suspicion, combine, read_markers
from pipeline.metrics import FOLDER as PROGRESS
from pipeline.metrics import Counts
from pipeline.storage import Storage
from pipeline.udf.arrow import chunks_of
from pipeline.udf.merge import merge_halves, unite_of
from pipeline.udf.stage import Stage
from pipeline.udf.worker import LoadedEngine, engine_of

logger = logging.getLogger(__name__)

RESULT_COLUMNS = "partition int, counts binary"
RESULT_SCHEMA = pa.schema([("partition", pa.int32()), ("counts", pa.binary())])
GROUP_SIZE = 32
"""Texts of one marker (:mod:`pipeline.markers`)."""
_PROGRESS_INTERVAL_S = 1.0


@dataclass(frozen=True)
class ExtractTask:
    """What each task of the stage gets. ``judge_attempts`` is off where two attempts can live at the same time."""

    stage: Stage
    journal_root: str
    round_id: str
    suspects: Mapping[str, Suspicion] = field(default_factory=dict)
    judge_attempts: bool = True


def extract_function(task: ExtractTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Batches with :data:`pipeline.udf.arrow.CHUNK_COLUMNS` to one row of counts; outcomes go to the journal only."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        work = _Work(task, context.partitionId(), context.attemptNumber(), context.taskAttemptId())
        counts = work.run(chunks_of(batches))
        yield pa.RecordBatch.from_pylist(
            [{"partition": context.partitionId(), "counts": counts.to_json()}], schema=RESULT_SCHEMA
        )

    return run


def extractor_of(stage: Stage, loaded: LoadedEngine) -> Extractor:
    """The loop over a loaded engine."""
    config = stage.config
    return Extractor(
        loaded.engine,
        prompter=stage.prompting,
        validator=stage.output_validator,
        grammar=stage.grammar,
        decoding=config.decoding,
        split=stage.halve,
        merge=lambda values: merge_halves(stage, values),
        unite=unite_of(stage),
        stall_timeout_s=config.engine.stall_timeout_s,
        document_timeout_s=config.engine.document_timeout_s,
        max_in_flight=config.engine.max_in_flight,
        confidence=config.output.confidence,
    )


class _Work:
    """One task attempt: reads chunks, keeps markers, journals outcomes, reports progress."""

    def __init__(self, task: ExtractTask, partition: int, attempt_number: int, attempt_id: int) -> None:
        self._task = task
        self._storage = Storage(task.journal_root)
        self._skip: set[str] = set()
        self._suspects = dict(task.suspects)
        prefix = f"{task.round_id}-p{partition:05d}"
        if attempt_number > 0:
            self._skip = keys_of(self._storage, prefix=f"{prefix}-")
            if task.judge_attempts:
                self._suspects = combine(self._suspects, read_markers(self._storage, prefix=f"{prefix}-"))
        self._name = f"{prefix}-t{attempt_id}"
        self._marker = Marker(self._storage, prefix=self._name)
        self._alone: list[Chunk] = []
        self._counts = Counts()
        self._progress_s = 0.0

    def run(self, chunks: Iterable[Chunk]) -> Counts:
        journal = JournalWriter(self._storage, prefix=self._name, config=self._task.stage.config.journal)
        try:
            source = self._grouped(chunks, journal)
            first = next(source, None)
            if first is not None or self._alone:
                with engine_of(self._task.stage) as loaded:
                    self._drive(first, source, loaded, journal)
        finally:
            self._marker.close()
            journal.close()  # outcomes that are done stay done, whatever ended the loop
        self._counts.journal_files, self._counts.journal_s = journal.num_files, journal.write_s
        self._report()
        logger.info("%s: %d outcomes in %.1f s", self._name, self._counts.done, self._counts.busy_s)
        return self._counts

    def _drive(
        self, first: Chunk | None, source: Iterator[Chunk], loaded: LoadedEngine, journal: JournalWriter
    ) -> None:
        started = time.monotonic()
        stage, before = self._task.stage, loaded.engine.counters()
        self._counts.engine_id, self._counts.device = loaded.instance_id, loaded.device
        self._counts.load_s = loaded.load_s
        if first is not None:
            for outcome in extractor_of(stage, loaded).run(_chain(first, source)):
                self._take(outcome, journal, loaded, before, started)
        for chunk in self._alone:  # one run each: the outcome of one is taken before the next is touched
            self._marker.start([chunk.key], alone=True)
            for outcome in extractor_of(stage, loaded).run([chunk]):
                self._take(outcome, journal, loaded, before, started)

    def _grouped(self, chunks: Iterable[Chunk], journal: JournalWriter) -> Iterator[Chunk]:
        """Chunks to submit; each group's marker is written before its first chunk is given out."""
        group: list[Chunk] = []
        for chunk in chunks:
            if chunk.key in self._skip:
                continue
            suspicion = self._suspects.get(chunk.key)
            if suspicion is None:
                group.append(chunk)
                if len(group) == GROUP_SIZE:
                    self._marker.start([c.key for c in group])
                    yield from group
                    group = []
            elif suspicion.is_guilty:
                detail = f"the engine died {suspicion.num_failures} times while it worked on this text"
                self._note(Reject(chunk, RejectReason.REFUSED_BY_ENGINE, detail), journal)
            else:
                self._alone.append(chunk)
        if group:
            self._marker.start([c.key for c in group])
            yield from group

    def _take(
        self,
        outcome: Outcome,
        journal: JournalWriter,
        loaded: LoadedEngine,
        before: Mapping[str, float],
        started: float,
    ) -> None:
        self._note(outcome, journal)
        self._marker.finish(outcome.chunk.key)
        now = time.monotonic()
        self._counts.busy_s = now - started
        if now - self._progress_s >= _PROGRESS_INTERVAL_S:
            self._progress_s = now
            self._count_engine(loaded, before)
            self._report()

    def _note(self, outcome: Outcome, journal: JournalWriter) -> None:
        journal.add(outcome)
        counts = self._counts
        if isinstance(outcome, Record):
            counts.records += 1
        else:
            counts.rejects += 1
        counts.retried += is_retried(outcome.attempts)
        for attempt in outcome.attempts:
            counts.prompt_tokens += attempt.prompt_tokens
            counts.output_tokens += attempt.output_tokens

    def _count_engine(self, loaded: LoadedEngine, before: Mapping[str, float]) -> None:
        after = loaded.engine.counters()
        self._counts.engine = {name: value - before.get(name, 0.0) for name, value in after.items()}

    def _report(self) -> None:
        self._storage.write(f"{PROGRESS}/{self._name}.json", self._counts.to_json(), durable=False)


def _chain(first: Chunk, rest: Iterator[Chunk]) -> Iterator[Chunk]:
    yield first
    yield from rest
