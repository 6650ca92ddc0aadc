"""What may be written at each place, rewritten from the schema for a grammar: nothing valid becomes unreachable.

A shape is looser than or equal to the schema. Keys come in declared order, then undeclared ones where allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeline.alternatives import Expander, Node, both, literal_lists, matches, types_of
from pipeline.errors import SchemaError
from pipeline.patterns import pattern_ebnf
from pipeline.scalar_shapes import number_shape, text_shape
from pipeline.shapes import AnyValue, Choice, Constants, Fraction, Items, Members, Shape, Text, Whole
from pipeline.strict_json import dumps, whole_numbers

MAX_COUNTED_ITEMS = 1000
_CONSTRAINTS = (
    "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "pattern", "format", "items", "prefixItems", "minItems", "maxItems", "properties", "patternProperties",
    "additionalProperties", "propertyNames", "required", "maxProperties", "x-arrow",
)  # fmt: skip


def build_shapes(
    json_schema: Mapping[str, Any], *, max_list_items: int | None = None
) -> tuple[list[Shape], int, set[str]]:
    """(table, index of the root, places whose combinators were too large). Raises SchemaError where nothing fits.

    ``max_list_items`` ends a list without ``maxItems`` one item later, so that one that wants to go on is seen.
    """
    builder = _Builder(json_schema, max_list_items)
    root = builder.of(json_schema)
    table = _prune(builder.table, root)
    return table, root, builder.expander.dropped


class _Builder:
    def __init__(self, root: Mapping[str, Any], max_list_items: int | None) -> None:
        self._max_list_items = max_list_items
        self.expander = Expander(root)
        self.table: list[Shape] = []
        self._known: dict[str, int] = {}

    def of(self, node: Any) -> int:
        options = self.expander.alternatives(node)
        key = dumps(options)
        if key in self._known:
            return self._known[key]
        index = self._known[key] = self._add(Choice(()))
        found: list[int] = []
        for option in options:
            found += [self._add(shape) for shape in self._shapes(option)]
        shapes = list({self.table[i]: i for i in found}.values())
        if len(shapes) == 1:
            self.table[index] = self.table[shapes[0]]
        elif any(isinstance(self.table[i], AnyValue) for i in shapes):
            self.table[index] = AnyValue()
        else:
            self.table[index] = Choice(tuple(shapes))
        return index

    def _add(self, shape: Shape) -> int:
        self.table.append(shape)
        return len(self.table) - 1

    def _shapes(self, node: Node) -> list[Shape]:
        lists = literal_lists(node)
        kinds = types_of(node)
        if lists:
            texts = [dumps(whole_numbers(value)) for value in lists[0] if _has_type(value, kinds)]
            return [Constants(tuple(texts))] if texts else []
        if is_free(node):
            return [AnyValue()]
        return [self._shape(node, kind) for kind in kinds]

    def _shape(self, node: Node, kind: str) -> Shape:
        if kind == "string":
            return text_shape(node)
        if kind in ("integer", "number"):
            return number_shape(node, kind)
        if kind == "boolean":
            return Constants(("true", "false"))
        if kind == "null":
            return Constants(("null",))
        return self._items(node) if kind == "array" else self._members(node)

    def _items(self, node: Node) -> Shape:
        prefix = tuple(self.of(child) for child in node.get("prefixItems") or [])
        rest = node.get("items", True)
        fewest = int(node.get("minItems", 0))
        most = node.get("maxItems")
        if most is None and self._max_list_items is not None and rest is not False:
            most = max(self._max_list_items + len(prefix), fewest) + 1
        return Items(prefix, self.of(rest), min(fewest, MAX_COUNTED_ITEMS), None if most is None else int(most))

    def _members(self, node: Node) -> Shape:
        required = list(node.get("required") or [])
        patterns = node.get("patternProperties") or {}
        declared = dict(node.get("properties") or {})
        extra = node.get("additionalProperties", True)
        names = node.get("propertyNames", True)
        for name in required:
            if name not in declared:
                found = [child for pattern, child in patterns.items() if matches(pattern, name)]
                declared[name] = found[0] if found else extra
        properties = []
        for name, child in declared.items():
            schema = child
            for pattern, other in patterns.items():
                if matches(pattern, name):
                    schema = both(schema, other)
            properties.append((name, self.of(schema), name in required))
        extras: list[tuple[Text | Constants, int]] = []
        key = self._key(names)
        for pattern, child in patterns.items():
            content = pattern_ebnf(pattern)
            extras.append((Text(content=content[0]) if content and isinstance(key, Text) else key, self.of(child)))
        if extra is not False:
            extras.append((key, self.of(extra)))
        if node.get("maxProperties") == 0:
            return Members(tuple(p for p in properties if p[2]), ())
        return Members(tuple(properties), tuple(extras))

    def _key(self, names: Any) -> Text | Constants:
        """What ``propertyNames`` allows, as a string."""
        options = [shape for option in self.expander.alternatives(names) for shape in self._shapes(option)]
        texts = [shape for shape in options if isinstance(shape, Text | Constants)]
        strings = [text for shape in texts if isinstance(shape, Constants) for text in shape.texts if text[0] == '"']
        if len(texts) == 1 and isinstance(texts[0], Text):
            return texts[0]
        return Constants(tuple(strings)) if strings and all(isinstance(t, Constants) for t in texts) else Text()


def _prune(table: list[Shape], root: int) -> list[Shape]:
    """Remove what can never be completed (an impossible or endless value); SchemaError where that is the root."""
    alive: set[int] = set()
    changed = True
    while changed:
        changed = False
        for index, shape in enumerate(table):
            if index not in alive and _completes(shape, alive):
                alive.add(index)
                changed = True
    if root not in alive:
        raise SchemaError("no value can satisfy this schema", path="#", hint="a required part is impossible or endless")
    return [_without(shape, alive) for shape in table]


def _completes(shape: Shape, alive: set[int]) -> bool:
    if isinstance(shape, Choice):
        return any(option in alive for option in shape.options)
    if isinstance(shape, Members):
        return all(index in alive for _, index, required in shape.properties if required)
    if isinstance(shape, Items):
        needed = [*shape.prefix, *([shape.item] if shape.item is not None else [])][: shape.fewest]
        return (shape.most is None or shape.most >= shape.fewest) and all(index in alive for index in needed)
    if isinstance(shape, Whole):
        return shape.low is None or shape.high is None or shape.low <= shape.high
    if isinstance(shape, Text):
        return shape.longest is None or shape.shortest <= shape.longest
    return not isinstance(shape, Fraction) or shape.minus or shape.plus


def _without(shape: Shape, alive: set[int]) -> Shape:
    if isinstance(shape, Choice):
        return Choice(tuple(option for option in shape.options if option in alive))
    if isinstance(shape, Members):
        return Members(
            tuple(p for p in shape.properties if p[1] in alive), tuple(e for e in shape.extras if e[1] in alive)
        )
    if isinstance(shape, Items):
        for position, index in enumerate(shape.prefix):
            if index not in alive:
                return replace(shape, prefix=shape.prefix[:position], item=None)
        return shape if shape.item in alive else replace(shape, item=None)
    return shape


def is_free(node: Node) -> bool:
    """Whether any JSON value may be written (validation may still refuse some)."""
    return "type" not in node and not any(keyword in node for keyword in _CONSTRAINTS)


def _has_type(value: Any, kinds: list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, int | float) or (value is not None and not isinstance(value, str | list | dict)):
        return "number" in kinds or ("integer" in kinds and value == int(value))
    names = {str: "string", list: "array", dict: "object", type(None): "null"}
    return names[type(value)] in kinds
