"""What a whole input will take, from a few of its documents that went through the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pipeline.progress import format_duration

_NUM_SHOWN = 3
_MAX_DETAIL_CHARS = 120


@dataclass(frozen=True, slots=True)
class Sample:
    """How the sampled texts went. ``num_tokens`` is the estimate of their own tokens that the plan holds; tokens of
    prompts and outputs are counted, those of retries included. ``busy_s`` is engine time without ``load_s``."""

    num_documents: int
    num_texts: int
    num_valid: int
    num_valid_at_once: int
    num_attempts: int
    num_tokens: int
    prompt_tokens: int
    output_tokens: int
    busy_s: float
    load_s: float
    reasons: Counter[str] = field(default_factory=Counter)
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Any], *, num_documents: int, num_tokens: int, busy_s: float, load_s: float) -> Sample:
        """From journal rows with ``json, reason, detail, attempts``."""
        found = list(rows)
        attempts = [attempt for row in found for attempt in row["attempts"] or ()]
        return cls(
            num_documents=num_documents,
            num_texts=len(found),
            num_valid=sum(row["json"] is not None for row in found),
            num_valid_at_once=sum(row["json"] is not None and len(row["attempts"]) == 1 for row in found),
            num_attempts=len(attempts),
            num_tokens=num_tokens,
            prompt_tokens=sum(attempt["prompt_tokens"] for attempt in attempts),
            output_tokens=sum(attempt["output_tokens"] for attempt in attempts),
            busy_s=busy_s,
            load_s=load_s,
            reasons=Counter(row["reason"] for row in found if row["json"] is None),
            details=tuple(row["detail"] for row in found if row["json"] is None and row["detail"])[:_NUM_SHOWN],
        )

    def lines(self) -> Iterator[str]:
        """The rows of the table that are about the sample."""
        share = self.num_valid / max(self.num_texts, 1)
        bad = "".join(f", {number} {reason}" for reason, number in self.reasons.most_common())
        yield f"sampled            {self.num_documents} documents, {self.num_texts} texts"
        yield f"valid              {self.num_valid} ({share:.0%}), {self.num_valid_at_once} at the first attempt{bad}"
        for detail in self.details:
            short = " ".join(detail.split())
            short = short if len(short) <= _MAX_DETAIL_CHARS else short[:_MAX_DETAIL_CHARS] + " ..."
            yield f"                   {short}"
        texts = max(self.num_texts, 1)
        yield f"tokens a text      {self.prompt_tokens / texts:.0f} prompt, {self.output_tokens / texts:.0f} output"
        yield f"sample time        {format_duration(self.busy_s)}, and {format_duration(self.load_s)} to load the model"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is left to do: tokens of all prompts and outputs, hours of ``num_engines`` engines that work at a time."""

    prompt_tokens: int
    output_tokens: int
    hours: float
    num_engines: int

    @classmethod
    def of(
        cls, sample: Sample, *, num_texts: int, num_tokens: int, num_fixed_tokens: int, num_engines: int
    ) -> Estimate:
        """Scaled up: instructions and outputs by the number of texts, the texts themselves by their own tokens."""
        texts = max(sample.num_texts, 1)
        own = max(sample.prompt_tokens - sample.num_attempts * num_fixed_tokens, 0) / max(sample.num_tokens, 1)
        prompt = own * num_tokens + sample.num_attempts / texts * num_fixed_tokens * num_texts
        seconds = sample.busy_s / texts * num_texts / max(num_engines, 1)
        return cls(round(prompt), round(sample.output_tokens / texts * num_texts), seconds / 3600, num_engines)

    def lines(self) -> Iterator[str]:
        """The rows of the table that are about the whole input."""
        engines = "1 engine" if self.num_engines == 1 else f"{self.num_engines} engines"
        yield f"all left: tokens   about {_short(self.prompt_tokens)} prompt, {_short(self.output_tokens)} output"
        yield f"all left: time     about {_hours(self.hours)} on {engines}, less with more in flight than here"


def _short(number: int) -> str:
    for size, unit in ((10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number}"


def _hours(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else format_duration(hours * 3600)
