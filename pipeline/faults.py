"""What Spark raises on the driver, turned back into the pipeline error that a task raised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline import errors
from pipeline.errors import EngineError, OutputError, PipelineError

_RAISED = re.compile(r"^pipeline\.errors\.(\w+): (.*)$", re.MULTILINE)
_TASK = re.compile(r"Task (\d+) in stage")
_DISK = re.compile(r"(No space left on device|Read-only file system|Disk quota exceeded)")
_DIED = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure|EOFException|Python worker.*crashed"
    r"|SocketException|Broken pipe|Connection reset|ClosedChannelException"
)
"""The last ones are of workers that died idle, before a task was sent to them."""


def fault_of(error: Exception) -> PipelineError | None:
    """The pipeline error inside a Spark exception; an EngineError for a worker that died; None for anything else."""
    if isinstance(error, PipelineError):
        return error
    text = str(error)
    found = _RAISED.findall(text)
    if found:
        name, message = found[-1]
        cls = getattr(errors, name, None)
        if isinstance(cls, type) and issubclass(cls, PipelineError):
            return cls(message.strip())
    disk = _DISK.search(text)
    if disk:
        return OutputError(
            f"Spark cannot write: {disk.group(1)}",
            hint="check free space and permissions, then run the same command again: it resumes",
        )
    if _DIED.search(text):
        return EngineError("a worker process died while it worked", hint="out of memory is the usual cause")
    return None


@contextmanager
def spark_faults() -> Iterator[None]:
    """Raise the pipeline error inside a Spark exception in its place."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        raise fault from None


def failed_partition(error: Exception) -> int | None:
    """The partition whose task failed for good, as Spark's message tells it."""
    found = _TASK.search(str(error))
    return int(found.group(1)) if found else None


def first_line(error: Exception) -> str:
    """The first line of an exception's text, for a person; of a Java exception's, the first that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling "):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else type(error).__name__
