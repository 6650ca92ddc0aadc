"""The history stays bounded however many documents pass."""

from __future__ import annotations

import pytest

from pipeline.dspark import memory as memory_module
from pipeline.dspark.document import Document
from pipeline.dspark.evidence import Evidence
from pipeline.dspark.learner import Learner
from pipeline.dspark.memory import MAX_NODES, MAX_OUTCOMES, MAX_SEEN, Memory, Node
from pipeline.dspark.path import PathTracker


def _nodes(node: Node) -> list[Node]:
    return [node, *(below for child in node.children.values() for below in _nodes(child))]


@pytest.mark.slow
def test_a_hundred_thousand_different_records_leave_a_bounded_history() -> None:
    memory = Memory()
    evidence = Evidence("nothing of it", memory)
    for number in range(100_000):
        tracker, learner = PathTracker(memory), Learner(evidence, memory)
        text = f'{{"k{number % 5000}": "value {number}", "n": {number}, "a": [{number}]}}'
        for segment in tracker.feed(text.encode()):
            learner.take(segment)
    nodes = _nodes(memory.root)
    assert len(nodes) <= 2 * MAX_NODES
    assert all(len(n.seen) <= MAX_SEEN for n in nodes)
    assert all(len(n.value.outcomes) <= MAX_OUTCOMES and len(n.glue.outcomes) <= MAX_OUTCOMES for n in nodes)
    assert all(len(n.value.positions) == len(n.value.outcomes) for n in nodes)
    assert len(memory.estimates) <= 20_000


def test_a_decision_keeps_what_is_taken_often() -> None:
    decision = memory_module.Decision(1)
    for number in range(500):
        for text in (b'"often"', f'"{number}"'.encode()):
            decision.count(decision.position(text, "literal"), 1.0)
            decision.close()
    assert (b'"often"', "literal") in decision.positions
    assert len(decision.outcomes) == MAX_OUTCOMES


def test_a_long_document_is_indexed_up_to_its_limit() -> None:
    document = Document("word " * 50_000)
    assert len(document) == 20_000
    assert document.start_features.shape == (10, 20_000)
