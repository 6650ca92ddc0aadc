"""All that speaks for one continuation or another in one document: its words, and the models looking at them."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.chooser import Choice, Chooser
from pipeline.dspark.document import Document
from pipeline.dspark.memory import Decision, Memory, Node, Outcome
from pipeline.dspark.pointer import Pointer, level_of
from pipeline.dspark.renderings import render
from pipeline.dspark.situation import Situation
from pipeline.dspark.stops import Stops
from pipeline.dspark.weights import Hashes, salt_of

_MAX_KEPT = 64
_decode = json.JSONDecoder(strict=False).decode
_SPECIAL = re.compile(rb'[\x00-\x1f"\\]')


def escape(text: bytes) -> bytes:
    """The inside of the JSON string of a UTF-8 text."""
    if _SPECIAL.search(text) is None:
        return text
    return json.dumps(text.decode("utf-8", "surrogateescape"), ensure_ascii=False)[1:-1].encode(
        "utf-8", "surrogateescape"
    )


def unescape(text: bytes) -> bytes:
    """The UTF-8 text of the inside of a JSON string, which may be cut anywhere."""
    if b"\\" not in text:
        return text
    for cut in range(min(7, len(text)) + 1):
        try:
            inside = text[: len(text) - cut].decode("utf-8", "surrogateescape")
            value: str = _decode(f'"{inside}"')
            return value.encode("utf-8", "surrogateescape")
        except (ValueError, UnicodeEncodeError):
            continue
    return text


class Rendered(NamedTuple):
    """Values in one rendering: word indices, the texts as a record writes them, and where each text stands."""

    words: NDArray[np.int64]
    texts: list[bytes]
    places: dict[bytes, list[int]]


class Evidence:
    """One document seen by the models of one memory; lives as long as the request."""

    def __init__(self, text: str, memory: Memory) -> None:
        self.document = Document(text)
        self._memory = memory
        self.pointer = Pointer(self.document, memory)
        self.stops = Stops(self.document, memory.weights)
        self.chooser = Chooser(self.document.bag, memory.weights)
        self._text = text
        self._rendered: dict[str, Rendered] = {}
        self._choices: dict[tuple[object, ...], Choice] = {}
        self._known: dict[int, tuple[int, Hashes, dict[Outcome, int]]] = {}

    def rendered(self, how: str) -> Rendered:
        """Everything the document has in one rendering."""
        found = self._rendered.get(how)
        if found is None:
            word_at = self.document.word_at_char
            placed = [(word_at(at), value) for at, value in render(how, self._text)]
            placed = [(word, value) for word, value in placed if word >= 0]
            places: dict[bytes, list[int]] = {}
            for word, value in placed:
                places.setdefault(value, []).append(word)
            found = Rendered(np.array([w for w, _ in placed], dtype=np.int64), [v for _, v in placed], places)
            self._rendered[how] = found
        return found

    def glue_choice(self, node: Node, situation: Situation) -> Choice:
        """Chances of what comes after the value of `node`."""
        key = situation.key(node, node.glue)
        found = self._choices.get(key)
        if found is None:
            decision = node.glue
            facts = self.pointer.facts_ahead(self._memory.slots_after(decision), situation.end)
            found = self._choose(key, decision, situation.features(node, self.document), facts)
        return found

    def value_choice(self, node: Node, situation: Situation) -> Choice:
        """Chances of how the value of `node` comes about."""
        key = situation.key(node, node.value)
        found = self._choices.get(key)
        if found is None:
            decision = node.value
            facts = self._facts(node)
            at = decision.positions.get((b"", "repeat"))
            if at is not None:
                facts = facts.copy()
                facts[at, 0] = 100 + (situation.last(node) != b"")
            found = self._choose(key, decision, situation.features(node, self.document), facts)
        return found

    def _choose(self, key: tuple[object, ...], decision: Decision, context: list[int], facts: Hashes) -> Choice:
        """The choice, kept until the decision is taken again: it is asked for in drafting and once more in learning."""
        if len(self._choices) >= _MAX_KEPT:
            self._choices.clear()
        found = self._choices[key] = self.chooser.choose(decision, context, facts)
        return found

    def _facts(self, node: Node) -> Hashes:
        """What the document says to each outcome of a value, (outcomes, 1): the same in all situations."""
        decision = node.value
        found = self._known.get(decision.salt)
        if found is None or found[0] != decision.version:
            # Few outcomes are new where others are known.
            known = {} if found is None else found[2]
            facts = [known.get(o) or self._fact(node, o) for o in decision.outcomes]
            column = np.array(facts, dtype=np.uint32).reshape(-1, 1)
            found = (decision.version, column, dict(zip(decision.outcomes, facts, strict=True)))
            self._known[decision.salt] = found
        return found[1]

    def _fact(self, node: Node, outcome: Outcome) -> int:
        if outcome.how == "literal":
            if len(outcome.needle) < 2:
                return 300
            document = self.document
            return 302 if outcome.first_word in document.hash_set and outcome.needle in document.lowered else 301
        if outcome.how == "copy":
            return 200 + level_of(self.pointer.best(node))
        if outcome.how == "repeat":
            return 100
        return salt_of(outcome.how.encode(), min(len(self.rendered(outcome.how).texts), 3))
