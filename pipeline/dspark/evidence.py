"""All that speaks for one continuation or another in one document: its words, and the models looking at them."""

from __future__ import annotations

import json
import re

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.chooser import Choice, Chooser
from pipeline.dspark.document import Document
from pipeline.dspark.memory import Decision, Memory, Node, Outcome
from pipeline.dspark.pointer import Pointer
from pipeline.dspark.renderings import RENDERINGS, render
from pipeline.dspark.situation import Situation
from pipeline.dspark.stops import Stops
from pipeline.dspark.weights import mix, salt_of

_SPECIAL = re.compile(rb'[\x00-\x1f"\\]')
_FACT_SALTS = {how: salt_of(how.encode()) for how in ("copy", "literal", "repeat", "glue", *RENDERINGS)}


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
        self._present: dict[int, tuple[int, list[int]]] = {}

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
        """Probabilities of what comes after the value of `node`."""
        ahead, end = self.pointer.best_ahead, situation.end
        facts = []
        for outcome in node.glue.outcomes:
            following = outcome.following
            if following is None or not following.copied:
                facts.append([0, 0])
            else:
                level = _level(ahead(following, end))
                facts.append([mix(following.salt, level), mix(_FACT_SALTS["glue"], level)])
        return self.chooser.choose(node.glue, situation.features(node, self.document), facts)

    def value_choice(self, node: Node, situation: Situation) -> Choice:
        """Probabilities of how the value of `node` comes about."""
        decision = node.value
        present = self._presence(decision)
        facts = []
        for outcome, there in zip(decision.outcomes, present, strict=True):
            if outcome.how == "literal":
                facts.append([mix(_FACT_SALTS["literal"], there)])
            elif outcome.how == "repeat":
                facts.append([mix(_FACT_SALTS["repeat"], node.salt in situation.last_values)])
            elif outcome.how == "copy":
                facts.append([mix(_FACT_SALTS["copy"], _level(self.pointer.best_ahead(node, 0)))])
            else:
                facts.append([mix(_FACT_SALTS[outcome.how], min(len(self.rendered(outcome.how)[1]), 3))])
        return self.chooser.choose(decision, situation.features(node, self.document), facts)

    def _presence(self, decision: Decision) -> list[int]:
        found = self._present.get(decision.salt)
        if found is None or found[0] != decision.version:
            found = (decision.version, [self._is_present(o) for o in decision.outcomes])
            self._present[decision.salt] = found
        return found[1]

    def _is_present(self, outcome: Outcome) -> int:
        if outcome.how != "literal":
            return 0
        text = outcome.text.strip(b'"').lower()
        return 1 + (text in self.document.lowered) if len(text) > 1 else 0


def _level(score: float) -> int:
    return max(-8, min(8, round(score))) + 8
