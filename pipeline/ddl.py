"""Spark DDL text (``id BIGINT NOT NULL, items ARRAY<STRUCT<sku: STRING>>``) to JSON Schema."""

from __future__ import annotations

import re
from typing import Any

from pipeline.errors import SchemaError

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")|(?P<word>\w+)|(?P<mark>[<>(),:]))"
)
_INTEGERS = {"tinyint": 8, "byte": 8, "smallint": 16, "short": 16, "int": 32, "integer": 32, "bigint": 64, "long": 64}
_PLAIN: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "float": {"type": "number", "x-arrow": "float32"},
    "real": {"type": "number", "x-arrow": "float32"},
    "double": {"type": "number"},
    "string": {"type": "string"},
    "binary": {"type": "string", "format": "binary"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ltz": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string", "format": "date-time-local"},
}


def is_ddl(text: str) -> bool:
    """Whether a string reads like column definitions rather than a path: ``name TYPE …``."""
    types = "|".join([*_INTEGERS, *_PLAIN, "decimal", "dec", "numeric", "varchar", "char", "array", "map", "struct"])
    names = r"(?:`[^`]+`|\w+)\s*:?\s+|\w+\s*:\s*"
    return bool(re.match(rf"\s*(?:struct\s*<|(?:{names})(?:{types})\b)", text, re.IGNORECASE))


def parse_ddl(text: str) -> dict[str, Any]:
    """Column definitions to a closed object schema. Columns are required; without NOT NULL they may be null.

    Raises SchemaError that names the place in the text.
    """
    parser = _Parser(text)
    if parser.peek().lower() == "struct":
        parser.take()
        parser.expect("<")
        schema = parser.fields(end=">")
    else:
        schema = parser.fields(end="")
    if parser.peek():
        raise parser.error(f"unexpected {parser.peek()!r}")
    return schema


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise SchemaError(f"cannot read DDL at character {position}: {text[position : position + 20]!r}")
            self._tokens.append((match.group().strip(), match.start()))
            position = match.end()
        self._next = 0

    def peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._next += 1
        return token

    def expect(self, mark: str) -> None:
        if self.peek() != mark:
            raise self.error(f"expected {mark!r}, found {self.peek() or 'the end'!r}")
        self._next += 1

    def error(self, message: str) -> SchemaError:
        position = self._tokens[self._next][1] if self._next < len(self._tokens) else len(self._text)
        return SchemaError(f"DDL, character {position}: {message}", hint="for example: id BIGINT, tags ARRAY<STRING>")

    def fields(self, *, end: str) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        while True:
            name = self._name()
            if name in properties:
                raise self.error(f"the column {name!r} is declared twice")
            if self.peek() == ":":
                self.take()
            properties[name] = self._field()
            if self.peek() != ",":
                break
            self.take()
        if end:
            self.expect(end)
        return {
            "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
        }  # fmt: skip

    def _name(self) -> str:
        token = self.peek()
        if not token or token in "<>(),:" or token[0] in "'\"":
            raise self.error(f"expected a column name, found {token or 'the end'!r}")
        self._next += 1
        return token[1:-1].replace("``", "`") if token[0] == "`" else token

    def _field(self) -> dict[str, Any]:
        schema = self._type()
        nullable = True
        if self.peek().lower() == "not":
            self.take()
            if self.take().lower() != "null":
                raise self.error("expected NULL after NOT")
            nullable = False
        if self.peek().lower() == "comment":
            self.take()
            schema["description"] = re.sub(r"\\(.)|''", lambda m: m.group(1) or "'", self.take()[1:-1])
        return _nullable(schema) if nullable else schema

    def _type(self) -> dict[str, Any]:
        name = self.take().lower()
        if name in _INTEGERS:
            bits = _INTEGERS[name]
            if bits == 64:
                return {"type": "integer"}
            half = 2 ** (bits - 1)
            return {"type": "integer", "minimum": -half, "maximum": half - 1, "x-arrow": f"int{bits}"}
        if name in _PLAIN:
            return dict(_PLAIN[name])
        if name in ("varchar", "char"):
            (length,) = self._numbers(1)
            return {"type": "string", "maxLength": length}
        if name in ("decimal", "dec", "numeric"):
            precision, scale = (*self._numbers(2), 0)[:2] if self.peek() == "(" else (10, 0)
            return {"type": "number", "x-arrow": f"decimal128({precision}, {scale})"}
        if name == "array":
            self.expect("<")
            item = self._type()
            self.expect(">")
            return {"type": "array", "items": _nullable(item)}
        if name == "map":
            self.expect("<")
            if self.take().lower() != "string":
                raise self.error("keys of a MAP must be STRING, because JSON keys are")
            self.expect(",")
            value = self._type()
            self.expect(">")
            return {"type": "object", "additionalProperties": _nullable(value)}
        if name == "struct":
            self.expect("<")
            return self.fields(end=">")
        self._next -= 1
        raise self.error(f"the type {name or 'the end'!r} is not supported")

    def _numbers(self, most: int) -> list[int]:
        self.expect("(")
        numbers = [int(self.take())] if self.peek().isdigit() else []
        while self.peek() == "," and len(numbers) < most:
            self.take()
            numbers.append(int(self.take() or "0"))
        self.expect(")")
        if not numbers:
            raise self.error("expected a number in the brackets")
        return numbers


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}
