"""Raw output to a validated value, or to field errors worded for the model's second attempt.

Order: strict parse; the whole JSON Schema, formats included; numbers (int64, double and decimal ranges, ``3.0`` to
``3`` in integer fields); the Pydantic class with its validators, whose dump by alias is then the value and must satisfy
the schema again. A class runs in its own mode: the JSON Schema before it already refuses ``"1"`` for an int.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from pipeline.data import FieldError, RejectReason
from pipeline.formats import EXTRA_FORMATS
from pipeline.limits import Nul, nul_errors, with_list_limit, without_nul
from pipeline.messages import error_message, field_errors, got, path_text
from pipeline.normalising import normalise
from pipeline.schema import Schema
from pipeline.schema_types import field_type
from pipeline.set_order import in_order
from pipeline.strict_json import JsonTextError, decimal_text, dumps, loads
from pipeline.subschemas import walk

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Invalid", "Valid", "Validator", "error_message"]

_MAX_COLLECTED = 50
_SAFE_INT = 2**64


@dataclass(frozen=True, slots=True)
class Valid:
    """A value that satisfies the schema. Fractions that a double cannot hold are Decimals; ``json`` has every digit."""

    value: Any
    json: str


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a raw output is no record."""

    reason: Literal[RejectReason.INVALID_JSON, RejectReason.SCHEMA_MISMATCH]
    errors: tuple[FieldError, ...]


class Validator:
    """Validates raw outputs against one schema; build it once per worker.

    ``max_depth`` bounds nesting. ``max_list_items`` refuses longer lists where the schema sets no ``maxItems``.
    ``nul`` says what becomes of U+0000, which many stores refuse. Formats are checked unless the schema was loaded
    with ``formats="annotate"``. Raises SchemaError where the schema or its class cannot be loaded here.
    """

    def __init__(
        self, schema: Schema, *, max_depth: int = 128, max_list_items: int | None = None, nul: Nul = "keep"
    ) -> None:
        import jsonschema_rs

        self._max_depth = max_depth
        self._nul = nul
        self._type = field_type(schema)
        self._model: type[BaseModel] | None = schema.model_class()
        self._has_sets = any(isinstance(n, dict) and n.get("uniqueItems") is True for _, n in walk(schema.json_schema))
        self._checks = [
            jsonschema_rs.Draft202012Validator(
                document, validate_formats=schema.formats == "assert", formats=EXTRA_FORMATS, offline=True
            )
            for document in (with_list_limit(schema.json_schema, max_list_items), schema.original)
            if document is not None
        ]

    def validate(self, raw: str) -> Valid | Invalid:
        """Never raises for anything a model can write."""
        try:
            value = loads(raw, max_depth=self._max_depth)
        except JsonTextError as error:
            found = (FieldError("", error.message, "json"),)
            if error.number:
                return Invalid(RejectReason.SCHEMA_MISMATCH, found)
            return Invalid(RejectReason.INVALID_JSON, found)
        if self._nul != "keep" and "\\u0000" in raw:
            if self._nul == "reject" and (errors := nul_errors(value)):
                return Invalid(RejectReason.SCHEMA_MISMATCH, tuple(errors))
            value = without_nul(value)
        return self._validate_value(value)

    def _validate_value(self, value: Any) -> Valid | Invalid:
        errors = self._schema_errors(value)
        if not errors:
            value, errors = normalise(self._type, value)
        if errors:
            return Invalid(RejectReason.SCHEMA_MISMATCH, tuple(errors))
        if self._model is None:
            return Valid(value, dumps(value))
        return self._validate_class(value)

    def _schema_errors(self, value: Any) -> list[FieldError]:
        instance = _for_library(value)
        failed = next((check for check in self._checks if not check.is_valid(instance)), None)
        if failed is None:
            return []
        errors: dict[FieldError, None] = {}
        for error in failed.iter_errors(instance):
            errors.update(dict.fromkeys(field_errors(error)))
            if len(errors) >= _MAX_COLLECTED:
                break
        return list(errors) or [FieldError("", "does not satisfy the schema", "schema")]

    def _validate_class(self, value: Any) -> Valid | Invalid:
        from pydantic import ValidationError

        assert self._model is not None
        try:
            record = self._model.model_validate_json(dumps(_for_pydantic(value)))
        except ValidationError as error:
            found = [
                FieldError(path_text(item["loc"]), f"{item['msg']}, got {got(item.get('input'))}", item["type"])
                for item in error.errors(include_url=False)[:_MAX_COLLECTED]
            ]
            return Invalid(RejectReason.SCHEMA_MISMATCH, tuple(found))
        except Exception as error:  # a user's validator may raise anything; the row is at fault, not the job
            message = f"a validator of {self._model.__name__} raised {type(error).__name__}: {str(error)[:200]}"
            return Invalid(RejectReason.SCHEMA_MISMATCH, (FieldError("", message, "validator"),))
        return self._dump(record, value)

    def _dump(self, record: BaseModel, read: Any) -> Valid | Invalid:
        """Defaults are written out; where one does not fit its own field, only what was read is."""
        errors: list[FieldError] = []
        for exclude_unset in (False, True):
            try:
                text = record.model_dump_json(by_alias=True, round_trip=True, exclude_unset=exclude_unset)
                value = loads(text, max_depth=self._max_depth)
                if self._has_sets:
                    plain = record.model_dump(by_alias=True, round_trip=True, exclude_unset=exclude_unset)
                    value = in_order(plain, value, read)
            except Exception as error:  # a user's serialiser may raise anything
                errors = [FieldError("", f"the class cannot write this value: {str(error)[:200]}", "serialisation")]
                continue
            errors = self._schema_errors(value)
            if not errors:
                value, errors = normalise(self._type, value)
            if not errors:
                return Valid(value, dumps(value))
        return Invalid(RejectReason.SCHEMA_MISMATCH, tuple(errors))


def _for_library(value: Any) -> Any:
    """Integers beyond 64 bits as Decimals: the validator library takes those exactly, as ints it does not."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _SAFE_INT:
        return Decimal(value)
    if isinstance(value, dict):
        return {key: _for_library(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_for_library(item) for item in value]
    return value


def _for_pydantic(value: Any) -> Any:
    """Decimals as strings: Pydantic's JSON reader keeps 17 digits of a number, but all of a string."""
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, dict):
        return {key: _for_pydantic(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_for_pydantic(item) for item in value]
    return value
