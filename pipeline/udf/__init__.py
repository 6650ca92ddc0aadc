"""Functions that Spark runs: the stages of the job, and extraction as a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.udf.column import extract_udf as extract_udf

__all__ = ["extract_udf"]


def __getattr__(name: str) -> Any:
    """Import the column function, and with it pandas and pyarrow, only when it is asked for."""
    if name == "extract_udf":
        from pipeline.udf.column import extract_udf

        return extract_udf
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
