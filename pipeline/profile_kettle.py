"""Values as Kettle's JSON step reads them safely: texts only, at most three levels, the same names in every row.

Levels count brackets: the record is level 1, a list in it 2, an object in that list 3. What lies deeper moves into the
level-3 container above it, under names joined by ``_``:

- an object's field ``city`` in ``address`` becomes ``address_city``;
- a list ``tags`` becomes ``tags_1``, ``tags_2``, … and ``tags_count`` (empty where the list is null), so that an empty
  list and null stay apart;
- a level-3 list of lists or objects becomes an object of the same names without a prefix: ``count``, ``1_city``.

Scalars become their JSON text without quotes; a place with no single type is its JSON text, as in Parquet. Null and
absent are the text of the option ``null`` (default empty); an object that is null, or without any value, has all its
fields so (one with free keys has its own name so). A real text equal to the null text in a nullable field, two values
under one name and a NUL character are losses; names that must collide are refused when the profile is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pipeline.errors import ConfigError, SchemaError
from pipeline.field_types import EXTRA, Field, FieldType
from pipeline.profile_form import CONTAINERS, JSON_VALUE, Fail, Path, item_types, members
from pipeline.strict_json import decimal_text, dumps

MAX_LEVELS = 3
_TEXT = FieldType("string")
_TEXTS = FieldType("map", item=_TEXT)


class KettleForm:
    """The ``kettle`` profile's values. Raises ConfigError for an unknown option, SchemaError for colliding names."""

    def __init__(self, type_: FieldType, options: Mapping[str, str]) -> None:
        for name in options:
            if name != "null":
                raise ConfigError(f"profile kettle has no option {name!r}", hint="known: null")
        self._type = type_
        self._null = options.get("null", "")
        self._output_type = self._output(type_, 1, "#")

    @property
    def output_type(self) -> FieldType:
        return self._output_type

    def convert(self, value: Any, fail: Fail) -> Any:
        return self._nested(self._type, value, 1, (), fail)

    def _nested(self, type_: FieldType, value: Any, level: int, path: Path, fail: Fail) -> Any:
        """A value that may keep its brackets, because its ``level`` is allowed."""
        if type_.kind not in CONTAINERS or (value is None and type_.kind != "struct"):
            return self._text(type_, value, path, fail)
        if level == MAX_LEVELS and _has_containers(type_):
            flat = _Flat(fail)
            self._flatten(type_, value, "", path, flat)
            return flat.texts
        if type_.kind == "list":
            kinds = item_types(type_, len(value))
            return [self._nested(kinds[i], item, level + 1, (*path, i), fail) for i, item in enumerate(value)]
        result = {}
        for name, child, item in _fields(type_, value):
            _check_text(name, (*path, name), fail)
            result[name] = self._nested(child, item, level + 1, (*path, name), fail)
        return result

    def _flatten(self, type_: FieldType, value: Any, name: str, path: Path, flat: _Flat) -> None:
        """Write a value that is too deep under ``name`` and names that start with it."""
        if type_.kind == "map" and not value and name:
            flat.put(name, self._null, path)
        elif type_.kind in ("struct", "map"):
            for key, child, item in _fields(type_, value):
                self._flatten(child, item, _join(name, key), (*path, key), flat)
        elif type_.kind == "list":
            flat.put(_join(name, "count"), self._null if value is None else str(len(value)), path)
            items = value or []
            kinds = item_types(type_, len(items))
            for index, item in enumerate(items):
                self._flatten(kinds[index], item, _join(name, str(index + 1)), (*path, index), flat)
        else:
            flat.put(name, self._text(type_, value, path, flat.fail), path)

    def _text(self, type_: FieldType, value: Any, path: Path, fail: Fail) -> str:
        if value is None and (type_.kind != "json" or type_.nullable):
            if not type_.nullable:
                fail(path, "no value in a field that must have one")
            return self._null
        if type_.kind == "json" or isinstance(value, dict | list):
            text = dumps(value)
        elif isinstance(value, str):
            text = value
        else:
            text = decimal_text(value) if isinstance(value, Decimal) else dumps(value)
        if text == self._null and type_.nullable:
            fail(path, f"the text {text!r} could not be told from null; choose another with kettle:null=TEXT")
        _check_text(text, path, fail)
        return text

    def _output(self, type_: FieldType, level: int, where: str, *, optional: bool = False) -> FieldType:
        optional = optional or type_.nullable
        if type_.kind not in CONTAINERS:
            return _TEXT
        if level == MAX_LEVELS and _has_containers(type_):
            names: dict[str, str] = {}
            complete = _static_names(type_, "", where, names)
            result = FieldType("struct", fields=tuple(Field(n, _TEXT, True) for n in names)) if complete else _TEXTS
        else:
            item = self._output(type_.item or JSON_VALUE, level + 1, f"{where}/*")
            fields = tuple(self._output_field(f, type_, level, where, optional) for f in type_.fields)
            result = replace(type_, nullable=False, item=item, fields=fields)
        # a list or map that may be missing: itself, or the null text in its place
        return replace(JSON_VALUE, nullable=False) if type_.kind != "struct" and optional else result

    def _output_field(self, field: Field, parent: FieldType, level: int, where: str, optional: bool) -> Field:
        if field.name == EXTRA:
            item = self._output(field.type.item or JSON_VALUE, level + 1, where)
            return replace(field, type=replace(field.type, item=item))
        missing = (optional or not field.required) and not parent.is_tuple
        type_ = self._output(field.type, level + 1, f"{where}/{field.name}", optional=missing)
        return Field(field.name, type_, field.required or not parent.is_tuple)


