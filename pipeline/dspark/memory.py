"""Bounded history of one schema in this engine: what stood at each JSON path of earlier records."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.dspark.admission import Admission
from pipeline.dspark.document import hash_of_first_word
from pipeline.dspark.estimates import Estimates
from pipeline.dspark.spellings import Spellings
from pipeline.dspark.weights import Floats, Hashes, Weights, salt_of

MAX_NODES = 1024
MAX_OUTCOMES = 24
MAX_SEEN = 128
MAX_SLOTS = 128
# A path copied so often has a slot.
_OFTEN = 4
MAX_TEXT_BYTES = 96
_FORGET_AT = 2000.0
DOMINANT = 0.98
_LOOK_EVERY = 16.0

_BRACKETS = re.compile(rb"[][{}]")

Slots = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One way a decision went: a literal text, or a way of copying (`how`); `following` is the path after glue.

    `needle` is the text as it is looked for in lower-cased documents, `first_word` the hash of its first word there.
    `is_flat` says that it has no bracket, `is_quoted` that it is sure to be a string.
    """

    text: bytes
    how: str
    following: Node | None
    needle: bytes
    first_word: int
    is_flat: bool
    is_quoted: bool


def _outcome(text: bytes, how: str, following: Node | None) -> Outcome:
    needle = text.strip(b'"').lower()
    is_quoted = text.startswith(b'"') if how == "literal" else how == "copy" or how.startswith("date")
    return Outcome(text, how, following, needle, hash_of_first_word(needle), not _BRACKETS.search(text), is_quoted)


class Decision:
    """The ways one decision went, at most MAX_OUTCOMES; `counts[k]` and `salts[k]` belong to outcome k."""

    __slots__ = (
        "counts",
        "dominant",
        "outcomes",
        "positions",
        "salt",
        "salts",
        "slots",
        "slots_key",
        "total",
        "version",
    )

    def __init__(self, salt: int) -> None:
        self.salt = salt
        self.outcomes: list[Outcome] = []
        self.positions: dict[tuple[bytes, str], int] = {}
        self.counts: Floats = np.zeros(MAX_OUTCOMES, dtype=np.float32)
        self.salts: Hashes = np.zeros(MAX_OUTCOMES, dtype=np.uint32)
        self.total = 0.0
        self.version = 0
        # The outcome that is nearly always taken, looked for now and then; -1 where there is none.
        self.dominant = -1
        self.slots: Slots = np.zeros(0, dtype=np.int64)
        self.slots_key = (-1, -1)

    def position(self, text: bytes, how: str, following: Node | None = None) -> int:
        """Where the outcome of this text and kind stands, made where it is new; the least used one makes room."""
        found = self.positions.get((text, how))
        if found is None:
            outcome = _outcome(text, how, following)
            found = len(self.outcomes)
            if found < MAX_OUTCOMES:
                self.outcomes.append(outcome)
            else:
                found = int(self.counts.argmin())
                least = self.outcomes[found]
                del self.positions[least.text, least.how]
                self.outcomes[found] = outcome
            self.positions[text, how] = found
            self.salts[found] = salt_of(text, salt_of(how.encode(), self.salt))
            self.counts[found] = 0.0
            self.version += 1
        return found

    def count(self, position: int, part: float) -> None:
        """Outcome `position` was taken, as far as `part`."""
        self.counts[position] += part
        if position != self.dominant:
            self.dominant = -1

    def close(self) -> None:
        """One taking of the decision has been counted; old ones fade, so that the history follows a change."""
        self.total += 1.0
        if self.total % _LOOK_EVERY == 0.0:
            top = int(self.counts.argmax())
            self.dominant = top if self.counts[top] > DOMINANT * self.total else -1
        if self.total > _FORGET_AT:
            self.total *= 0.5
            self.counts *= np.float32(0.5)


