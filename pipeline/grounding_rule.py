"""Grounding rule: what happens to values that stand nowhere in their document."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.data import FieldError
from pipeline.errors import ConfigError
from pipeline.grounding import Span
from pipeline.schema_nodes import EMPTY, Node, child, resolve, types

_OPEN = ("anyOf", "oneOf", "allOf", "if", "patternProperties", "dependentSchemas", "prefixItems")


@dataclass(frozen=True, slots=True)
class Ruled:
    """A value after the rule. With ``errors`` the record must be rejected; ``num_nulled`` values became null."""

    value: Any
    errors: tuple[FieldError, ...] = ()
    num_nulled: int = 0


@dataclass(frozen=True)
class GroundingRule:
    """Fields whose values must stand in the document.

    A path is a JSON pointer; ``*`` stands for any step, and a path covers everything below it: ``/orders/*/amount``,
    ``/orders``, ``/`` for all. A field name without slash is taken as a top-level field. ``reject`` gives an error per
    value, ``null`` replaces the value, which the caller validates again (a field may not allow null).

    Raises:
        ConfigError: a blank path.
    """

    paths: tuple[str, ...]
    mode: Literal["reject", "null"] = "reject"

    def __post_init__(self) -> None:
        if any(not path.strip() for path in self.paths):
            raise ConfigError("require_grounding: a path is blank", hint="write a field as /orders/*/amount")

    def check(self, json_schema: Node) -> None:
        """Check that the fields exist.

        Raises:
            ConfigError: no value of the schema has anything at a path.
        """
        for path in self.paths:
            nodes = [resolve(json_schema, json_schema)]
            for step in _steps(_rooted(path)):
                nodes = [below for node in nodes for below in _below(node, step, json_schema)]
            if not nodes:
                known = ", ".join(json_schema.get("properties", EMPTY))
                raise ConfigError(f"require_grounding: the schema has no field {path}", hint=f"its fields are {known}")

    def apply(self, value: Any, spans: Iterable[Span]) -> Ruled:
        """The value under the rule; ``spans`` are those of exactly this value, which is not changed."""
        missing = [span.path for span in spans if span.kind == "none" and self._covers(span.path)]
        if not missing:
            return Ruled(value)
        if self.mode == "reject":
            return Ruled(
                value, tuple(FieldError(path, "stands nowhere in the document", "grounding") for path in missing)
            )
        changed = copy.deepcopy(value)
        for path in missing:
            _set_null(changed, _steps(path))
        return Ruled(changed, num_nulled=len(missing))

    def _covers(self, path: str) -> bool:
        steps = _steps(path)
        return any(_matches(_steps(_rooted(pattern)), steps) for pattern in self.paths)


def _rooted(path: str) -> str:
    return path if path.startswith("/") else "/" + path


def _below(node: Node, step: str, root: Node) -> list[Node]:
    """What a step can lead to; an empty node where the schema leaves it open."""
    kinds = types(node)
    if not kinds or any(keyword in node for keyword in _OPEN):
        return [EMPTY]
    found: list[Node] = []
    if "array" in kinds and (step == "*" or step.isdigit()):
        found.append(child(node, int(step) if step.isdigit() else 0, root))
    if "object" in kinds:
        properties = node.get("properties", EMPTY)
        names = list(properties) if step == "*" else [step] if step in properties else []
        found += [child(node, name, root) for name in names]
        if not names and node.get("additionalProperties", True) is not False:
            found.append(EMPTY)
    return found


def _steps(path: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:] if step]


def _matches(pattern: Sequence[str], steps: Sequence[str]) -> bool:
    return len(pattern) <= len(steps) and all(p in ("*", step) for p, step in zip(pattern, steps, strict=False))


def _set_null(value: Any, steps: list[str]) -> None:
    for step in steps[:-1]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    last = steps[-1]
    value[int(last) if isinstance(value, list) else last] = None
