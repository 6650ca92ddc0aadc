"""What a value form is: a pure change of validated values into those that one consumer reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline.field_types import EXTRA, FieldType

Path = tuple[str | int, ...]
Fail = Callable[[Path, str], None]
"""Called with the place and the reason where a value cannot be carried over."""

CONTAINERS = frozenset({"struct", "map", "list"})
JSON_VALUE = FieldType("json", nullable=True)


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a record has no output in a profile; ``path`` is a JSON pointer (``/orders/0/amount``)."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.why}"


class Form(Protocol):
    """A change of values; ``output_type`` is the type of what ``convert`` gives for valid values.

    ``convert`` calls ``fail`` for what it cannot carry over and then gives any value; it never changes its input.
    """

    @property
    def output_type(self) -> FieldType: ...

    def convert(self, value: Any, fail: Fail) -> Any: ...


def members(type_: FieldType, value: dict[str, Any]) -> list[tuple[str, FieldType]]:
    """Name and type of every key of an object: a struct's fields, a map's values, a struct's additional keys."""
    fields = {f.name: f.type for f in type_.fields} if type_.kind == "struct" else {}
    rest = fields.get(EXTRA, type_)
    other = rest.item if rest.kind == "map" and rest.item is not None else JSON_VALUE
    return [(key, fields.get(key, other) if key != EXTRA else other) for key in value]


def item_types(type_: FieldType, num_items: int) -> list[FieldType]:
    """Type of every item of a list or tuple."""
    if not type_.is_tuple:
        return [type_.item or JSON_VALUE] * num_items
    known = [field.type for field in type_.fields][:num_items]
    return known + [JSON_VALUE] * (num_items - len(known))