class _Flat:
    """The texts of one level-3 container by their names."""

    def __init__(self, fail: Fail) -> None:
        self.fail = fail
        self.texts: dict[str, str] = {}

    def put(self, name: str, text: str, path: Path) -> None:
        if name in self.texts:
            self.fail(path, f"two values would be called {name!r}")
        _check_text(name, path, self.fail)
        self.texts[name] = text


def _fields(type_: FieldType, value: dict[str, Any] | None) -> list[tuple[str, FieldType, Any]]:
    """Name, type and value of what an object has: every declared field, present or not, then further keys.

    The type is nullable where the value may be missing for any reason.
    """
    found = value or {}
    declared = {f.name: f for f in type_.fields if f.name != EXTRA} if type_.kind == "struct" else {}
    rest = [(key, kind, found[key]) for key, kind in members(type_, found) if key not in declared]
    result = []
    for name, field in declared.items():
        optional = value is None or type_.nullable or not field.required
        result.append((name, replace(field.type, nullable=True) if optional else field.type, found.get(name)))
    return [*result, *rest]


def _has_containers(type_: FieldType) -> bool:
    children = [f.type for f in type_.fields] + ([type_.item] if type_.item else [])
    return any(child.kind in CONTAINERS for child in children)


def _join(name: str, part: str) -> str:
    return f"{name}_{part}" if name else part


def _check_text(text: str, path: Path, fail: Fail) -> None:
    if "\0" in text:
        fail(path, "a NUL character would end the text early for readers in C")


def _static_names(type_: FieldType, name: str, where: str, names: dict[str, str]) -> bool:
    """Collect the names that flattening always writes; False where data add to them. Raises SchemaError on a clash."""
    if type_.kind == "struct":
        complete = True
        for f in type_.fields:
            if f.name == EXTRA:
                complete = False
            else:
                complete &= _static_names(f.type, _join(name, f.name), f"{where}/{f.name}", names)
        return complete
    if type_.kind == "map":
        return False
    name = _join(name, "count") if type_.kind == "list" else name
    if name in names:
        raise SchemaError(
            f"profile kettle would call this {name!r}, which is also the name of {names[name]}",
            path=where, hint="rename one of the fields",
        )  # fmt: skip
    names[name] = where
    return type_.kind != "list"
