"""What a user installs: wheel and sdist hold everything, and work in an environment without this folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.extract import main

ROOT = Path(__file__).resolve().parents[1]
BUILD = "import setuptools.build_meta as backend, sys; getattr(backend, sys.argv[1])(sys.argv[2])"
SCRIPT = """
import json


def orders(text, attempt):
    return json.dumps({"user_id": "U-1", "order_count": 0, "orders": [], "address": {"city": "Oslo", "street": "A 1"}})
"""


def call(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel that was built from the unpacked sdist; it sees the dependencies of this one."""
    folder = tmp_path_factory.mktemp("packaging")
    source = folder / "source"
    for name in ("pipeline", "jobs", "schemas"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source / name)
    call(sys.executable, "-c", BUILD, "build_sdist", folder, cwd=source)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    call(sys.executable, "-c", BUILD, "build_wheel", folder, cwd=next((folder / "unpacked").iterdir()))
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    call(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index",
        next(folder.glob("*.whl")), cwd=folder,
    )  # fmt: skip
    packages = Path(sysconfig.get_path("purelib"))
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    (site / "dependencies.pth").write_text(f"{packages}\n")
    return folder / "venv"


@pytest.mark.slow
def test_the_wheel_holds_code_samples_schemas_and_dags(installed: Path, tmp_path: Path) -> None:
    found = call(
        installed / "bin" / "python", "-c",
        "import json, pipeline, jobs, schemas.orders\n"
        "from importlib.metadata import version\n"
        "from importlib.resources import files\n"
        "from pathlib import Path\n"
        "samples = sorted(p.name for p in (files('pipeline') / 'samples').iterdir())\n"
        "dags = sorted(p.name for p in (Path(jobs.__file__).parent / 'dags').glob('*.py'))\n"
        "print(json.dumps([pipeline.__file__, samples, dags, version('spark-extract-pipeline')]))",
        cwd=tmp_path,
    )  # fmt: skip
    where, samples, dags, version = json.loads(found)
    assert Path(where).is_relative_to(installed)
    assert samples == sorted(p.name for p in (ROOT / "pipeline" / "samples").iterdir())
    assert dags == sorted(p.name for p in (ROOT / "jobs" / "dags").glob("*.py"))
    assert version == "0.1.0"


@pytest.mark.slow
@pytest.mark.spark
def test_the_installed_command_runs_a_job(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "my_script.py").write_text(SCRIPT)
    (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n')
    (tmp_path / "run.yaml").write_text("engine: {kind: scripted, script: 'my_script:orders'}\n")
    shown = call(
        installed / "bin" / "spark-extract", "--config", "run.yaml", "--input", "in.jsonl",
        "--schema", "schemas.orders:CustomerOrders", "--output", "out",
        cwd=tmp_path, PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert re.search(r"records +2\n", shown)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["records"], manifest["versions"]["spark-extract-pipeline"]) == (2, "0.1.0")


@pytest.mark.slow
def test_the_shell_completes_options_and_commands(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "spark-extract"
    assert "complete" in call(command, cwd=tmp_path, _SPARK_EXTRACT_COMPLETE="bash_source")
    words = call(
        command,
        cwd=tmp_path,
        _SPARK_EXTRACT_COMPLETE="bash_complete",
        COMP_WORDS="spark-extract --max-",
        COMP_CWORD="1",
    )
    assert {"plain,--max-retries", "plain,--max-reject-rate"} <= set(words.split())
    words = call(
        command,
        cwd=tmp_path,
        _SPARK_EXTRACT_COMPLETE="bash_complete",
        COMP_WORDS="spark-extract --schema ",
        COMP_CWORD="2",
    )
    assert words.split(",")[0] == "file"


@pytest.mark.parametrize("job", ["extract", "lint_schema", "replay_rejects", "evaluate", "benchmark"])
def test_every_job_has_examples_in_its_help(job: str) -> None:
    import importlib

    text = CliRunner().invoke(importlib.import_module(f"jobs.{job}").main, ["--help"]).output
    assert f"jobs/{job}.py" in text.partition("Examples:")[2]


def test_every_option_of_the_job_is_in_the_front_page() -> None:
    text = (ROOT / "README.md").read_text()
    options = [name for option in main.params for name in option.opts if name.startswith("--")]
    assert [name for name in options if not re.search(rf"{name}(?![a-z-])", text)] == []


@pytest.mark.parametrize("page", ["README.md", "jobs/dags/README.md", "CONTRIBUTING.md"])
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text())
    assert [t for t in targets if "://" not in t and not (ROOT / page).parent.joinpath(t).exists()] == []
