"""Every public failure case has a test of its own id."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests import (
    test_cases_engine,
    test_cases_job,
    test_cases_loop,
    test_cases_spark,
    test_cases_tokenizer,
    test_schema_cases,
)
from tests.cases import CASES

MODULES = [
    test_schema_cases,
    test_cases_loop,
    test_cases_spark,
    test_cases_job,
    test_cases_tokenizer,
    test_cases_engine,
]


def _covered(module: ModuleType) -> set[str]:
    marks: list[Any] = [
        mark
        for name, function in vars(module).items()
        if name.startswith("test_")
        for mark in getattr(function, "pytestmark", [])
    ]
    return {
        case_id
        for mark in marks
        if mark.name == "parametrize" and mark.args[0] == "case_id"
        for case_id in mark.args[1]
    }


@pytest.mark.skipif(not CASES, reason="the shared test material is not beside this checkout")
def test_the_tests_of_all_layers_together_are_about_every_case() -> None:
    covered = set().union(*(_covered(module) for module in MODULES))
    assert sorted(set(CASES) - covered) == []
    assert sorted(covered - set(CASES)) == []
    assert len(CASES) == 70
