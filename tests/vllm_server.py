"""The real OpenAI-compatible server of vLLM on the CPU, in a process group of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_LIMIT_S = 240.0
MODEL = "demo"
CPU = ("--dtype", "float32", "--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "16")
"""Exact arithmetic, so that two servers can be compared; small enough for a test machine."""


@dataclass(frozen=True)
class Served:
    """A running server; ``url`` ends in ``/v1``."""

    url: str
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")


def serve_arguments(model: str) -> list[str]:
    return [model, "--served-model-name", MODEL, "--host", "127.0.0.1", *CPU]


@contextmanager
def vllm_server(arguments: Sequence[str], log_file: Path, *, port: int | None = None) -> Iterator[Served]:
    """``vllm serve`` with these arguments (a port is added unless one is given) until it answers, for the block."""
    chosen = port or free_port()
    command = [sys.executable, str(Path(__file__).with_name("vllm_command.py")), "serve", *arguments]
    command += [] if port else ["--port", str(chosen)]
    environment = os.environ | {
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{(os.cpu_count() or 1) - 1}",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    environment.pop("VLLM_LOGGING_LEVEL", None)
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    served = Served(f"http://127.0.0.1:{chosen}/v1", log_file)
    try:
        _wait(process, served)
        yield served
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], served: Served) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(served.url.removesuffix("/v1") + "/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise AssertionError(f"the server did not start:\n{served.log[-4000:]}")
