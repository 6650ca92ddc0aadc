"""A settings file in YAML, read strictly: a key that stands twice is a mistake, not a choice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError


def read_settings(file: Path) -> dict[str, Any]:
    """The mapping that the file holds; an empty file holds an empty one.

    Raises:
        ConfigError: the file cannot be read, is no YAML or no mapping, or has a key twice; names it and its lines.
    """
    import yaml

    try:
        text = file.read_text(encoding="utf-8-sig")
        for place, first, second in _repeated(yaml.compose(text, Loader=yaml.SafeLoader), "", set()):
            raise ConfigError(f"config file {file}: {place} is set twice, in lines {first} and {second}")
        loaded = yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"config file {file} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"config file {file} cannot be read: {error}") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"config file {file} must hold a mapping, found {type(loaded).__name__}")
    return loaded


def _repeated(node: Any, place: str, seen: set[int]) -> Iterator[tuple[str, int, int]]:
    """(setting, line of the first, line of the second) of keys that a mapping has twice."""
    import yaml

    if node is None or id(node) in seen:  # an alias leads to a node again, or into itself
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated(item, f"{place}.{index}" if place else str(index), seen)
    if isinstance(node, yaml.MappingNode):
        lines: dict[Any, int] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            inner = f"{place}.{name}" if place else name
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and (key.tag, name) in lines:
                yield inner, lines[key.tag, name], line
            lines[key.tag, name] = line
            yield from _repeated(value, inner, seen)
