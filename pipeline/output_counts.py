"""Counts of the output stage, kept by each task attempt and summed on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_SUMMED = (
    "documents", "records", "rejects", "missing", "retried", "num_chunks", "prompt_tokens", "output_tokens",
    "conflicts", "nulled",
)  # fmt: skip
_GROUPED = ("by_reason", "spans")


def no_counts() -> dict[str, Any]:
    """Counts at zero. ``by_reason`` counts rejects, ``spans`` values of records by how they stand in the document."""
    return dict.fromkeys(_SUMMED, 0) | {name: {} for name in _GROUPED}


def count_in(group: dict[str, int], name: str, number: int = 1) -> None:
    """Add to one count of a group."""
    group[name] = group.get(name, 0) + number


def sum_counts(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sum over task attempts."""
    total = no_counts()
    for part in parts:
        for name in _SUMMED:
            total[name] += part[name]
        for group in _GROUPED:
            for name, number in part[group].items():
                count_in(total[group], name, number)
    return total


def grounding_facts(counts: Mapping[str, Any]) -> dict[str, int]:
    """How the values of all records stand in their documents, for the manifest; ``nulled`` were replaced by null."""
    kinds = ("exact", "normalised", "fuzzy", "none")
    return {kind: counts["spans"].get(kind, 0) for kind in kinds} | {"nulled": counts["nulled"]}
