"""Compaction: fewer files, the same outcomes, and no loss when it ends half way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.compaction import compact
from pipeline.config import JournalConfig
from pipeline.data import Attempt, Chunk, Outcome, Record, Reject, RejectReason
from pipeline.journal import OUTCOMES, JournalWriter
from pipeline.plan import best_outcomes, read_outcomes
from pipeline.storage import Storage

pytestmark = pytest.mark.spark


def _outcome(number: int, *, good: bool) -> Outcome:
    chunk = Chunk(f"d{number}", 0, 1, "text", 0, 4, key=f"key{number}")
    attempts = (Attempt(1, "{}", "stop", 10, 5, 3.0),)
    if good:
        return Record(chunk, {"a": number}, f'{{"a":{number}}}', attempts, {"/a": 0.5})
    return Reject(chunk, RejectReason.TIMEOUT, "late", attempts)


@pytest.fixture
def journal(tmp_path: Path) -> Storage:
    """Ten files: five of rejects, and five of records for most of the same keys."""
    storage = Storage(str(tmp_path / "_journal"))
    for part in range(10):
        writer = JournalWriter(storage, prefix=f"r1-p{part}-t{part}", config=JournalConfig())
        for number in range(20 * (part % 5), 20 * (part % 5) + (20 if part < 5 else 15)):
            writer.add(_outcome(number, good=part >= 5))
        writer.close()
    return storage


def _best(spark: SparkSession, journal: Storage) -> list[str]:
    return sorted(map(str, best_outcomes(read_outcomes(spark, journal)).collect()))


def test_many_files_become_few_with_one_outcome_per_key(spark: SparkSession, journal: Storage) -> None:
    before = _best(spark, journal)
    assert len(before) == 100
    assert not compact(spark, journal, max_files=10)
    assert compact(spark, journal, max_files=9)
    assert len(journal.files(OUTCOMES)) == 1
    assert read_outcomes(spark, journal).count() == 100
    assert _best(spark, journal) == before
    assert not journal.exists("compacting")


def test_a_compaction_that_ended_half_way_loses_and_doubles_nothing(
    spark: SparkSession, journal: Storage, tmp_path: Path
) -> None:
    """Killed after the new file was put in place and before the old ones went; then it is done again."""
    before = _best(spark, journal)
    old = tmp_path / "old"
    shutil.copytree(tmp_path / "_journal" / OUTCOMES, old)
    compact(spark, journal, max_files=1)
    for file in old.iterdir():
        shutil.copy(file, tmp_path / "_journal" / OUTCOMES)
    assert _best(spark, journal) == before
    assert compact(spark, journal, max_files=1)
    assert len(journal.files(OUTCOMES)) == 1
    assert _best(spark, journal) == before
