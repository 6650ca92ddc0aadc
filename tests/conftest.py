"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("shared-machine", deadline=None)  # a busy machine must not fail a test
settings.load_profile("shared-machine")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of labelled sets and cases beside the checkout; tests that need it skip on a machine without it."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the shared test material is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small local Spark for all tests; workers find the package and the tests' scripts."""
    from pyspark.sql import SparkSession

    from pipeline.session import with_package

    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than these few rows
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    yield with_package(session)
    session.stop()
