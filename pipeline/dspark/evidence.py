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
from pipeline.dspark.pointer import Pointer
from pipeline.dspark.renderings import render
from pipeline.dspark.situation import Situation
from pipeline.dspark.stops import Stops
from pipeline.dspark.weights import Floats, salt_of

_MAX_KEPT = 64
_SPECIAL = re.compile(rb'[\x00-\x1f"\\]')


def escape(text: bytes) -> bytes:
    """The inside of the JSON string of a UTF-8 text."""
    if _SPECIAL.search(text) is None:
        return text
    return json.dumps(text.decode("utf-8", "surrogateescape"), ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")


def unescape(text: bytes) -> bytes:
    """The UTF-8 text of the inside of a JSON string, which may be cut anywhere."""
    if b"\\" not in text:
        return text
    for cut in range(min(7, len(text)) + 1):
        try:
            inside = text[: len(text) - cut].decode("utf-8", "surrogateescape")
            value: str = json.loads(f'"{inside}"', strict=False)
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
        self.pointer = Pointer(self.document, memory.weights)
        self.stops = Stops(self.document, memory.weights)
        self.chooser = Chooser(self.document.bag, memory.weights)
        self._text = text
        self._rendered: dict[str, Rendered] = {}
        self._ahead: dict[int, tuple[int, list[tuple[int, Floats | None]]]] = {}
        self._choices: dict[tuple[float, ...], Choice] = {}
        self._known: dict[int, tuple[int, list[tuple[int, int]]]] = {}

    def rendered(self, how: str) -> Rendered:
        """Everything the document has in one rendering."""
        found = self._rendered.get(how)
        if found is None:
            document = self.document
            pairs = render(how, self._text)
            if len(document.data) != len(self._text):
                pairs = [(len(self._text[:at].encode("utf-8", "surrogatepass")), value) for at, value in pairs]
            placed = [(document.word_at[at], value) for at, value in pairs if at in document.word_at]
            places: dict[bytes, list[int]] = {}
            for word, value in placed:
                places.setdefault(value, []).append(word)
            found = Rendered(np.array([w for w, _ in placed], dtype=np.int64), [v for _, v in placed], places)
            self._rendered[how] = found
        return found

    def glue_choice(self, node: Node, situation: Situation) -> Choice:
        """Chances of what comes after the value of `node`."""
        decision, end = node.glue, situation.end
        ahead = self._ahead.get(decision.salt)
        if ahead is None or ahead[0] != decision.version:
            ahead = self._ahead[decision.salt] = (decision.version, [self._ahead_of(o.following) for o in decision.outcomes])
        if end < len(self.document):
            facts = [
                (0, 0) if scores is None else (hash((salt, level := _level(scores[end]))) & 0xFFFFFFFF, 64 + level)
                for salt, scores in ahead[1]
            ]
        else:
            facts = [(0, 0) if scores is None else (hash((salt, 99)) & 0xFFFFFFFF, 99) for salt, scores in ahead[1]]
        return self._choose(decision, situation.features(node, self.document), facts)

    def _choose(self, decision: Decision, context: list[int], facts: list[tuple[int, int]]) -> Choice:
        """The choice, kept until the decision is taken again: it is asked for in drafting and once more in learning."""
        key = (decision.salt, decision.version, decision.total, *context)
        found = self._choices.get(key)
        if found is None:
            if len(self._choices) >= _MAX_KEPT:
                self._choices.clear()
            found = self._choices[key] = self.chooser.choose(decision, context, facts)
        return found

    def _ahead_of(self, following: Node | None) -> tuple[int, Floats | None]:
        if following is None or not following.copied:
            return 0, None
        return following.salt, self.pointer.ahead(following)

    def value_choice(self, node: Node, situation: Situation) -> Choice:
        """Chances of how the value of `node` comes about."""
        decision = node.value
        facts = self._facts(node)
        at = decision.positions.get((b"", "repeat"))
        if at is not None:
            facts = [*facts[:at], (100 + (node.salt in situation.last_values), 0), *facts[at + 1 :]]
        return self._choose(decision, situation.features(node, self.document), facts)

    def _facts(self, node: Node) -> list[tuple[int, int]]:
        """What the document says to each outcome of a value, as hashes: the same in all situations."""
        decision = node.value
        found = self._known.get(decision.salt)
        if found is None or found[0] != decision.version:
            facts = []
            for outcome in decision.outcomes:
                if outcome.how == "literal":
                    facts.append((300 + self._presence(outcome), 0))
                elif outcome.how == "copy":
                    facts.append((200 + _level(self.pointer.best(node)), 0))
                elif outcome.how == "repeat":
                    facts.append((0, 0))
                else:
                    facts.append((salt_of(outcome.how.encode(), min(len(self.rendered(outcome.how).texts), 3)), 0))
            found = self._known[decision.salt] = (decision.version, facts)
        return found[1]

    def _presence(self, outcome: Outcome) -> int:
        text = outcome.text.strip(b'"').lower()
        return 1 + (text in self.document.lowered) if len(text) > 1 else 0


def _level(score: float) -> int:
    return 0 if score < -8.0 else 16 if score > 8.0 else round(float(score)) + 8
