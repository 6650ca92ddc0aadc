"""A Pydantic class to JSON Schema, with what JSON Schema cannot say carried in ``x-arrow`` and formats.

Decisions. ``Decimal``: a number or a plain decimal string; written by the model as a number, exact in the record as
a string. ``datetime``: a zone is required (RFC 3339); ``NaiveDatetime`` is local (``date-time-local``). ``time``: local
``hh:mm:ss``. ``timedelta``: an ISO 8601 duration, with sign and fraction. ``bytes``: the string's UTF-8. Names are
aliases; computed fields are no part of a record.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from pipeline.class_faults import check_class, models_of
from pipeline.errors import SchemaError
from pipeline.merge_policy import KEYWORDS

if TYPE_CHECKING:
    from pydantic_core import core_schema

DECIMAL_TEXT = r"^-?[0-9]+(\.[0-9]+)?$"
_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
_DEFAULT_PRECISION, _DEFAULT_SCALE = 38, 18


class _Generator(GenerateJsonSchema):
    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        number: JsonSchemaValue = {"type": "number"}
        for ours, theirs in _BOUNDS.items():
            if theirs in schema:
                number[ours] = _plain(schema[theirs])  # type: ignore[literal-required]
        if "multiple_of" in schema:
            number["multipleOf"] = _plain(schema["multiple_of"])
        precision = schema.get("max_digits") or _DEFAULT_PRECISION
        scale = schema.get("decimal_places")
        if scale is None:
            scale = min(_DEFAULT_SCALE, precision)
        return {
            "anyOf": [number, {"type": "string", "pattern": DECIMAL_TEXT}],
            "x-arrow": f"decimal128({min(precision, 38)}, {scale})",
        }

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "format": "date-time-local" if naive else "date-time"}

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "iso-duration"}  # JSON Schema's has no fraction and no sign

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "time" if schema.get("tz_constraint") == "aware" else "time-local"}


def _plain(number: Any) -> int | float:
    return int(number) if number == int(number) else float(number)


def class_json_schema(cls: type[BaseModel]) -> dict[str, Any]:
    """The class's JSON Schema, by alias, as the model writes it. Raises SchemaError where the class has none."""
    try:
        schema = cls.model_json_schema(by_alias=True, schema_generator=_Generator, mode="validation")
        written = cls.model_json_schema(by_alias=True, schema_generator=_Generator, mode="serialization")
    except PydanticInvalidForJsonSchema as error:
        raise SchemaError(f"{cls.__name__} has a type without JSON form: {error.message}") from error
    except PydanticUserError as error:
        raise SchemaError(f"{cls.__name__} is not complete: {error.message}") from error
    check_class(cls, schema, written)
    return schema


def source_fingerprint(cls: type[BaseModel]) -> str:
    """Hash of the sources of the class and of the models in its fields that carry validators; "" where none does.

    Comments and layout do not count, nor do merge policies: they are no part of what a validator decides.
    """
    parts = []
    for model in models_of(cls):
        decorators = model.__pydantic_decorators__
        if decorators.field_validators or decorators.model_validators or decorators.validators:
            try:
                parts.append(_plain_source(inspect.getsource(model)))
            except (OSError, TypeError, SyntaxError):
                parts.append(model.__qualname__)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _plain_source(source: str) -> str:
    tree = ast.parse(textwrap.dedent(source))
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        for keyword in call.keywords:
            if keyword.arg == "json_schema_extra" and isinstance(keyword.value, ast.Dict):
                pairs = zip(keyword.value.keys, keyword.value.values, strict=True)
                kept = [(k, v) for k, v in pairs if not (isinstance(k, ast.Constant) and k.value in KEYWORDS)]
                keyword.value.keys, keyword.value.values = [k for k, _ in kept], [v for _, v in kept]
        call.keywords = [k for k in call.keywords if k.arg != "json_schema_extra" or ast.unparse(k.value) != "{}"]
    return ast.unparse(tree)
