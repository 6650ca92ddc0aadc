"""One chunk on its way to an outcome."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.data import Attempt, Chunk, Outcome, Record
from pipeline.protocols import Prompt


@dataclass(slots=True)
class ChunkJob:
    """What the loop knows of a chunk that has no outcome yet; a half of a split chunk is a job with a ``parent``.

    ``found`` is the record so far, while further passes look for more. ``budget`` is in tokens, times are seconds of
    the loop's clock.
    """

    chunk: Chunk
    budget: int
    started: float
    parent: ChunkJob | None = None
    depth: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    retries: int = 0
    grown: bool = False
    request_id: str = ""
    submitted: float = 0.0
    prompt: Prompt | None = None
    halves: list[Outcome | None] = field(default_factory=list)
    half_index: int = 0
    found: Record | None = None
    num_passes: int = 0
    done: bool = False
