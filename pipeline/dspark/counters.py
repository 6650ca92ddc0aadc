"""What drafting did, as plain numbers for the manifest, the progress line and the benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Counters:
    """Totals of one engine since its start.

    A decode step of a request is one in which the model read its last token (and its draft): ``num_decode_steps``
    counts them over all requests, ``num_tokens`` the tokens they emitted. The first token of a request comes from the
    prefill and is in neither. ``drafting_ms`` is drafting and budgeting, ``masking_ms`` filling bitmasks.
    """

    num_engine_steps: int = 0
    num_decode_steps: int = 0
    num_draft_steps: int = 0
    num_tokens: int = 0
    num_requests: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    step_ms: float = 0.0
    drafting_ms: float = 0.0
    masking_ms: float = 0.0
    drafted_by: Counter[str] = field(default_factory=Counter)
    accepted_by: Counter[str] = field(default_factory=Counter)

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens per decode step, the bonus token counted; 1.0 without drafts."""
        return self.num_tokens / self.num_decode_steps if self.num_decode_steps else 1.0

    @property
    def acceptance_rate(self) -> float:
        return self.num_accepted / self.num_drafted if self.num_drafted else 0.0

    def verified(self, drafters: Sequence[str], num_accepted: int) -> None:
        """One draft was verified: ``drafters`` names who proposed each verified token."""
        self.num_draft_steps += 1
        self.num_drafted += len(drafters)
        self.num_accepted += num_accepted
        self.drafted_by.update(drafters)
        self.accepted_by.update(drafters[:num_accepted])

    def snapshot(self) -> dict[str, float]:
        """All totals and the two ratios under flat names; per drafter as ``drafted_by.NAME``, ``accepted_by.NAME``."""
        flat: dict[str, float] = {
            "num_engine_steps": self.num_engine_steps,
            "num_decode_steps": self.num_decode_steps,
            "num_draft_steps": self.num_draft_steps,
            "num_tokens": self.num_tokens,
            "num_requests": self.num_requests,
            "num_drafted": self.num_drafted,
            "num_accepted": self.num_accepted,
            "step_ms": round(self.step_ms, 3),
            "drafting_ms": round(self.drafting_ms, 3),
            "masking_ms": round(self.masking_ms, 3),
            "mean_acceptance_length": self.mean_acceptance_length,
            "acceptance_rate": self.acceptance_rate,
        }
        flat.update({f"drafted_by.{name}": count for name, count in sorted(self.drafted_by.items())})
        flat.update({f"accepted_by.{name}": count for name, count in sorted(self.accepted_by.items())})
        return flat

    def reset(self) -> None:
        """Start over at zero (the benchmark counts one variant at a time)."""
        fresh = Counters()
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(fresh, name))


def snapshot(engine: Any) -> dict[str, float]:
    """Flat counters of a vLLM ``LLMEngine`` (see :meth:`Counters.snapshot`); empty without DSpark in this process."""
    from pipeline.dspark.coordinator import coordinator_of  # not at the top: the coordinator counts with this module

    coordinator = coordinator_of(engine)
    return coordinator.counters.snapshot() if coordinator is not None else {}
