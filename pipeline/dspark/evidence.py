"""All that speaks for one continuation or another in one document: its words, and the models looking at them."""

from __future__ import annotations

import json
import re

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.chooser import Choice, Chooser
from pipeline.dspark.document import Document
from pipeline.dspark.memory import Memory, Node, Outcome
from pipeline.dspark.pointer import Pointer
from pipeline.dspark.renderings import render
from pipeline.dspark.situation import Situation
from pipeline.dspark.stops import Stops
from pipeline.dspark.weights import Weights, mix

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


class Evidence:
    """One document seen by the models of one memory; lives as long as the request."""

    def __init__(self, text: str, memory: Memory) -> None:
        self.document = Document(text)
        self.pointer = Pointer(self.document, memory.weights)
        self.stops = Stops(self.document, memory.weights)
        self.chooser = Chooser(self.document.bag, memory.weights)
        self._text = text
        self._rendered: dict[str, tuple[NDArray[np.int64], list[bytes]]] = {}
        self._known: dict[int, tuple[int, list[tuple[int, int]]]] = {}

    def rendered(self, how: str) -> tuple[NDArray[np.int64], list[bytes]]:
        """(word indices, texts as written) of everything the document has in one rendering."""
        found = self._rendered.get(how)
        if found is None:
            document = self.document
            pairs = render(how, self._text)
            if len(document.data) != len(self._text):
                pairs = [(len(self._text[:at].encode("utf-8", "surrogatepass")), value) for at, value in pairs]
            placed = [(document.word_at[at], value) for at, value in pairs if at in document.word_at]
            found = (np.array([w for w, _ in placed], dtype=np.int64), [v for _, v in placed])
            self._rendered[how] = found
        return found

    def glue_choice(self, node: Node, situation: Situation) -> Choice:
        """Chances of what comes after the value of `node`."""
        ahead, end, one = self.pointer.best_ahead, situation.end, Weights.index_one
        facts = []
        for outcome in node.glue.outcomes:
            following = outcome.following
            if following is None or not following.copied:
                facts.append((0, 0))
            else:
                level = _level(ahead(following, end))
                facts.append((one(hash((following.salt, level)) & 0xFFFFFFFF), 64 + level))
        return self.chooser.choose(node.glue, situation.features(node, self.document), facts)

    def value_choice(self, node: Node, situation: Situation) -> Choice:
        """Chances of how the value of `node` comes about."""
        decision = node.value
        facts = self._facts(node)
        if (b"", "repeat") in decision.by_text:
            at = decision.outcomes.index(decision.by_text[b"", "repeat"])
            facts = [*facts[:at], (Weights.index_one(mix(decision.salt, 100 + (node.salt in situation.last_values))), 0), *facts[at + 1 :]]
        return self.chooser.choose(decision, situation.features(node, self.document), facts)

    def _facts(self, node: Node) -> list[tuple[int, int]]:
        """What the document says to each outcome of a value, as table positions: the same in all situations."""
        decision = node.value
        found = self._known.get(decision.salt)
        if found is None or found[0] != decision.version:
            salt, one = decision.salt, Weights.index_one
            facts = []
            for outcome in decision.outcomes:
                if outcome.how == "literal":
                    facts.append((one(mix(salt, self._presence(outcome))), 0))
                elif outcome.how == "copy":
                    facts.append((one(mix(salt, 200 + _level(self.pointer.best_ahead(node, 0)))), 0))
                elif outcome.how == "repeat":
                    facts.append((0, 0))
                else:
                    facts.append((one(hash((salt, outcome.salt, min(len(self.rendered(outcome.how)[1]), 3))) & 0xFFFFFFFF), 0))
            found = self._known[decision.salt] = (decision.version, facts)
        return found[1]

    def _presence(self, outcome: Outcome) -> int:
        text = outcome.text.strip(b'"').lower()
        return 1 + (text in self.document.lowered) if len(text) > 1 else 0


def _level(score: float) -> int:
    return max(-8, min(8, round(score))) + 8
