"""Fixtures shared by all tests."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of labelled sets and cases beside the checkout; tests that need it skip on a machine without it."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the shared test material is not beside this checkout")
    return SHARED
