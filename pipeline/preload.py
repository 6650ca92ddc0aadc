"""Intel's OpenMP for vLLM on the CPU: it must be preloaded, which is decided before a process starts.

Without it vLLM warns, and steps with few tokens take several times as long beside other work, because GNU OpenMP's
threads meet at barriers spinning.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NAME = "libiomp5.so"


def openmp_library() -> str | None:
    """The library that came with the packages of this environment; None where there is none (GPU installations)."""
    library = Path(sys.prefix) / "lib" / _NAME
    return str(library) if library.is_file() else None


def preload_environment() -> dict[str, str]:
    """Variables for a process that will run vLLM on the CPU; empty where nothing is missing or to be had."""
    library = openmp_library()
    loaded = os.environ.get("LD_PRELOAD", "")
    if library is None or _NAME in loaded:
        return {}
    return {"LD_PRELOAD": f"{loaded}:{library}" if loaded else library}


def restart_with_preload() -> None:
    """Start this program again with the library loaded, where that is missing; returns where it is not."""
    missing = preload_environment()
    if missing:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})
