"""Histories are kept per schema, and no more than a bounded number of them."""

from pipeline.dspark.memories import Memories


def test_a_schema_finds_its_history_again() -> None:
    memories = Memories()
    assert memories.of("a") is memories.of("a")
    assert memories.of("a") is not memories.of("b")


def test_a_new_schema_in_every_request_keeps_the_number_bounded() -> None:
    memories = Memories(max_schemas=3)
    for number in range(100):
        memories.of(number)
    assert len(memories) == 3


def test_the_least_recently_used_history_is_forgotten_first() -> None:
    memories = Memories(max_schemas=2)
    first = memories.of("a")
    memories.of("b")
    memories.of("a")
    memories.of("c")
    assert memories.of("a") is first


def test_what_is_learned_across_schemas_is_shared() -> None:
    memories = Memories()
    assert memories.of("a").weights is memories.of("b").weights
    assert memories.of("a").estimates is memories.of("b").estimates
