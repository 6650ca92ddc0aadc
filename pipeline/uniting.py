"""Uniting what two passes over one text found: lists grow, everything else stays as the first pass said.

What is a list to grow and which of its items are the same comes from the merge policies (:mod:`pipeline.merge_policy`):
lists with the policy ``concat``, items told apart by their key, else by what they say. Case, width and white space make
no difference, and an item that says only a part of another one is not new: a second pass may spell things otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.folding import fold
from pipeline.merge_policy import FieldPolicy, MergePolicies
from pipeline.merging import Validates, identity, is_blank, is_part
from pipeline.schema_nodes import EMPTY, Node, resolve, types
from pipeline.strict_json import dumps
from pipeline.subschemas import walk
from pipeline.validation import Invalid


class Uniter:
    """Unites values of one schema; ``json_schema`` is canonical. Calling it is the extraction loop's ``unite``."""

    def __init__(self, json_schema: Mapping[str, Any], *, validator: Validates) -> None:
        self._policies = MergePolicies(json_schema)
        self._validator = validator
        self.has_lists = any(
            types(node) == ("array",) and self._policies.of(node, [[]]).policy == "concat"
            for node in (resolve(raw, json_schema) for _, raw in walk(json_schema))
        )

    def __call__(self, found: dict[str, Any], later: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
        """``found`` with the items that only ``later`` holds, and its canonical JSON; None where there are none.

        None too where the united value is not valid: what was found stays.
        """
        value = self._unite(self._policies.top, found, later)
        if value == found:
            return None
        verdict = self._validator.validate(dumps(value))
        return None if isinstance(verdict, Invalid) else (verdict.value, verdict.json)

    def _unite(self, node: Node, found: Any, later: Any) -> Any:
        telling = [value for value in (found, later) if not is_blank(value)]
        policy = self._policies.of(node, telling) if telling else None
        if policy is None or policy.policy not in ("fields", "concat") or isinstance(found, str):
            return found
        if policy.policy == "fields" and isinstance(found, Mapping) and isinstance(later, Mapping):
            return self._fields(node, found, later)
        if policy.policy == "concat" and isinstance(later, list):
            return self._items(node, policy, found or [], later)
        return found

    def _fields(self, node: Node, found: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
        united = {}
        for name in self._policies.names(node, [found, later]):
            value = self._unite(self._policies.child(node, name), found.get(name), later.get(name))
            if name in found or value is not None:  # a list that only the later pass has is one that grew
                united[name] = value
        return united

    def _items(self, node: Node, policy: FieldPolicy, found: list[Any], later: list[Any]) -> list[Any]:
        united = list(found)
        inner = self._policies.child(node, 0) if policy.key else EMPTY
        places: dict[str, list[int]] = {}  # where items of a name stand that no later item has been paired with
        for index, item in enumerate(found):
            places.setdefault(_name(item, policy.key), []).append(index)
        for item in later:
            name = _name(item, policy.key)
            if places.get(name):
                place = places[name].pop(0)
                if policy.key:
                    united[place] = self._unite(inner, united[place], item)
            elif is_blank(item) or any(is_part(item, other) for other in united) or (policy.key and name in places):
                continue
            elif policy.max_items is None or len(united) < policy.max_items:
                places.setdefault(name, [])
                united.append(item)
        return united


def _name(item: Any, key: tuple[str, ...]) -> str:
    """Equal for items that are the same."""
    if key and isinstance(item, Mapping) and not all(is_blank(item.get(name)) for name in key):
        item = [item.get(name) for name in key]
    return identity(_folded(item))


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return fold(value)
    if isinstance(value, Mapping):
        return {name: _folded(item) for name, item in value.items()}
    return [_folded(item) for item in value] if isinstance(value, list | tuple) else value
