"""A job on a real standalone cluster: GPUs that Spark hands out, and the package shipped as ``--py-files``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.scripts import PEOPLE_SCHEMA
from tests.standalone import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
Submit = Callable[..., tuple[Path, str]]
SCRIPT = """
import json, os, pipeline
from pipeline.testing import Scripted
def where(text, attempt):
    shipped = "package.zip" in pipeline.__file__
    value = {"name": os.environ.get("CUDA_VISIBLE_DEVICES", "none") + (" shipped" if shipped else ""), "age": None}
    return Scripted(json.dumps(value), delay_s=0.01)
"""
"""In the archive only: an executor that does not get it cannot work. Its records tell where the engine ran."""


def _package(folder: Path) -> Path:
    archive = folder / "package.zip"
    with zipfile.ZipFile(archive, "w") as package:
        for name in ("pipeline", "jobs", "schemas"):
            for path in sorted((ROOT / name).rglob("*")):
                if path.suffix in (".py", ".jsonl"):
                    package.write(path, path.relative_to(ROOT))
        package.writestr("shipped_script.py", SCRIPT)
    return archive


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submit]:
    """``spark-submit`` of the job on two executors with a pretended GPU each; gives the folder and what was printed."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "people.json").write_text(json.dumps(PEOPLE_SCHEMA))
    (folder / "in.jsonl").write_text("\n".join(json.dumps({"id": f"d{n}", "text": f"Ann{n} {n}"}) for n in range(400)))
    (folder / "run.yaml").write_text("engine: {kind: scripted, script: 'shipped_script:where'}\n")
    (folder / "main.py").write_bytes((ROOT / "jobs" / "extract.py").read_bytes())  # away from the package
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with standalone_cluster(folder, with_gpus=True) as cluster:
        archive = _package(folder)

        def run(output: str, *options: str) -> tuple[Path, str]:
            command = [
                str(Path(sys.executable).with_name("spark-submit")), "--master", cluster.master, "--py-files",
                str(archive), "--executor-memory", "512m", "--executor-cores", "2", "--num-executors", "2",
                "--conf", "spark.executor.resource.gpu.amount=1", "--conf", "spark.driver.host=127.0.0.1",
                str(folder / "main.py"), "--config", str(folder / "run.yaml"), "--input", str(folder / "in.jsonl"),
                "--schema", str(folder / "people.json"), "--output", str(folder / output), *options,
            ]  # fmt: skip
            result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
            assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
            return folder / output, result.stdout

        yield run


@pytest.fixture(scope="module")
def output(submit: Submit) -> Path:
    return submit("out")[0]


def test_every_engine_has_a_gpu_of_its_own_and_serves_several_tasks(output: Path) -> None:
    tasks = [json.loads(path.read_text()) for path in (output / "_journal" / "progress").iterdir()]
    engines = {(task["engine_id"], task["device"]) for task in tasks}
    assert len(tasks) == 8
    assert sorted(device for _, device in engines) == ["gpu-0", "gpu-1"]  # one engine on each, reused by its tasks


def test_executors_work_with_the_shipped_package_and_see_only_their_gpu(output: Path) -> None:
    records = pq.read_table(output / "records.parquet").to_pylist()
    assert len(records) == json.loads((output / "manifest.json").read_text())["records"] == 400
    assert {row["record"]["name"] for row in records} == {"0 shipped", "1 shipped"}


def test_a_dry_run_samples_on_the_executors_and_leaves_nothing(submit: Submit) -> None:
    out, printed = submit("dry", "--dry-run", "--dry-run-documents", "20")
    assert not out.exists()
    rows = {line[:19].strip(): line[19:] for line in printed.splitlines()}
    assert rows["left to do"].startswith("400 texts")
    assert rows["sampled"] == "20 documents, 20 texts"
    assert rows["valid"].startswith("20 (100%), 20 at the first attempt")
    assert "on 2 engines" in rows["all left: time"]


def test_a_dry_run_beside_results_leaves_them_as_they_are(submit: Submit, output: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    _, printed = submit("out", "--dry-run")
    assert "left to do         0 texts" in printed
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before
