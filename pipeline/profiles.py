"""Profiles: the output form that a consumer's own parser reads, as a pure function of record value and schema.

::

    spark             the value as it is (default)
    java[:tz=ZONE][,decimals=number|string]   see :mod:`pipeline.profile_java`
    kettle[:null=TEXT]                        see :mod:`pipeline.profile_kettle`
    ascii             every non-ASCII character as an escape, surrogate pairs beyond U+FFFF
    java+ascii        one that changes values, then ``ascii``, which changes only their text

A profile shapes ``records.jsonl``. Parquet keeps the user's types in every profile: dates and decimals are exact there.
A record that a profile cannot carry is a :class:`Loss`, never a changed value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import ConfigError
from pipeline.field_types import FieldType, infer
from pipeline.profile_form import Form, Loss, Path
from pipeline.profile_java import JavaForm
from pipeline.profile_kettle import KettleForm
from pipeline.profile_schema import json_schema_of
from pipeline.strict_json import dumps

__all__ = ["PROFILES", "Loss", "Profile", "load_profile"]

PROFILES = ("spark", "java", "kettle", "ascii")
_PLUS = re.compile(r"\+(?=[a-z]+(?:[:+]|\Z))")  # not the sign in tz=Etc/GMT+5
_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")  # JSON allows them in strings, some line readers split at them


class _SameForm:
    def __init__(self, type_: FieldType, options: Mapping[str, str]) -> None:
        self.output_type = type_

    def convert(self, value: Any, fail: Callable[[Path, str], None]) -> Any:
        return value


_FORMS: Mapping[str, Callable[[FieldType, Mapping[str, str]], Form]] = {
    "spark": _SameForm, "ascii": _SameForm, "java": JavaForm, "kettle": KettleForm,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profile:
    """One output form for one schema; pure and picklable. ``output_type`` describes the values it gives."""

    name: str
    form: Form
    is_ascii: bool

    @property
    def output_type(self) -> FieldType:
        return self.form.output_type

    @property
    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the values (without the id field)."""
        return json_schema_of(self.output_type)

    def to_value(self, value: Mapping[str, Any]) -> dict[str, Any] | Loss:
        """The value in this form, or the first reason why it has none. ``value`` is valid for the schema."""
        losses: list[Loss] = []
        result = self.form.convert(value, lambda path, why: losses.append(Loss(_pointer(path), why)))
        return losses[0] if losses else dict(result)

    def to_line(self, doc_id: str, id_field: str, value: Mapping[str, Any]) -> str | Loss:
        """One line of JSON Lines without its end: ``id_field`` first (none where it is empty), then the fields."""
        result = self.to_value(value)
        if isinstance(result, Loss):
            return result
        if id_field:
            if id_field in result:
                return Loss(_pointer((id_field,)), "the record has a key of the id field's name")
            result = {id_field: doc_id, **result}
        return (_NON_ASCII if self.is_ascii else _LINE_ENDS).sub(_escape, dumps(result))


def load_profile(name: str, schema: Mapping[str, Any]) -> Profile:
    """The profile of that name (``java``, ``java:tz=Asia/Shanghai+ascii``) for a canonical JSON Schema.

    Raises ConfigError for an unknown name or option and for two profiles that both change values, SchemaError where
    the schema cannot be written in the profile.
    """
    parts = [_parse(part) for part in _PLUS.split(name)]
    names = [part for part, _ in parts]
    if len(set(names)) < len(names):
        raise ConfigError(f"profile {name!r} names one part twice")
    changing = [(part, options) for part, options in parts if part not in ("ascii", "spark")]
    if len(changing) > 1:
        raise ConfigError(
            f"profile {name!r}: {changing[0][0]} and {changing[1][0]} both change values", hint="choose one"
        )
    for part, options in parts:
        if options and part in ("ascii", "spark"):
            raise ConfigError(f"profile {part} has no options", hint="java:tz=…,decimals=… and kettle:null=… have")
    kind, options = (changing or parts)[0]
    return Profile(name, _FORMS[kind](infer(schema), options), is_ascii="ascii" in names)


def _parse(part: str) -> tuple[str, dict[str, str]]:
    kind, _, text = part.partition(":")
    if kind not in PROFILES:
        raise ConfigError(
            f"unknown profile {kind!r}", hint=f"known: {', '.join(PROFILES)}, and java+ascii, kettle+ascii"
        )
    options = {}
    for item in text.split(",") if text else []:
        key, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"profile {kind}: {item!r} is no option", hint="write name=value")
        options[key] = value
    return kind, options


def _pointer(path: Path) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
