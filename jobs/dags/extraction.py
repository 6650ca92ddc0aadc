"""The operator of both DAGs: submits a job of this package and tells what its run did.

The folder of the DAGs needs Airflow 3 with the Spark provider and a ``spark-submit`` on the path, whose Python has the
pipeline installed; Airflow's own Python needs nothing of the pipeline.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException

JOBS = Path(os.environ.get("SPARK_EXTRACT_JOBS") or Path(__file__).resolve().parents[1])
"""Where ``extract.py`` and ``replay_rejects.py`` are: the folder above this one, unless the DAGs were copied."""

RECORDS = Asset("extracted_records")
"""Updated by every run; the event's extra says which folder, how many records and rejects, and where the report is."""

_COUNTS = (
    "documents",
    "records",
    "rejects",
    "rejects_by_reason",
    "reject_rate",
    "resumed_documents",
    "retried_documents",
)
Arguments = Callable[[Mapping[str, Any]], list[str]]


class ExtractionOperator(SparkSubmitOperator):  # type: ignore[misc]
    """Submit ``job`` with the arguments made of the DAG's params, which may hold templates such as ``{{ ds }}``.

    Pushes ``counts``, ``report`` and ``manifest`` to XCom whenever the run wrote its manifest, also when the task then
    fails for too many rejects. That failure is final: the same documents would be rejected again. Every other one is
    retried as the DAG says, and a retry goes on where the last try stopped.

    Raises:
        AirflowFailException: more rejects than allowed.
        AirflowException: the job failed.
    """

    def __init__(self, *, job: str, arguments: Arguments, **kwargs: Any) -> None:
        super().__init__(application=str(JOBS / job), **kwargs)
        self._arguments = arguments

    def execute(self, context: Any) -> None:
        params = self._rendered(context)
        self.application_args = self._arguments(params)
        started = datetime.now(UTC).replace(microsecond=0)
        try:
            super().execute(context)
        except Exception:
            manifest = self._tell(context, params["output"], since=started)
            if manifest is None:
                raise
            raise AirflowFailException(
                f"{manifest['reject_rate']:.1%} of {manifest['documents']} documents were rejected; "
                f"see {_within(params['output'], 'report.html')}"
            ) from None
        self._tell(context, params["output"], since=started)

    def _rendered(self, context: Any) -> dict[str, Any]:
        """Params with their templates filled in. A run triggered by hand without a date gets the day it runs on."""
        run = context["dag_run"]
        day = (run.logical_date or run.run_after).strftime("%Y-%m-%d")
        values = {**context, "ds": day, "ds_nodash": day.replace("-", "")}
        return {name: self.render_template(value, values) for name, value in context["params"].items()}

    def _tell(self, context: Any, output: str, *, since: datetime) -> dict[str, Any] | None:
        """Push what the run's manifest says; None where this try wrote none."""
        place = ObjectStoragePath(_within(output, "manifest.json"))
        if not place.exists():
            return None
        manifest: dict[str, Any] = json.loads(place.read_text())
        if datetime.fromisoformat(manifest["finished_at"]) < since:
            return None
        counts = {name: manifest[name] for name in _COUNTS}
        links = {"report": _within(output, "report.html"), "manifest": _within(output, "manifest.json")}
        for key, value in {"counts": counts, **links}.items():
            context["ti"].xcom_push(key=key, value=value)
        context["outlet_events"][RECORDS].extra = {"output": output, **counts, **links}
        self.log.info("%s; report: %s", ", ".join(f"{n} {counts[n]}" for n in _COUNTS[:3]), links["report"])
        return manifest


def _within(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