class Node:
    """One JSON path, array indices wild."""

    __slots__ = (
        "children",
        "copied",
        "glue",
        "key",
        "name_words",
        "parent",
        "salt",
        "seen",
        "separators",
        "slot",
        "typical",
        "value",
    )

    def __init__(self, key: bytes, parent: Node | None) -> None:
        self.key = key
        self.parent = parent
        self.salt: int = salt_of(key, (parent.salt * 31 + 7) & 0xFFFFFFFF if parent else 0)
        self.children: dict[bytes, Node] = {}
        self.name_words: tuple[str, ...] | None = None  # of the key, filled when first asked for
        self.value = Decision(self.salt ^ 0x11111111)
        self.glue = Decision(self.salt ^ 0x22222222)
        # Values met once; a second meeting makes a value an outcome.
        self.seen: dict[bytes, None] = {}
        # (text between two words, the word before is a sign) -> what was written for it -> how often
        self.separators: dict[tuple[bytes, bool], dict[bytes, int]] = {}
        self.copied = 0
        # How sure the first claims on its values are on average.
        self.typical = 1.0
        # Row of this path in the tables of start scores; -1 while it is seldom copied.
        self.slot = -1

    @property
    def always_quoted(self) -> bool:
        """Whether all values met here are strings."""
        return bool(self.value.outcomes) and all(o.is_quoted for o in self.value.outcomes)

    def meet(self, text: bytes) -> bool:
        """Whether `text` was met here before, among the last MAX_SEEN values."""
        if text in self.seen:
            del self.seen[text]
            self.seen[text] = None
            return True
        self.seen[text] = None
        if len(self.seen) > MAX_SEEN:
            del self.seen[next(iter(self.seen))]
        return False


class Memory:
    """What the records of one schema have taught so far.

    Bound: at most MAX_NODES paths, each with two decisions of at most MAX_OUTCOMES texts and MAX_SEEN values of at most
    MAX_TEXT_BYTES: about 120 MiB at the very worst, below one in practice. `weights` (2 MiB) and `estimates` may be
    shared by all schemas of an engine, so that a key learned in one helps in the next. Nothing grows with the number
    of documents.
    """

    def __init__(self, weights: Weights | None = None, estimates: Estimates | None = None) -> None:
        self.weights = weights if weights is not None else Weights()
        self.estimates = estimates if estimates is not None else Estimates()
        self.root = Node(b"", None)
        self.num_nodes = 1
        self.num_records = 0
        self.token_bytes = 4.0
        self.spellings = Spellings()
        self.admission = Admission()
        self.slot_salts: Hashes = np.zeros(MAX_SLOTS, dtype=np.uint32)
        self.num_slots = 0

    def copied(self, node: Node) -> None:
        """The value of `node` was copied from a document once more."""
        node.copied += 1
        if node.slot < 0 and node.copied >= _OFTEN and self.num_slots < MAX_SLOTS:
            node.slot = self.num_slots
            self.slot_salts[node.slot] = node.salt
            self.num_slots += 1

    def slots_after(self, decision: Decision) -> Slots:
        """The slots of the paths that follow a glue decision's outcomes."""
        key = (decision.version, self.num_slots)
        if decision.slots_key != key:
            found = [-1 if o.following is None else o.following.slot for o in decision.outcomes]
            decision.slots_key, decision.slots = key, np.array(found, dtype=np.int64)
        return decision.slots

    def child(self, node: Node, key: bytes) -> Node:
        """The node of `key` below `node`; beyond MAX_NODES all new keys of a node share one."""
        found = node.children.get(key)
        if found is None:
            if self.num_nodes >= MAX_NODES or len(key) > MAX_TEXT_BYTES:
                key = b"*"
                found = node.children.get(key)
                if found is not None:
                    return found
                if self.num_nodes >= 2 * MAX_NODES:
                    return node
            found = Node(key, node)
            node.children[key] = found
            self.num_nodes += 1
        return found
