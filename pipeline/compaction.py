"""Folds the journal's many small files into few large ones, one outcome per key.

On paper, one billion outcomes of 300 bytes (compressed) are 300 GB: 1,200 files of 256 MB, out of 100,000 that a run on
1,000 GPUs leaves with the settings that :mod:`pipeline.journal` names for it. The shuffle takes the cluster's CPUs
minutes; what the driver does alone is to list the files (100 requests of 1,000 names) and to delete them, 16 at a time,
which at 20 ms each is two minutes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pipeline.journal import OUTCOMES
from pipeline.plan import best_outcomes, read_outcomes
from pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

MAX_FILES = 1000
_BYTES_PER_FILE = 256 << 20
_FOLDER = "compacting"


def compact(spark: SparkSession, journal: Storage, *, max_files: int = MAX_FILES) -> bool:
    """Compact where there are more than ``max_files`` files; True where it did. No task may write meanwhile.

    New files are in place before old ones go, so a crash leaves outcomes twice, which reading takes once.

    Raises:
        OutputError: the journal cannot be written; it is left complete.
    """
    files = journal.files(OUTCOMES)
    if len(files) <= max_files:
        return False
    from pyspark.sql import functions as F

    num_new = max(1, sum(file.size_bytes for file in files) // _BYTES_PER_FILE)
    outcomes = read_outcomes(spark, journal)
    first = outcomes.groupBy("key").agg(F.min("finished_at").alias("finished_at"))
    best = best_outcomes(outcomes).select("key", "outcome.*").join(first, "key")
    columns = [field.name for field in outcomes.schema.fields]
    journal.delete(_FOLDER)
    best.select(*columns).repartition(num_new, "key").write.parquet(journal.uri(_FOLDER))
    journal.move_all((file.path, f"{OUTCOMES}/compact-{file.name}") for file in journal.files(_FOLDER))
    journal.delete_all(file.path for file in files)
    journal.delete(_FOLDER)
    logger.info("compacted %d journal files into %d", len(files), num_new)
    return True
