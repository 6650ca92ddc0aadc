"""Command-line values as the nested settings of :mod:`pipeline.config`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """``{"input.path": "x"}`` to ``{"input": {"path": "x"}}``; values that are None were not given and are left out."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        place = nested
        *parents, last = name.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return nested


def text_or_file(value: str | None) -> str | None:
    """``@FILE`` to the file's text.

    Raises:
        ConfigError: it cannot be read.
    """
    if value is None or not value.startswith("@"):
        return value
    return _read(Path(value[1:]), "--instructions")


def read_examples(file: str | None) -> list[dict[str, Any]] | None:
    """Few-shot examples of a JSON Lines file: ``{"text": ..., "output": {...}}`` a line.

    Raises:
        ConfigError: the file cannot be read, or a line is no example; names the line.
    """
    if file is None:
        return None
    examples = []
    for number, line in enumerate(_read(Path(file), "--examples").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            example = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"--examples {file}, line {number}: no JSON: {error}") from None
        known = {"text", "output"}
        if not isinstance(example, dict) or not known <= set(example):
            raise ConfigError(f"--examples {file}, line {number}: expected an object with 'text' and 'output'")
        examples.append({name: example[name] for name in sorted(known)})
    if not examples:
        raise ConfigError(f"--examples {file} has no examples")
    return examples


def engine_args(pairs: Iterable[str]) -> dict[str, Any] | None:
    """``key=value`` pairs; values are JSON where they can be, else text. None for none.

    Raises:
        ConfigError: a pair without ``=``.
    """
    args: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip().lstrip("-").replace("-", "_")
        if not equals or not key:
            raise ConfigError(f"--engine-arg {pair!r} is no key=value", hint="--engine-arg tensor_parallel_size=2")
        try:
            args[key] = json.loads(text)
        except ValueError:
            args[key] = {"true": True, "false": False}.get(text.lower(), text)
    return args or None


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{option}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{option}: {path} is not UTF-8 text") from None
