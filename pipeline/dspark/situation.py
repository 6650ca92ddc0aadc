"""What of the record written so far bears on what comes next."""

from __future__ import annotations

from pipeline.dspark.document import Document
from pipeline.dspark.memory import Decision, Node
from pipeline.dspark.weights import salt_of

_MAX_LITERAL_BYTES = 40
_NUM_LITERALS = 4


class Situation:
    """Where copying stands in the document, the last glue and literals, how often each path was written."""

    __slots__ = ("_history", "_written", "before", "end", "glues", "literals")

    def __init__(self) -> None:
        self.end = 0  # index of the word after the last copied value
        self.before = 0  # salt of the path that was copied last
        self.glues = (0, 0)
        # Hashes of the last short values with their paths, the latest first.
        self.literals: tuple[int, ...] = (0,) * _NUM_LITERALS
        # Salt of a path to (how often it was written, the last value).
        self._written: dict[int, tuple[int, bytes]] = {}
        self._history: list[int] | None = None

    def copy(self) -> Situation:
        other = Situation.__new__(Situation)
        other.end, other.before, other.glues, other.literals = self.end, self.before, self.glues, self.literals
        other._history = self._history
        other._written = self._written.copy()
        return other

    def after_glue(self, text: bytes) -> None:
        self.glues = (salt_of(text), self.glues[0])
        self._history = None

    def after_value(self, node: Node, text: bytes, end: int | None) -> None:
        """A value was written; `end` is the word after it where it was copied from the document."""
        self._written[node.salt] = (self._count(node) + 1, text)
        if len(text) <= _MAX_LITERAL_BYTES:
            self._history = None
            self.literals = (hash((5, node.salt, salt_of(text))) & 0xFFFFFFFF, *self.literals[:-1])
        if end is not None:
            self.end, self.before = end, node.salt

    def last(self, node: Node) -> bytes:
        """The last value of `node` in this record; empty where there was none."""
        written = self._written.get(node.salt)
        return b"" if written is None else written[1]

    def _count(self, node: Node) -> int:
        written = self._written.get(node.salt)
        return 0 if written is None else written[0]

    def key(self, node: Node, decision: Decision) -> tuple[object, ...]:
        """Equal where the features at `node` and all that is known of the decision are."""
        count = self._count(node)
        return decision.salt, decision.version, decision.total, self.end, self.glues, self.literals, min(count, 6)

    def features(self, node: Node, document: Document) -> list[int]:
        """Hashes for the decisions at `node`; always the same number."""
        hashes, at = document.hash_list, self.end + 2
        following = hashes[at] if at < len(hashes) else 7
        further = hashes[at + 1] if at + 1 < len(hashes) else 7
        count = self._count(node)
        return [
            *(self._history or self._hash_history()),
            hash((6, count if count < 6 else 6)) & 0xFFFFFFFF,
            hash((7, following)) & 0xFFFFFFFF,
            hash((8, following, further)) & 0xFFFFFFFF,
        ]

    def _hash_history(self) -> list[int]:
        glue, glue_before = self.glues
        latest, *older = self.literals
        self._history = [17, glue, hash((3, glue, glue_before)) & 0xFFFFFFFF, latest ^ 0x5BD1E995, *older]
        return self._history
