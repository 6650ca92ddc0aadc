"""The model files for GPUStack against GPUStack's own code, and its command line against the real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import openai
import pytest

from pipeline.demo_model import ensure_demo_model
from tests.vllm_server import CPU, free_port, vllm_server

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "jobs" / "gpustack").glob("*.yaml"))
ONE_LINE = '--additional-config={"dspark":{"enabled":true}}'
PACKAGES = (
    "gpustack==2.3.0", "gpustack-runtime==0.2.6", "gpustack-runner==0.1.31.post4",
    "gpustack-higress-plugins==0.5.0.post2", "sqlmodel>=0.0.18", "sqlalchemy>=2.0.38,<2.1", "greenlet",
    "croniter>=2,<3", "aiocache>=0.12.3", "aiofiles>=23.2.1", "dataclasses-json>=0.6.7", "marshmallow<4",
    "typing-inspect", "mypy-extensions", "mthreads-ml-py>=2.2.10", "nvidia-ml-py>=13.580.65", "podman==5.6.0",
    "docker>=7.1", "argcomplete>=3.6.3", "kubernetes==33.1.0", "kubernetes-asyncio>=33.1,<34", "google-auth", "six",
    "python-dateutil", "oauthlib", "requests-oauthlib", "websocket-client", "durationpy", "pyasn1", "pyasn1-modules",
    "rsa", "cachetools", "argon2-cffi", "argon2-cffi-bindings", "tenacity", "modelscope>=1.28", "modelscope-hub",
)  # fmt: skip
"""GPUStack, and of what it imports for this only what a project with vLLM has not."""

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


@pytest.fixture(scope="module")
def gpustack() -> Path:
    """A folder with GPUStack, kept in the temporary folder; skips where the package index cannot be reached."""
    folder = Path(tempfile.gettempdir()) / "gpustack-2.3.0-packages"
    if folder.is_dir():
        return folder
    building = Path(tempfile.mkdtemp(prefix="gpustack-", dir=folder.parent))
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", str(building)]
    done = subprocess.run([*install, *PACKAGES], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(building)
        pytest.skip(f"GPUStack cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    building.rename(folder)
    return folder


PORT = free_port()


@pytest.fixture(scope="module")
def understood(gpustack: Path) -> dict[str, Any]:
    """What GPUStack makes of each file: errors, the arguments of ``vllm serve``, the script that starts it."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "gpustack_arguments.py"), str(PORT), *map(str, FILES)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(gpustack)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return {Path(file).stem: result for file, result in found.items()}


def test_gpustack_takes_the_files_as_they_are(understood: dict[str, Any]) -> None:
    assert set(understood) == {"deepseek-v41", "qwen3-4b"}
    assert [result["errors"] for result in understood.values()] == [[], []]


def test_our_line_reaches_vllm_in_one_piece(understood: dict[str, Any]) -> None:
    for result in understood.values():
        assert ONE_LINE in result["arguments"]
        assert not [argument for argument in result["arguments"] if argument.startswith("--speculative")]
    assert "--tensor-parallel-size=2" in understood["deepseek-v41"]["arguments"]


def test_the_package_is_installed_before_the_server_starts_and_nothing_with_it(understood: dict[str, Any]) -> None:
    line = "uv pip install --system ${PYPI_PACKAGES_INSTALL}"  # unquoted, so the variable may hold options
    for result in understood.values():
        assert line in result["script"]
        words = subprocess.run(
            ["sh", "-c", f"printf '%s\n' {line}"], capture_output=True, text=True, check=True, env=result["env"]
        ).stdout.split()
        assert words[4:] == ["--no-deps", f"spark-extract-pipeline=={version('spark-extract-pipeline')}"]


def test_gpustack_s_command_starts_the_real_server_with_dspark(understood: dict[str, Any], tmp_path: Path) -> None:
    model_path, *arguments = understood["qwen3-4b"]["arguments"]
    assert model_path == "/models/qwen3-4b"
    command = [str(ensure_demo_model()), *arguments, *CPU]
    with vllm_server(command, tmp_path / "server.log", port=PORT) as served:
        client = openai.OpenAI(base_url=served.url, api_key="dummy", max_retries=0, timeout=120)
        answer = client.chat.completions.create(
            model="qwen3-4b",
            messages=[{"role": "user", "content": "Generate a sample JSON for a user with 3 orders."}],
            response_format={"type": "json_object"},
            max_tokens=48,
            temperature=0.2,
        )
        assert str(answer.choices[0].message.content).startswith("{")
        assert "dspark enabled" in served.log
