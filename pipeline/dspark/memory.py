"""Bounded history of one schema in this engine: what stood at each JSON path of earlier records."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.dspark.estimates import Estimates
from pipeline.dspark.weights import Weights, salt_of

MAX_NODES = 2048
MAX_OUTCOMES = 24
MAX_SEEN = 256
MAX_TEXT_BYTES = 256


@dataclass(slots=True, eq=False)
class Outcome:
    """One way a decision went: a literal text, or a way of copying (`how` names it); `following` is the path after glue."""

    text: bytes
    how: str
    salt: int
    following: Node | None = None
    count: float = 0.0


@dataclass(slots=True, eq=False)
class Decision:
    """The ways one decision went in earlier records, at most MAX_OUTCOMES."""

    salt: int
    outcomes: list[Outcome] = field(default_factory=list)
    by_text: dict[tuple[bytes, str], Outcome] = field(default_factory=dict)
    total: float = 0.0
    version: int = 0

    def outcome(self, text: bytes, how: str, following: Node | None) -> Outcome:
        """The outcome of this text and kind, made where it is new; the least used one makes room."""
        found = self.by_text.get((text, how))
        if found is None:
            if len(self.outcomes) >= MAX_OUTCOMES:
                least = min(self.outcomes, key=lambda o: o.count)
                self.outcomes.remove(least)
                del self.by_text[least.text, least.how]
            found = Outcome(text, how, salt_of(text, salt_of(how.encode(), self.salt)), following)
            self.outcomes.append(found)
            self.by_text[text, how] = found
            self.version += 1
        return found


class Node:
    """One JSON path, array indices wild."""

    __slots__ = ("children", "copied", "glue", "key", "parent", "salt", "seen", "separators", "value")

    def __init__(self, key: bytes, parent: Node | None) -> None:
        self.key = key
        self.parent = parent
        self.salt = salt_of(key, (parent.salt * 31 + 7) & 0xFFFFFFFF if parent else 0)
        self.children: dict[bytes, Node] = {}
        self.value = Decision(self.salt ^ 0x11111111)
        self.glue = Decision(self.salt ^ 0x22222222)
        # Values met once; a second meeting makes a value an outcome.
        self.seen: dict[bytes, None] = {}
        # (text between two words, the word before is a sign) -> what was written for it -> how often
        self.separators: dict[tuple[bytes, bool], dict[bytes, int]] = {}
        self.copied = 0

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
    MAX_TEXT_BYTES; in practice tens of kilobytes. `weights` (2 MiB, fixed) may be shared by all schemas of an engine, so
    that a key learned in one helps in the next. Nothing grows with the number of documents.
    """

    def __init__(self, weights: Weights | None = None, estimates: Estimates | None = None) -> None:
        self.weights = weights if weights is not None else Weights()
        self.estimates = estimates if estimates is not None else Estimates()
        self.root = Node(b"", None)
        self.num_nodes = 1
        self.num_records = 0

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
