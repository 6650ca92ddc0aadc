"""A real Airflow in an environment of its own, and one home folder of it: database, DAGs, processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DAGS = ROOT / "jobs" / "dags"
REQUIREMENTS = DAGS / "requirements.txt"
SPARK_DEFAULTS = """\
spark.sql.shuffle.partitions 2
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
spark.driver.bindAddress 127.0.0.1
spark.driver.host 127.0.0.1
"""


def airflow_environment() -> Path:
    """The environment with Airflow: $AIRFLOW_VENV or ``.venv-airflow``; made once per version of its requirements."""
    folder = Path(os.environ.get("AIRFLOW_VENV") or ROOT / ".venv-airflow")
    stamp = folder / "installed"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--no-compile", "-r", str(REQUIREMENTS)], check=True)
        stamp.write_text(wanted)
    return folder


def processes_with(mark: str) -> list[int]:
    """Processes that have ``mark`` in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


class AirflowHome:
    """Airflow's home in ``folder``, with copies of the DAGs; jobs run with the Python of these tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._program = str(airflow_environment() / "bin" / "airflow")
        self.dags = folder / "dags"
        shutil.copytree(DAGS, self.dags)
        (folder / "spark").mkdir()
        (folder / "spark" / "spark-defaults.conf").write_text(SPARK_DEFAULTS)  # compiling takes longer than a few rows
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        python = Path(sys.executable)
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")} | {
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self._port}/execution/",
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
            "AIRFLOW__SCHEDULER__CATCHUP_BY_DEFAULT": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "SPARK_EXTRACT_JOBS": str(ROOT / "jobs"),
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": str(python),
            "SPARK_CONF_DIR": str(folder / "spark"),
            "PYTHONPATH": str(folder / "scripts"),
            "NO_COLOR": "1",
        }
        self.call("db", "migrate")

    def call(self, *arguments: str) -> str:
        """What one command says; it must succeed."""
        done = subprocess.run(
            [self._program, *arguments], env=self._environment, cwd=self.folder, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"airflow {arguments}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def test_dag(self, dag_id: str, day: str, params: dict[str, Any]) -> tuple[str, str]:
        """``airflow dags test``: the run's state and everything that was said."""
        done = subprocess.run(
            [self._program, "dags", "test", dag_id, day, "-c", json.dumps(params)],
            env=self._environment, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        rows = self.rows(
            "select state from dag_run where dag_id = ? and logical_date like ? order by id desc", dag_id, f"{day}%"
        )
        assert rows, done.stdout[-2000:] + done.stderr[-4000:]
        return str(rows[0][0]), done.stdout + done.stderr

    def killed_dag(self, dag_id: str, day: str, params: dict[str, Any], *, when: Callable[[], bool], mark: str) -> None:
        """``airflow dags test``, killed at a moment with all processes that have ``mark`` in their command."""
        command = [self._program, "dags", "test", dag_id, day, "-c", json.dumps(params)]
        with (self.folder / "killed.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self._environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        try:
            ends = time.monotonic() + 240
            while not when():
                assert process.poll() is None, (self.folder / "killed.log").read_text()[-3000:]
                assert time.monotonic() < ends, (self.folder / "killed.log").read_text()[-3000:]
                time.sleep(0.1)
        finally:
            for pid in [*processes_with(mark), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of Airflow's database."""
        with contextlib.closing(sqlite3.connect(self.folder / "airflow.db", timeout=30)) as database:
            return database.execute(query, values).fetchall()

    def xcoms(self, dag_id: str, day: str) -> dict[str, Any]:
        """What the run of a day pushed, by key."""
        found = self.rows(
            "select x.key, x.value from xcom x join dag_run r on r.run_id = x.run_id and r.dag_id = x.dag_id "
            "where x.dag_id = ? and r.logical_date like ? order by r.id, x.timestamp",
            dag_id,
            f"{day}%",
        )
        return {key: json.loads(value) for key, value in found}

    def events(self) -> list[dict[str, Any]]:
        """Extras of all asset events, oldest first."""
        return [json.loads(extra) for (extra,) in self.rows("select extra from asset_event order by id")]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """API server, DAG processor and scheduler as processes of their own."""
        commands = (["api-server", "--port", str(self._port), "--workers", "1"], ["dag-processor"], ["scheduler"])
        processes = []
        with contextlib.ExitStack() as files:
            for command in commands:
                log = files.enter_context((self.folder / f"{command[0]}.log").open("wb"))
                processes.append(
                    subprocess.Popen([self._program, *command], env=self._environment, cwd=self.folder, stdout=log,
                                     stderr=subprocess.STDOUT, start_new_session=True)
                )  # fmt: skip
            try:
                yield
            finally:
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGTERM)
                ends = time.monotonic() + 10
                for process in processes:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(max(0.1, ends - time.monotonic()))
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
