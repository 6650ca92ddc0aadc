"""Batch structured extraction on Spark: one validated record per document.

Importing this package imports none of pyspark, pyarrow, torch and vllm: vLLM resolves the scheduler class by import
path inside its engine process, and a notebook must not pay for what it does not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.api import extract as extract
    from pipeline.config import RunConfig as RunConfig
    from pipeline.data import Attempt as Attempt
    from pipeline.data import Chunk as Chunk
    from pipeline.data import Document as Document
    from pipeline.data import FieldError as FieldError
    from pipeline.data import Record as Record
    from pipeline.data import Reject as Reject
    from pipeline.data import RejectReason as RejectReason
    from pipeline.errors import PipelineError as PipelineError

_HOME = {
    "Attempt": "pipeline.data",
    "Chunk": "pipeline.data",
    "Document": "pipeline.data",
    "FieldError": "pipeline.data",
    "PipelineError": "pipeline.errors",
    "Record": "pipeline.data",
    "Reject": "pipeline.data",
    "RejectReason": "pipeline.data",
    "RunConfig": "pipeline.config",
    "extract": "pipeline.api",
}

__all__ = [  # sorted, tested
    "Attempt",
    "Chunk",
    "Document",
    "FieldError",
    "PipelineError",
    "Record",
    "Reject",
    "RejectReason",
    "RunConfig",
    "extract",
]


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
