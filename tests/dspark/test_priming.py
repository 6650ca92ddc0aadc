"""Few-shot examples teach the drafter before the first record is written."""

from __future__ import annotations

from typing import Any

from pipeline.dspark.memory import Memory
from pipeline.dspark.priming import prime
from tests.dspark.drafting_material import drafter_for, matcher_maker, record_text, token_table


def _record(name: str) -> tuple[str, list[int]]:
    """A document and the tokens of its record."""
    value: dict[str, Any] = {"name": name, "kind": "offer", "paid": None, "total": None, "date": None, "items": []}
    return f"Dear {name}, here is our offer.", token_table("byte_level").encode(record_text(value, "indented"))


def _agreed(memory: Memory) -> int:
    """Tokens of the first draft for a new document that the record starts with."""
    document, ids = _record("Wilma")
    draft = drafter_for(document, memory, "byte_level").propose(matcher_maker("byte_level", "indented")(), 32)
    pairs = zip(draft.token_ids, ids, strict=False)
    return next((position for position, (one, other) in enumerate(pairs) if one != other), len(draft))


def _prime(memory: Memory, *names: str) -> None:
    matcher = matcher_maker("byte_level", "indented")()
    prime(memory, [_record(name) for name in names], tokenizer=token_table("byte_level"), matcher=matcher)
    assert matcher.accept_token(_record("x")[1][0]), "the matcher was moved"


def test_the_first_record_is_drafted_from_what_the_examples_showed() -> None:
    fresh, primed = Memory(), Memory()
    _prime(primed, "Anton", "Beate")
    assert primed.num_records == 2
    assert _agreed(primed) > _agreed(fresh) + 8


def test_an_example_that_the_grammar_refuses_teaches_as_far_as_it_goes_and_counts() -> None:
    memory = Memory()
    document, ids = _record("Anton")
    matcher = matcher_maker("byte_level", "indented")()
    prime(memory, [(document, [*ids[:6], ids[0], *ids[6:]])], tokenizer=token_table("byte_level"), matcher=matcher)
    assert memory.num_records == 1
