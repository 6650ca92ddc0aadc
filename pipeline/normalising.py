"""Numbers of a valid value in the form their field's type keeps, and the bounds that JSON Schema does not state."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pipeline.data import FieldError
from pipeline.field_types import EXTRA, FieldType
from pipeline.formats import is_base64
from pipeline.messages import got, path_text

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
Path = tuple[str | int, ...]


def normalise(type_: FieldType, value: Any) -> tuple[Any, list[FieldError]]:
    """The value with whole numbers as integers where the field is an integer, and errors for numbers out of range.

    ``3.0`` and ``1e3`` are valid integers in JSON Schema: they become ``3`` and ``1000``. An integer must fit the
    column (int64 unless ``x-arrow`` says otherwise), a number a double, a decimal its precision and scale.
    """
    errors: list[FieldError] = []

    def fail(path: Path, message: str, keyword: str) -> None:
        errors.append(FieldError(path_text(path), message, keyword))

    return _walk(type_, value, (), fail), errors


def _walk(type_: FieldType, value: Any, path: Path, fail: Callable[[Path, str, str], None]) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        if type_.kind == "base64" and not is_base64(value):
            fail(path, f"expected base64 text, got {got(value)}", "contentEncoding")
        return value
    if isinstance(value, dict):
        fields = {f.name: f.type for f in type_.fields} if type_.kind == "struct" else {}
        rest = fields.get(EXTRA, type_)
        other = rest.item if rest.kind == "map" and rest.item is not None else _JSON
        return {key: _walk(fields.get(key, other), item, (*path, key), fail) for key, item in value.items()}
    if isinstance(value, list):
        items = [f.type for f in type_.fields] if type_.is_tuple else [type_.item or _JSON] * len(value)
        items += [_JSON] * (len(value) - len(items))
        return [_walk(items[i], item, (*path, i), fail) for i, item in enumerate(value)]
    return _number(type_, value, path, fail)


def _number(type_: FieldType, value: Any, path: Path, fail: Callable[[Path, str, str], None]) -> Any:
    if type_.kind == "decimal":
        return _decimal(type_, value, path, fail)
    if type_.integral and not isinstance(value, int) and value == int(value):
        value = int(value)
    if isinstance(value, int) and (type_.kind == "integer" or (type_.integral and not type_.recursive)):
        low, high = -(2 ** (type_.bits - 1)), 2 ** (type_.bits - 1) - 1
        if not low <= value <= high:
            fail(path, f"expected a whole number from {low} to {high}, got {got(value)}", f"int{type_.bits}")
        return value
    if not math.isfinite(_double(value)):
        fail(path, f"the number is beyond the range of a double, got {got(value)}", "number")
    return value


def _decimal(type_: FieldType, value: Any, path: Path, fail: Callable[[Path, str, str], None]) -> Any:
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    _, digits, exponent = number.normalize().as_tuple() if number else (0, (0,), 0)
    assert isinstance(exponent, int)  # NaN and Infinity are no JSON
    if -exponent > type_.scale or len(digits) + exponent > type_.precision - type_.scale:
        fail(
            path,
            f"expected at most {type_.precision - type_.scale} digits before and {type_.scale} after the point, "
            f"got {got(value)}",
            "decimal",
        )
    return number if not isinstance(value, int) else value


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


_JSON = FieldType("json")
