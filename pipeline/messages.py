"""Validation errors in words that a model can act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.data import FieldError
from pipeline.formats import FORMAT_EXAMPLES
from pipeline.strict_json import dumps
from pipeline.subschemas import pointer

MAX_ERRORS = 8
_MAX_GOT = 80
_MAX_OPTIONS = 20


def got(value: Any) -> str:
    """A value as short JSON."""
    try:
        text = dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _MAX_GOT else text[: _MAX_GOT - 1] + "…"


def error_message(errors: Sequence[FieldError]) -> str:
    """One line per error, for the prompt of the second attempt: ``- /orders/0/amount: expected …, got …``."""
    lines = [f"- {error.path or 'the whole answer'}: {error.message}" for error in errors[:MAX_ERRORS]]
    if len(errors) > MAX_ERRORS:
        lines.append(f"- and {len(errors) - MAX_ERRORS} more")
    return "\n".join(lines)


def field_errors(error: Any, depth: int = 0) -> list[FieldError]:
    """One error of the validator library as field errors; of a union, those of the branch that fits best."""
    kind = error.kind
    path = path_text(error.instance_path)
    value = error.instance
    if kind.name in ("anyOf", "oneOf") and depth < 8 and getattr(kind, "context", None):
        branches = [[found for inner in branch for found in field_errors(inner, depth + 1)] for branch in kind.context]
        deep = [branch for branch in branches if branch and not all(found.path == path for found in branch)]
        if deep and isinstance(value, dict | list):
            return min(deep, key=_badness)
        expected = list(dict.fromkeys(found.message.split(", got ")[0] for branch in branches for found in branch))
        if 0 < len(expected) <= 4:
            text = " or ".join(expected).replace(" or expected ", " or ")
            return [FieldError(path, f"{text}, got {got(value)}", kind.name)]
        return [FieldError(path, f"fits none of {len(branches)} allowed forms, got {got(value)}", kind.name)]
    return [FieldError(path, _message(kind, value), _keyword(error, kind))]


def _badness(branch: list[FieldError]) -> tuple[bool, int]:
    """A branch whose constant (the usual discriminator) does not match is the wrong branch."""
    return any(found.keyword in ("const", "enum") for found in branch), len(branch)


def _keyword(error: Any, kind: Any) -> str:
    names = [part for part in error.schema_path if isinstance(part, str)]
    return str(names[-1] if names else kind.name)


def _message(kind: Any, value: Any) -> str:
    name = kind.name
    limit = getattr(kind, "limit", None)
    if name == "type":
        types = kind.value.get("types", kind.value) if isinstance(kind.value, dict) else kind.value
        names = [types] if isinstance(types, str) else list(types)
        return f"expected {' or '.join(_TYPE_NAMES.get(n, n) for n in names)}, got {got(value)}"
    if name == "enum":
        options = [got(option) for option in kind.options[:_MAX_OPTIONS]]
        more = f" … ({len(kind.options)} in all)" if len(kind.options) > _MAX_OPTIONS else ""
        return f"expected one of {', '.join(options)}{more}, got {got(value)}"
    if name == "const":
        return f"expected {got(kind.value)}, got {got(value)}"
    if name == "required":
        return f"the required field {got(kind.property)} is missing"
    if name in ("additionalProperties", "unevaluatedProperties"):
        return f"expected no other fields, got {', '.join(got(n) for n in kind.unexpected[:5])}"
    if name == "format":
        return f"expected {FORMAT_EXAMPLES.get(str(kind.value), f'the format {kind.value}')}, got {got(value)}"
    if name == "pattern":
        return f"expected text that matches {kind.pattern}, got {got(value)}"
    if name in _LIMITS and limit is not None:
        return f"expected {_LIMITS[name].format(limit)}, got {got(value)}"
    if name == "multipleOf":
        return f"expected a multiple of {kind.multiple_of}, got {got(value)}"
    if name == "uniqueItems":
        return f"expected no item twice, got {got(value)}"
    if name == "falseSchema":
        return f"nothing is allowed here, got {got(value)}"
    return f"does not satisfy {name}, got {got(value)}"


_TYPE_NAMES = {
    "integer": "a whole number without quotes", "number": "a number without quotes", "string": "text in quotes",
    "boolean": "true or false", "null": "null", "object": "an object {…}", "array": "a list […]",
}  # fmt: skip
_LIMITS = {
    "minimum": "at least {}", "maximum": "at most {}", "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}", "minLength": "at least {} characters", "maxLength": "at most {} characters",
    "minItems": "at least {} items", "maxItems": "at most {} items", "minProperties": "at least {} fields",
    "maxProperties": "at most {} fields",
}  # fmt: skip


def path_text(path: Sequence[Any]) -> str:
    """A JSON pointer without the leading ``#``; "" is the whole value."""
    return pointer(tuple(str(part) for part in path))[1:]
