"""Merging of chunk values into one document value: deterministic, typed, with every conflict recorded.

A value that is null, absent or an empty string says nothing and never conflicts. Lists are joined; an item counts once
where two chunks hold it (they overlap and repeat a preamble), but stays as often as one chunk alone holds it. An item
cut off at a chunk's border is dropped in favour of the complete one next to it. What is dropped is recorded.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from pipeline.data import FieldError
from pipeline.merge_policy import FieldPolicy, MergePolicies
from pipeline.messages import got
from pipeline.schema_nodes import Node
from pipeline.strict_json import dumps
from pipeline.validation import Invalid, Valid

_BORDER_ITEMS = 2
"""How many items next to a chunk's border can be cut off by it."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Chunks disagree about a field. ``path`` is a JSON pointer into the merged value; ``values`` are those seen."""

    path: str
    policy: str
    values: tuple[Any, ...]
    kept: Any
    fatal: bool = False

    @property
    def message(self) -> str:
        return f"{self.path or '/'}: the parts of the document disagree ({', '.join(map(got, self.values[:5]))})"


@dataclass(frozen=True, slots=True)
class Merged:
    """One document's value. With a fatal conflict (policy ``error``, ``maxItems``) it must not become a record.

    ``num_duplicates`` counts list items that were dropped because another chunk holds them.
    """

    value: dict[str, Any]
    conflicts: tuple[Conflict, ...]
    num_duplicates: int

    @property
    def fatal(self) -> tuple[Conflict, ...]:
        return tuple(conflict for conflict in self.conflicts if conflict.fatal)

    @property
    def errors(self) -> tuple[FieldError, ...]:
        return tuple(FieldError(conflict.path, conflict.message, "merge") for conflict in self.fatal)


class Validates(Protocol):
    """What merging asks of a validator: the merged value is checked again."""

    def validate(self, raw: str) -> Valid | Invalid: ...


class Merger:
    """Merges values of one schema; ``json_schema`` is canonical.

    Calling it is the extraction loop's merge: values in document order to (value, canonical JSON), or a text that
    says why there is no one value. With ``validator`` the merged value must be valid too.

    Raises:
        SchemaError: a wrong ``merge`` or ``key`` in the schema.
    """

    def __init__(self, json_schema: Mapping[str, Any], *, validator: Validates | None = None) -> None:
        self._policies = MergePolicies(json_schema)
        self._validator = validator

    def merge(self, values: Sequence[Mapping[str, Any]]) -> Merged:
        """Merge the values of a document's chunks, in document order; at least one."""
        assert values, "a document has at least one chunk"
        if len(values) == 1:
            return Merged(dict(values[0]), (), 0)
        work = _Merge(self._policies)
        merged = work.join(self._policies.top, list(values), "")
        return Merged(dict(merged), tuple(work.conflicts), work.num_duplicates)

    def __call__(self, values: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], str] | str:
        merged = self.merge(values)
        if merged.fatal:
            return "; ".join(conflict.message for conflict in merged.fatal)
        text = dumps(merged.value)
        if self._validator is None:
            return merged.value, text
        verdict = self._validator.validate(text)
        if isinstance(verdict, Valid):
            return verdict.value, verdict.json
        return "the merged value is not valid: " + "; ".join(
            f"{e.path or '/'}: {e.message}" for e in verdict.errors[:5]
        )


