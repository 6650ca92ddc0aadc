"""Counts of the expensive stage: kept by each task attempt, summed on the driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields

FOLDER = "progress"


@dataclass(slots=True)
class Counts:
    """What one task attempt has done so far. Tokens include those of failed attempts."""

    records: int = 0
    rejects: int = 0
    retried: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    engine: dict[str, float] = field(default_factory=dict)
    load_s: float = 0.0
    busy_s: float = 0.0
    journal_s: float = 0.0
    journal_files: int = 0
    engine_id: str = ""
    device: str = ""

    @property
    def done(self) -> int:
        return self.records + self.rejects

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Counts:
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in json.loads(data).items() if name in known})


def total(parts: Iterable[Counts]) -> Counts:
    """Sum over task attempts; ``engine_id`` becomes the number of different engines, as text.

    Each attempt tells how long its engine took to load: that counts once for an engine.
    """
    result = Counts()
    loads: dict[str, float] = {}
    for part in parts:
        for name in ("records", "rejects", "retried", "prompt_tokens", "output_tokens", "journal_files"):
            setattr(result, name, getattr(result, name) + getattr(part, name))
        for name in ("busy_s", "journal_s"):
            setattr(result, name, getattr(result, name) + getattr(part, name))
        for name, value in part.engine.items():
            result.engine[name] = result.engine.get(name, 0.0) + value
        if part.engine_id:
            loads[part.engine_id] = part.load_s
    result.engine_id, result.load_s = str(len(loads)), sum(loads.values())
    result.engine.update(_ratios(result.engine))
    return result


def _ratios(engine: Mapping[str, float]) -> dict[str, float]:
    """Ratios among an engine's counters, made anew from the totals: the sum of ratios says nothing."""
    parts = {
        "mean_acceptance_length": ("num_tokens", "num_decode_steps"),
        "acceptance_rate": ("num_accepted", "num_drafted"),
    }
    return {
        name: engine.get(over, 0.0) / engine[under] if engine.get(under) else float(name == "mean_acceptance_length")
        for name, (over, under) in parts.items()
        if name in engine
    }
