"""Further passes over a chunk that has its record: the model sees what was found and is asked for what was missed."""

from __future__ import annotations

from dataclasses import replace

from pipeline.confidence import merge_confidence
from pipeline.data import Record
from pipeline.protocols import Prompt, Prompter, Unite


class Passes:
    """At most ``number`` passes over a chunk; one where there is nothing to unite with (``unite`` None)."""

    def __init__(self, prompter: Prompter, unite: Unite | None, *, number: int) -> None:
        self._prompter = prompter
        self._unite = unite
        self.number = number if unite is not None else 1

    def prompt(self, found: Record) -> Prompt:
        """The prompt of the pass after ``found``."""
        return self._prompter.again(found.chunk, found.value)

    def add(self, found: Record | None, later: Record) -> Record:
        """The record after one more pass; ``found`` itself where that told nothing new."""
        if found is None:
            return later
        assert self._unite is not None
        united = self._unite(found.value, later.value)
        if united is None:
            return found
        value, json = united
        parts = [(record.value, record.confidence) for record in (found, later) if record.confidence is not None]
        confidence = merge_confidence(parts, value) if parts else None
        return replace(found, value=value, json=json, attempts=later.attempts, confidence=confidence)
