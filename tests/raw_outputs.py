"""Raw outputs as a model might write them for a schema: valid, nearly valid, wrong types, cut, garbled."""

from __future__ import annotations

import json
from random import Random
from typing import Any

_WORDS = [
    "a",
    "Anna",
    "12",
    "",
    "tom & co",
    'say "x"',
    "back\\slash",
    "北京",
    "é",
    "\U0001f600",
    "a\nb",
    "\t",
    "null",
    "x" * 70,
]
_ODD_NUMBERS = [0, -1, 1, 3.0, 1e3, 2**63, -(2**63) - 1, 2**63 - 1, 10**30, 1500, 2100, 2101, 0.1, 1e-7, 12.50]
_DATES = ["2024-02-29", "2023-02-29", "2024-02-30", "1999-12-31", "29.02.2024", "2024-1-1", "0000-00-00"]
_ODD_TEXTS = [
    "", " ", "{}", "[]", "null", "{", "NaN", "```json\n{}\n```", "Sure! {}", '{"a":NaN}', "\ufeff{}", "[" * 300, "{}{}",
    '"text"', "0", "true",
]  # fmt: skip


def raw_output(random: Random, schema: dict[str, Any], gold: list[Any]) -> str:
    """One output; about a third are valid."""
    kind = random.randrange(10)
    if kind == 0:
        return random.choice(_ODD_TEXTS)
    value = random.choice(gold) if gold and kind < 5 else value_of(random, schema)
    text = _write(random, value)
    if kind in (1, 5):
        text = _write(random, _spoil(random, value))
    elif kind in (2, 6):
        text = text[: random.randrange(len(text) + 1)]
    elif kind == 3:
        text = _garble(random, text)
    return text


def value_of(random: Random, schema: Any, depth: int = 0) -> Any:
    """A value that the schema mostly allows (keywords used by the labelled sets)."""
    if "enum" in schema:
        return random.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    for union in ("oneOf", "anyOf"):
        if union in schema:
            return value_of(random, random.choice(schema[union]), depth)
    kinds = schema.get("type", "string")
    kind = random.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "object":
        required = schema.get("required", [])
        return {
            name: value_of(random, child, depth + 1)
            for name, child in schema.get("properties", {}).items()
            if name in required or random.random() < 0.2
        }
    if kind == "array":
        return [value_of(random, schema.get("items", {}), depth + 1) for _ in range(random.randrange(4))]
    if kind == "string":
        return random.choice(_DATES[:1] * 4 + _DATES if schema.get("format") == "date" else _WORDS)
    if kind in ("integer", "number"):
        low = schema.get("minimum", 0)
        return random.choice([low, low + 1, low + random.randrange(500), *random.sample(_ODD_NUMBERS, 1)])
    return random.choice([True, False]) if kind == "boolean" else None


def _spoil(random: Random, value: Any) -> Any:
    """One wrong thing somewhere."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        copy = dict(value)
        key = random.choice(list(copy))
        action = random.randrange(5)
        if action == 0:
            del copy[key]
        elif action == 1:
            copy["surprise"] = 1
        elif action == 2:
            copy[key] = _wrong(random, copy[key])
        elif action == 3:
            return {name: copy[name] for name in random.sample(list(copy), len(copy))}
        else:
            copy[key] = _spoil(random, copy[key])
        return copy
    if isinstance(value, list) and value and random.random() < 0.8:
        copy_list = list(value)
        index = random.randrange(len(copy_list))
        copy_list[index] = _spoil(random, copy_list[index])
        return copy_list
    return _wrong(random, value)


def _wrong(random: Random, value: Any) -> Any:
    return random.choice(
        [None, str(value), 0, 3.0, 1.5, True, [], {}, [value], {"value": value}, "x", 2**63, 1e3, 1e300]
    )


def _write(random: Random, value: Any) -> str:
    """JSON with the spacing, escapes and number forms that models use."""
    separators = random.choice([(",", ":"), (", ", ": "), (" , ", " : ")])
    text = json.dumps(value, ensure_ascii=random.random() < 0.2, separators=separators)
    return random.choice(["", "", "", " ", "\n"]) + text + random.choice(["", "", "", " ", "\n"])


def _garble(random: Random, text: str) -> str:
    position = random.randrange(len(text) + 1)
    piece = random.choice(
        ['"', ",", "}", "{", "\n", "\t", "\x00", "\\", "\\ud800", "\\u00", "0", "-", ".", "e", " ", "é"]
    )
    action = random.randrange(4)
    if action == 0:
        return text[:position] + piece + text[position:]
    if action == 1:
        return text[:position] + text[position + 1 :]
    if action == 2:
        return text + random.choice([" thanks", "}", "\n\n", "<|im_end|>", text])
    return text.replace("{", '{"twice":1,"twice":2,', 1)
