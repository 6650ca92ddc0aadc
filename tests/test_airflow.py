"""The DAGs in a real Airflow against a real local Spark: failure, rerun, backfill, replay, and once the demo model."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.airflow_home import AirflowHome
from tests.scripts import PEOPLE_SCHEMA

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
SAMPLES = Path(__file__).resolve().parents[1] / "pipeline" / "samples"
DAYS = ("2026-03-01", "2026-03-02", "2026-03-03")

SCRIPT = """
import json
import time
from pathlib import Path


def people(text, attempt):
    with Path({folder!r}, "asked").open("a") as stream:
        stream.write(text + "\\n")
    if text.startswith("Slow"):
        time.sleep(0.25)
    if "bad" in text and not Path({folder!r}, "mended").exists():
        return "{{}}"
    name, _, age = text.partition(" ")
    return json.dumps({{"name": name, "age": int(age) if age.isdigit() else None}})
"""

CONSUMER = """
from datetime import datetime

from airflow.sdk import DAG, Asset, task

STARTS = datetime(2026, 1, 1)

with DAG("consumer", schedule=[Asset("extracted_records")], start_date=STARTS, is_paused_upon_creation=False):

    @task
    def folders(triggering_asset_events):
        return [event.extra["output"] for events in triggering_asset_events.values() for event in events]

    folders()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> AirflowHome:
    folder = tmp_path_factory.mktemp("airflow")
    started = time.monotonic()
    made = AirflowHome(folder)
    print(f"Airflow ready in {time.monotonic() - started:.0f} s")
    (made.dags / "consumer.py").write_text(CONSUMER)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "airflow_script.py").write_text(SCRIPT.format(folder=str(folder)))
    (folder / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    (folder / "run.yaml").write_text("engine: {kind: scripted, script: 'airflow_script:people'}\n")
    slow = "engine: {kind: scripted, script: 'airflow_script:people', max_in_flight: 2}\n"
    (folder / "slow.yaml").write_text(slow + "journal: {flush_interval_s: 0.5}\n")
    (folder / "in").mkdir()
    for day in DAYS:
        rows = [{"id": f"{day}-{n}", "text": text} for n, text in enumerate((f"Ann {day[-2:]}", f"bad {day}", "Cy 4"))]
        (folder / "in" / f"{day}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def params(home: AirflowHome, **changes: Any) -> dict[str, Any]:
    return {
        "input": f"{home.folder}/in/{{{{ ds }}}}.jsonl",
        "output": f"{home.folder}/out/{{{{ ds }}}}",
        "schema": f"{home.folder}/people.json",
        "config": f"{home.folder}/run.yaml",
    } | changes


def manifest(home: AirflowHome, day: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((home.folder / "out" / day / "manifest.json").read_text())
    return loaded


def doc_ids(home: AirflowHome, day: str) -> Counter[str]:
    files = sorted((home.folder / "out" / day / "records.jsonl").glob("*.jsonl"))
    return Counter(json.loads(line)["doc_id"] for file in files for line in file.read_text().splitlines())


def asked(home: AirflowHome, text: str) -> int:
    file = home.folder / "asked"
    return file.read_text().splitlines().count(text) if file.exists() else 0


def test_too_many_rejects_fail_the_task_and_a_rerun_resumes_without_duplicates(home: AirflowHome) -> None:
    day = DAYS[0]
    state, said = home.test_dag("extract_daily", day, params(home, max_reject_rate=0.2))
    assert state == "failed", said[-3000:]
    assert "33.3% of 3 documents were rejected" in said
    told = home.xcoms("extract_daily", day)
    assert told["counts"] | {"documents": 3, "records": 2, "rejects": 1} == told["counts"]
    assert told["report"] == f"{home.folder}/out/{day}/report.html"
    assert Path(told["report"]).exists()
    tries = home.rows("select max(try_number) from task_instance where dag_id = 'extract_daily'")
    assert tries == [(1,)], "the same documents would be rejected again"
    assert home.events() == []

    state, said = home.test_dag("extract_daily", day, params(home, max_reject_rate=0.9))
    assert state == "success", said[-3000:]
    assert manifest(home, day)["resumed_documents"] == 3
    assert asked(home, "Ann 01") == 1, "done is done"
    assert doc_ids(home, day) == Counter([f"{day}-0", f"{day}-2"])
    told = home.xcoms("extract_daily", day)
    assert told["counts"]["resumed_documents"] == 3
    event = home.events()[-1]
    assert (event["output"], event["records"]) == (f"{home.folder}/out/{day}", 2)
    assert event["report"] == told["report"]


def test_a_backfill_does_each_day_once_and_starts_what_waits_for_the_asset(home: AirflowHome) -> None:
    num_events = len(home.events())
    conf = json.dumps(params(home, max_reject_rate=0.9))
    # before the scheduler runs: SQLite takes one writer at a time
    home.call("dags", "reserialize")
    home.call(
        "backfill", "create", "--dag-id", "extract_daily", "--from-date", DAYS[0], "--to-date", DAYS[-1],
        "--dag-run-conf", conf, "--max-active-runs", "3", "--reprocess-behavior", "completed",
    )  # fmt: skip
    home.call("dags", "unpause", "extract_daily", "--yes")
    with home.running():
        query = "select state from dag_run where dag_id = 'extract_daily' and run_type = 'backfill'"
        followed = "select state from dag_run where dag_id = 'consumer'"
        ends = time.monotonic() + 240
        while time.monotonic() < ends:
            states = [state for (state,) in home.rows(query)]
            ended = len(states) == 3 and all(state in ("success", "failed") for state in states)
            if ended and any(state == "success" for (state,) in home.rows(followed)):
                break
            time.sleep(1)
    assert states == ["success"] * 3, (home.folder / "scheduler.log").read_text()[-4000:]
    for day in DAYS:
        assert doc_ids(home, day) == Counter([f"{day}-0", f"{day}-2"])
        assert manifest(home, day)["settings"]["input"]["path"] == f"{home.folder}/in/{day}.jsonl"
        assert asked(home, f"Ann {day[-2:]}") == 1
    outputs = [event["output"] for event in home.events()[num_events:]]
    assert sorted(outputs) == [f"{home.folder}/out/{day}" for day in DAYS]
    values = [
        value for (value,) in home.rows("select value from xcom where dag_id = 'consumer' and key = 'return_value'")
    ]
    assert any(f"{home.folder}/out/" in str(value) for value in values), values


def test_rejects_are_replayed_and_the_asset_is_updated(home: AirflowHome) -> None:
    day = DAYS[1]
    if not (home.folder / "out" / day / "manifest.json").exists():  # the backfill above made it
        home.test_dag("extract_daily", day, params(home, max_reject_rate=0.9))
    (home.folder / "mended").touch()
    num_asked = asked(home, "Ann 02")
    state, said = home.test_dag(
        "replay_rejects", day, {"output": f"{home.folder}/out/{{{{ ds }}}}", "reasons": ["SCHEMA_MISMATCH"]}
    )
    assert state == "success", said[-3000:]
    assert doc_ids(home, day) == Counter(f"{day}-{number}" for number in range(3))
    assert home.xcoms("replay_rejects", day)["counts"]["rejects"] == 0
    assert asked(home, "Ann 02") == num_asked, "records that are there stay"
    assert home.events()[-1]["records"] == 3


def test_a_job_that_is_killed_goes_on_where_it_was_when_its_day_is_run_again(home: AirflowHome) -> None:
    day, names = "2026-03-05", [f"Slow{n}" for n in range(48)]
    rows = [{"id": f"{day}-{n}", "text": f"{name} {n}"} for n, name in enumerate(names)]
    (home.folder / "in" / f"{day}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = params(home, config=f"{home.folder}/slow.yaml")
    journal = home.folder / "out" / day / "_journal" / "outcomes"

    def is_half_done() -> bool:
        return sum(asked(home, f"{name} {n}") for n, name in enumerate(names)) >= 20 and any(journal.glob("*.parquet"))

    home.killed_dag("extract_daily", day, values, when=is_half_done, mark=f"{home.folder}/out/{day}")
    assert not (home.folder / "out" / day / "manifest.json").exists()
    state, said = home.test_dag("extract_daily", day, values)
    assert state == "success", said[-3000:]
    assert doc_ids(home, day) == Counter(f"{day}-{n}" for n in range(48))
    found = manifest(home, day)
    assert found["records"] == 48
    assert 0 < found["resumed_documents"] < 48
    num_asked = sum(asked(home, f"{name} {n}") for n, name in enumerate(names))
    assert 48 <= num_asked < 48 + 20, "what was in the journal is not asked again"
    assert home.xcoms("extract_daily", day)["counts"]["resumed_documents"] == found["resumed_documents"]


@pytest.mark.vllm
def test_the_demo_model_extracts_a_day(home: AirflowHome) -> None:
    day = "2026-03-09"
    receipts = params(
        home,
        input=str(SAMPLES / "receipts.jsonl"),
        id_column="id",
        schema="schemas.receipts:Receipt",
        examples=str(SAMPLES / "receipts_examples.jsonl"),
        config=None,
        max_reject_rate=0.7,
        arguments=["--limit", "3"],
    )
    state, said = home.test_dag("extract_daily", day, receipts)
    assert state == "success", said[-4000:]
    found = manifest(home, day)
    assert (found["documents"], found["model"].startswith("demo")) == (3, True), found["model"]
    assert found["records"] >= 1
    assert "dspark" in json.dumps(found["settings"])
