"""Scores of one extracted value against the right one, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipeline.schema_nodes import EMPTY, Node, child, resolve
from pipeline.value_equality import Mode, comparable, is_equal, is_nothing

_MAX_PAIRS = 40_000


@dataclass(slots=True)
class Tally:
    """True positives, false positives and false negatives; a wrong value is one of each of the last two."""

    tp: int = 0
    fp: int = 0
    fn: int = 0

    def add(self, other: Tally) -> None:
        self.tp += other.tp
        self.fp += other.fp
        self.fn += other.fn

    @property
    def precision(self) -> float:
        """1 where nothing was extracted."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 1.0

    @property
    def recall(self) -> float:
        """1 where there was nothing to extract."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 1.0

    @property
    def f1(self) -> float:
        errors = self.fp + self.fn
        return 2 * self.tp / (2 * self.tp + errors) if self.tp or errors else 1.0


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not as it should be; ``path`` is a JSON pointer into the right value, or the extracted one."""

    path: str
    kind: Literal["wrong", "missing", "extra"]
    gold: Any
    predicted: Any


@dataclass(slots=True)
class DocumentScore:
    """Tallies by field (list indices as ``*``), differences, and for every extracted leaf whether it is right."""

    fields: dict[str, Tally] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    leaves: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def total(self) -> Tally:
        """All leaf fields together; counts of whole list items (``/orders``) are left out."""
        total = Tally()
        for name, tally in self.fields.items():
            if not name.endswith("[]"):
                total.add(tally)
        return total

    @property
    def is_match(self) -> bool:
        return not self.differences


@dataclass(frozen=True, slots=True)
class _Place:
    """The field, and pointers into the right and into the extracted value."""

    name: str = ""
    at: str = ""
    found_at: str = ""

    def below(self, step: str, at: object, found_at: object) -> _Place:
        return _Place(f"{self.name}/{step}", f"{self.at}/{at}", f"{self.found_at}/{found_at}")


def score_document(gold: Any, predicted: Any, json_schema: Node | None = None, *, mode: Mode) -> DocumentScore:
    """Compare an extracted value with the right one.

    Null, absent and empty are the same. Lists are sets: items are paired by the schema's ``key``, else by how much of
    them is equal. The field ``/orders[]`` counts items: found by key, or without key as a whole.
    """
    root = json_schema or EMPTY
    work = _Scoring(root, mode)
    work.compare(gold, predicted, resolve(root, root), _Place())
    return work.score


class _Scoring:
    def __init__(self, root: Node, mode: Mode) -> None:
        self._root = root
        self._mode = mode
        self.score = DocumentScore()

    def compare(self, gold: Any, predicted: Any, node: Node, place: _Place) -> None:
        if is_nothing(gold) and is_nothing(predicted):
            return
        kinds = [type_ for type_ in (_kind(gold), _kind(predicted)) if type_ != "nothing"]
        if len(set(kinds)) > 1 or kinds[0] == "leaf":
            self._leaf(gold, predicted, place)
        elif kinds[0] == "object":
            left = gold if isinstance(gold, Mapping) else EMPTY
            right = predicted if isinstance(predicted, Mapping) else EMPTY
            for key in dict.fromkeys([*left, *right]):
                step = key.replace("~", "~0").replace("/", "~1")
                inner = child(node, key, self._root)
                self.compare(left.get(key), right.get(key), inner, place.below(step, step, step))
        else:
            left_items = gold if isinstance(gold, list) else []
            self._lists(left_items, predicted if isinstance(predicted, list) else [], node, place)

    def _leaf(self, gold: Any, predicted: Any, place: _Place) -> None:
        tally = self.score.fields.setdefault(place.name or "/", Tally())
        if is_nothing(predicted):
            tally.fn += 1
            self.score.differences.append(Difference(place.at, "missing", gold, None))
            return
        if is_nothing(gold):
            tally.fp += 1
            self.score.differences.append(Difference(place.found_at, "extra", None, predicted))
            self.score.leaves.append((place.found_at, False))
            return
        same = is_equal(gold, predicted, self._mode)
        self.score.leaves.append((place.found_at, same))
        if same:
            tally.tp += 1
        else:
            tally.fp += 1
            tally.fn += 1
            self.score.differences.append(Difference(place.at, "wrong", gold, predicted))

    def _lists(self, gold: list[Any], predicted: list[Any], node: Node, place: _Place) -> None:
        key = node.get("key")
        keys = [key] if isinstance(key, str) else list(key or ())
        inner = child(node, 0, self._root)
        left = [(i, item) for i, item in enumerate(gold) if not is_nothing(item)]
        right = [(i, item) for i, item in enumerate(predicted) if not is_nothing(item)]
        scalar = not any(isinstance(item, Mapping | list) for _, item in left + right)
        pairs, num_found = self._pair(left, right, keys, scalar)
        items = self.score.fields.setdefault(f"{place.name}[]", Tally()) if not scalar else Tally()
        items.add(Tally(num_found, len(right) - num_found, len(left) - num_found))
        for (i, item), (j, other) in pairs:
            self.compare(item, other, inner, place.below("*", i, j))
        paired = {i for (i, _), _ in pairs}, {j for _, (j, _) in pairs}
        for i, item in left:
            if i not in paired[0]:
                self.compare(item, None, inner, place.below("*", i, "-"))
        for j, other in right:
            if j not in paired[1]:
                self.compare(None, other, inner, place.below("*", "-", j))

    def _pair(
        self, left: list[tuple[int, Any]], right: list[tuple[int, Any]], keys: list[str], scalar: bool
    ) -> tuple[list[tuple[tuple[int, Any], tuple[int, Any]]], int]:
        """Items that belong together, and how many items count as found."""
        pairs = []
        waiting: dict[str, list[tuple[int, Any]]] = {}
        for entry in right:
            waiting.setdefault(self._name(entry[1], keys), []).append(entry)
        rest = []
        for entry in left:
            same = waiting.get(self._name(entry[1], keys))
            if same:
                pairs.append((entry, same.pop(0)))
            else:
                rest.append(entry)
        num_found = len(pairs)
        if keys or scalar:
            return pairs, num_found
        others = [entry for entries in waiting.values() for entry in entries]
        if len(rest) * len(others) > _MAX_PAIRS:
            return pairs + list(zip(rest, sorted(others), strict=False)), num_found
        alike = [(-self._likeness(a[1], b[1]), a[0], b[0], a, b) for a in rest for b in others]
        used: tuple[set[int], set[int]] = set(), set()
        for likeness, i, j, a, b in sorted(alike, key=lambda item: item[:3]):
            if likeness < 0 and i not in used[0] and j not in used[1]:
                used[0].add(i)
                used[1].add(j)
                pairs.append((a, b))
        return sorted(pairs, key=lambda pair: pair[0][0]), num_found

    def _name(self, item: Any, keys: list[str]) -> str:
        if keys and isinstance(item, Mapping):
            return comparable([item.get(key) for key in keys], self._mode)
        return comparable({k: v for k, v in item.items() if not is_nothing(v)} if isinstance(item, Mapping) else item,
                          self._mode)  # fmt: skip

    def _likeness(self, left: Any, right: Any) -> int:
        inner = _Scoring(self._root, self._mode)
        inner.compare(left, right, EMPTY, _Place())
        return inner.score.total.tp


def _kind(value: Any) -> str:
    if is_nothing(value):
        return "nothing"
    return "object" if isinstance(value, Mapping) else "list" if isinstance(value, list) else "leaf"
