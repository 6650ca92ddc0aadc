"""Compile a grammar in a process of its own, which can be stopped: on the driver, before any GPU is used."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.coverage import Keyword
from pipeline.errors import SchemaError
from pipeline.grammar import GrammarSpec

_START_LIMIT_S = 180.0
"""Longest time for imports and the tokenizer, which are not the schema's fault."""


@dataclass(frozen=True, slots=True)
class CompileReport:
    """What compiling took, and what masks cost along random outputs: microseconds per token.

    ``memory_mb`` is the growth of the process; ``vocab_size`` 0 means that bytes stood in for a tokenizer.
    """

    compile_ms: float
    memory_mb: float
    vocab_size: int
    mask_mean_us: float = 0.0
    mask_max_us: float = 0.0
    num_tokens: int = 0


def check_compiles(
    spec: GrammarSpec,
    tokenizer_folder: str | Path | None,
    *,
    time_limit_s: float,
    memory_limit_mb: int,
    num_tokens: int = 0,
) -> CompileReport:
    """Compile for a tokenizer (None: bytes only, quick); measure masks over ``num_tokens`` tokens of random outputs.

    Raises SchemaError that names the likeliest path and keyword where the grammar does not compile or goes beyond
    ``time_limit_s`` or ``memory_limit_mb`` (on top of what the libraries take).
    """
    task = {
        "grammar": spec.text, "tokenizer": None if tokenizer_folder is None else str(tokenizer_folder),
        "memory_mb": memory_limit_mb, "num_tokens": num_tokens,
    }  # fmt: skip
    command = [sys.executable, "-m", "pipeline.compile_worker"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        encoding="utf-8", env=_environment(),
    )  # fmt: skip
    with process:
        try:
            ready, errors = _wait_ready(process, task)
            if not ready:
                raise SchemaError(f"the grammar compiler did not start: {errors}", hint="is xgrammar installed?")
            output, errors = process.communicate("go\n", timeout=time_limit_s)
        except subprocess.TimeoutExpired:
            raise _too_much(spec, f"the grammar does not compile within {time_limit_s:g} s") from None
        finally:
            process.kill()
    answer = _answer(output)
    if answer is None:
        raise _too_much(spec, f"the grammar does not compile within {memory_limit_mb} MB ({_last_line(errors)})")
    if "error" in answer:
        raise _too_much(spec, f"the grammar does not compile: {answer['error']}")
    return CompileReport(**answer)


def check_compiles_once(
    spec: GrammarSpec, tokenizer_folder: str | Path | None, *, time_limit_s: float, memory_limit_mb: int
) -> None:
    """As :func:`check_compiles`, but a grammar that has compiled for this tokenizer on this machine is not tried again.

    What is kept under the user's cache folder is an empty file named by hashes.
    """
    tokenizer = "" if tokenizer_folder is None else str(Path(tokenizer_folder).resolve())
    limits = f"{spec.fingerprint}\n{tokenizer}\n{time_limit_s}\n{memory_limit_mb}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipeline" / "compiled"
    mark = cache / hashlib.sha256(limits.encode()).hexdigest()
    if mark.exists():
        return
    check_compiles(spec, tokenizer_folder, time_limit_s=time_limit_s, memory_limit_mb=memory_limit_mb)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError:
        return  # a home that cannot be written to only costs the check again


def _wait_ready(process: subprocess.Popen[str], task: dict[str, Any]) -> tuple[bool, str]:
    """Send the task; wait until the libraries are loaded, so that the limits are about the grammar alone."""
    import select

    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass
    found, _, _ = select.select([process.stdout], [], [], _START_LIMIT_S)
    line = process.stdout.readline() if found else ""
    if line.strip() == "ready":
        return True, ""
    process.kill()
    return False, _last_line(process.communicate()[1])


def _answer(output: str) -> dict[str, Any] | None:
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def _environment() -> dict[str, str]:
    """This package must be importable in the child, whatever its working folder."""
    root = str(Path(__file__).resolve().parent.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TOKENIZERS_PARALLELISM": "false"}


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "the process was stopped"


def _too_much(spec: GrammarSpec, message: str) -> SchemaError:
    suspect = suspect_of(spec.coverage)
    return SchemaError(
        message, path=suspect.path if suspect else "#", keyword=suspect.keyword if suspect else None,
        hint="this is the likeliest cause; shorten or remove it",
    )  # fmt: skip


def suspect_of(coverage: Sequence[Keyword]) -> Keyword | None:
    """The keyword that most likely makes a grammar large: unions first, by how deep they nest."""
    weights = {"oneOf": 50, "anyOf": 50, "allOf": 40, "enum": 30, "pattern": 30, "maxLength": 20, "maxItems": 20}
    ranked = sorted(
        (k for k in coverage if k.by != "validation"),
        key=lambda k: (weights.get(k.keyword, 0), k.path.count("/")), reverse=True,
    )  # fmt: skip
    return ranked[0] if ranked else None


def as_dict(report: CompileReport) -> dict[str, Any]:
    """For the manifest."""
    return asdict(report)
