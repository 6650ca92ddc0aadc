"""Where the consumers' programs are; a missing one skips the test, except on CI, where it fails it."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest


def missing(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and CI must have it")
    pytest.skip(f"{what} is not on this machine: install it to check that it reads what this project writes")


def java_tool(name: str) -> str:
    """``java`` or ``javac``, from JAVA_HOME or the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else shutil.which(name)
    return found or shutil.which(name) or missing(name)


def spark_jars(*names: str) -> list[Path]:
    """Jars inside the pyspark package by the start of their names."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "jars"
    return [next(folder.glob(f"{name}-[0-9]*.jar")) for name in names]


def library(name: str) -> Any:
    """A C library by its short name."""
    path = ctypes.util.find_library(name)
    return ctypes.CDLL(path) if path else missing(f"lib{name}")