@dataclass(slots=True)
class _Merge:
    """One merge under way."""

    policies: MergePolicies
    conflicts: list[Conflict] = field(default_factory=list)
    num_duplicates: int = 0

    def join(self, node: Node, values: list[Any], path: str) -> Any:
        """One value out of ``values`` (at least one), which may hold blanks."""
        telling = [value for value in values if not is_blank(value)]
        if not telling:
            return next((value for value in values if value is not None), None)
        policy = self.policies.of(node, telling)
        if policy.policy == "fields":
            return self._fields(node, telling, path)
        if policy.policy == "concat" and isinstance(telling[0], list):
            return self._concat(node, policy, telling, path)
        return self._choose(policy, telling, path)

    def _fields(self, node: Node, values: list[Mapping[str, Any]], path: str) -> dict[str, Any]:
        return {
            name: self.join(self.policies.child(node, name), held, f"{path}/{_escape(name)}")
            for name in self.policies.names(node, values)
            if (held := [value[name] for value in values if name in value])
        }

    def _choose(self, policy: FieldPolicy, values: list[Any], path: str) -> Any:
        distinct: dict[str, Any] = {}
        for value in values:
            distinct.setdefault(identity(value), value)
        if len(distinct) == 1:
            return values[0]
        if policy.policy == "concat":
            return "\n".join(dict.fromkeys(str(value) for value in values))
        kept = _pick(policy.policy, values)
        self.conflicts.append(
            Conflict(path, policy.policy, tuple(distinct.values()), kept, fatal=policy.policy == "error")
        )
        return kept

    def _concat(self, node: Node, policy: FieldPolicy, lists: list[list[Any]], path: str) -> list[Any]:
        joined = self._by_key(node, policy.key, lists, path) if policy.key else self._by_equality(lists)
        if policy.max_items is not None and len(joined) > policy.max_items:
            self.conflicts.append(Conflict(path, "maxItems", tuple(joined), joined[: policy.max_items], fatal=True))
        return joined

    def _by_key(self, node: Node, key: tuple[str, ...], lists: list[list[Any]], path: str) -> list[Any]:
        """Items with equal keys become one, field by field; items without a key stay as they are."""
        groups: dict[str, list[Any]] = {}
        for items in lists:
            for item in items:
                named = isinstance(item, Mapping) and not all(is_blank(item.get(name)) for name in key)
                group = identity([item.get(name) for name in key]) if named else f"unnamed {len(groups)}"
                groups.setdefault(group, []).append(item)
        self.num_duplicates += sum(len(group) - 1 for group in groups.values())
        inner = self.policies.child(node, 0)
        return [
            group[0] if len(group) == 1 else self.join(inner, group, f"{path}/{index}")
            for index, group in enumerate(groups.values())
        ]

    def _by_equality(self, lists: list[list[Any]]) -> list[Any]:
        joined: list[Any] = []
        seen: Counter[str] = Counter()
        for items in self._without_cut_items(lists):
            here: Counter[str] = Counter()
            for item in items:
                name = identity(item)
                here[name] += 1
                if here[name] > seen[name]:
                    seen[name] += 1
                    joined.append(item)
                else:
                    self.num_duplicates += 1
        return joined

    def _without_cut_items(self, lists: list[list[Any]]) -> list[list[Any]]:
        """Objects at a border that hold less of the same than one on the other side of it are left out."""
        kept = [list(items) for items in lists]
        for left, right in itertools.pairwise(kept):
            tail, head = left[-_BORDER_ITEMS:], right[:_BORDER_ITEMS]
            cut_left = [item for item in tail if any(is_part(item, other) for other in head)]
            cut_right = [item for item in head if any(is_part(item, other) for other in tail)]
            left[-_BORDER_ITEMS:] = [item for item in tail if not any(item is cut for cut in cut_left)]
            right[:_BORDER_ITEMS] = [item for item in head if not any(item is cut for cut in cut_right)]
            self.num_duplicates += len(cut_left) + len(cut_right)
        return kept


def is_blank(value: Any) -> bool:
    """Null and empty strings say nothing about the document."""
    return value is None or (isinstance(value, str) and not value.strip())


def identity(value: Any) -> str:
    """Equal texts for values that are equal as JSON: ``1`` and ``1.0``, keys in any order."""
    return dumps(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return Decimal(str(value)).normalize() + 0


def _pick(policy: str, values: list[Any]) -> Any:
    if policy == "last":
        return values[-1]
    if policy == "max" and (
        all(isinstance(value, str) for value in values)
        or all(isinstance(value, int | float | Decimal) for value in values)
    ):
        return max(values)
    if policy == "vote":
        names = [identity(value) for value in values]
        return values[names.index(Counter(names).most_common(1)[0][0])]
    return values[0]


def is_part(item: Any, other: Any) -> bool:
    """True where ``item`` says a part of what ``other`` says, and nothing else."""
    if not isinstance(item, Mapping) or not isinstance(other, Mapping):
        return False
    said = {name: identity(value) for name, value in item.items() if not is_blank(value) and value != []}
    more = {name: identity(value) for name, value in other.items() if not is_blank(value) and value != []}
    return 0 < len(said) < len(more) and all(more.get(name) == value for name, value in said.items())


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
