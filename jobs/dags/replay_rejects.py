"""Do the rejects of a finished run again, after a change that may help them: another model server, more time.

Triggered by hand with the run's folder. Records that are there stay as they are; the results are written anew as a
whole, so that readers see the old ones or the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, Param
from extraction import RECORDS, ExtractionOperator

REASONS = [
    "INVALID_JSON",
    "MERGE_CONFLICT",
    "REFUSED_BY_ENGINE",
    "SCHEMA_MISMATCH",
    "TIMEOUT",
    "TOO_LONG",
    "TRUNCATED",
]
"""All that a replay may change. What is UNGROUNDED has a record: run the extraction again with another rule."""


def arguments(params: Mapping[str, Any]) -> list[str]:
    """What ``jobs/replay_rejects.py`` is called with."""
    return [params["output"], *(part for reason in params["reasons"] for part in ("--reason", reason))]


with DAG(
    "replay_rejects",
    description="Do the rejects of a run again",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    doc_md=__doc__,
    tags=["extraction"],
    params={
        "output": Param(type="string", minLength=1, description="folder or URI of the run; may hold {{ ds }}"),
        "reasons": Param(
            [], type="array", items={"type": "string", "enum": REASONS}, description="only these; none: all"
        ),
    },
):
    ExtractionOperator(
        task_id="replay",
        job="replay_rejects.py",
        arguments=arguments,
        name="replay_rejects",
        outlets=[RECORDS],
        max_active_tis_per_dag=1,
    )
