"""The public failure cases beside this checkout, and the mark that says which of them a test is about."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from pipeline.data import Chunk
from tests.conftest import SHARED

Function = TypeVar("Function", bound=Callable[..., Any])


def _read() -> dict[str, dict[str, Any]]:
    file = SHARED / "cases" / "cases.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {case["id"]: case for case in map(json.loads, lines)}


CASES = _read()


def about(*numbers: str) -> Callable[[Function], Function]:
    """The test takes ``case_id`` and runs once for each case; it is skipped where the cases are absent."""
    names = [f"bug-{number}" for number in numbers]

    def mark(function: Function) -> Function:
        marked = pytest.mark.parametrize("case_id", names)(function)
        return pytest.mark.skipif(not CASES, reason="the shared test material is not beside this checkout")(marked)

    return mark


def given(case_id: str) -> dict[str, Any]:
    """What the case hands to the system."""
    found: dict[str, Any] = CASES[case_id]["input"]
    return found


def chunk(text: str, doc_id: str = "d") -> Chunk:
    """A whole document as its only chunk."""
    return Chunk(doc_id, 0, 1, text, 0, len(text), doc_id)
