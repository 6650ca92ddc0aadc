"""Values as typed Java readers (Gson, Jackson) want them: whole integers, epoch milliseconds, no stray null.

Zone rule: a zone written in the value wins; a date-time without one, and a date (its midnight), are taken in the
option ``tz`` (default UTC). A local time that the zone has twice is the earlier one. ``java.util.Date`` holds
milliseconds, so further digits are cut. ``decimals=number`` (default) writes every digit and no exponent,
``decimals=string`` the same digits as text.

Readers need typed classes: Gson makes a double of every number that it reads into a plain ``Map``.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pipeline.errors import ConfigError
from pipeline.field_types import EXTRA, Field, FieldType
from pipeline.profile_form import Fail, Path, item_types, members
from pipeline.schema_types import timestamp
from pipeline.strict_json import decimal_text

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_LONG = 2**63
_MAX_CHARS = 20_000_000
"""Longest string that Jackson reads with its default ``StreamReadConstraints``."""
_OPTIONS = ("tz", "decimals")


class JavaForm:
    """The ``java`` profile's values. Raises ConfigError for an option it does not know."""

    def __init__(self, type_: FieldType, options: Mapping[str, str]) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise ConfigError(f"profile java has no option {name!r}", hint=f"known: {', '.join(_OPTIONS)}")
        self._type = type_
        self._zone = _zone(options.get("tz", "UTC"))
        self._decimals = options.get("decimals", "number")
        if self._decimals not in ("number", "string"):
            raise ConfigError(f"profile java: decimals is {self._decimals!r}", hint="use number or string")

    @property
    def output_type(self) -> FieldType:
        return self._output(self._type)

    def convert(self, value: Any, fail: Fail) -> Any:
        return self._convert(self._type, value, (), fail)

    def _output(self, type_: FieldType) -> FieldType:
        if type_.kind in _TIMES:
            return FieldType("integer", type_.nullable, integral=True)
        if type_.kind == "decimal" and self._decimals == "string":
            return FieldType("string", type_.nullable)
        fields = tuple(Field(f.name, self._output(f.type), f.required) for f in type_.fields)
        return replace(type_, fields=fields, item=self._output(type_.item) if type_.item else None)

    def _convert(self, type_: FieldType, value: Any, path: Path, fail: Fail) -> Any:
        if value is None:
            if not type_.nullable:
                fail(path, "null in a field that must not be null")
            return None
        if isinstance(value, dict) and type_.kind in ("struct", "map"):
            for field in type_.fields:
                if field.required and field.name not in value and field.name != EXTRA:
                    fail((*path, field.name), "a required field is absent; a Java reader would make up 0 or null")
            return {key: self._convert(child, value[key], (*path, key), fail) for key, child in members(type_, value)}
        if isinstance(value, list) and type_.kind == "list":
            kinds = item_types(type_, len(value))
            return [self._convert(kinds[i], item, (*path, i), fail) for i, item in enumerate(value)]
        return self._scalar(type_, value, path, fail)

    def _scalar(self, type_: FieldType, value: Any, path: Path, fail: Fail) -> Any:
        kind = type_.kind
        if kind in _TIMES:
            try:
                return self._epoch_ms(kind, value)
            except (ValueError, TypeError, IndexError, AttributeError, OverflowError):
                fail(path, f"{value!r:.60} is no {kind.replace('_ntz', ' without zone')}")
        elif kind == "decimal":
            number = value if isinstance(value, Decimal) else Decimal(str(value))
            return decimal_text(number) if self._decimals == "string" else number
        elif kind == "integer":
            whole = value if isinstance(value, int) else int(value)
            if whole != value:
                fail(path, f"{value!r:.60} is no whole number")
            elif not -_LONG <= whole < _LONG:
                fail(path, f"{value!r:.60} is beyond a Java long")
            return whole
        elif isinstance(value, str) and len(value) > _MAX_CHARS:
            fail(path, f"a text of {len(value)} characters; Jackson reads at most {_MAX_CHARS}")
        return value

    def _epoch_ms(self, kind: str, value: str) -> int:
        if kind == "date":
            day = datetime.date.fromisoformat(value)
            moment = datetime.datetime(day.year, day.month, day.day, tzinfo=self._zone)
        else:
            moment = timestamp(value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=self._zone)
        return (moment - _EPOCH) // _MILLISECOND


def _zone(name: str) -> datetime.tzinfo:
    if name == "UTC":
        return datetime.UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"profile java: {name!r} is no time zone", hint="use an IANA name such as Europe/Berlin"
        ) from None
