"""Sets of a class in a fixed order: Python's own differs from process to process, and so would a record."""

from __future__ import annotations

from typing import Any

from pipeline.strict_json import dumps


def in_order(plain: Any, dumped: Any, read: Any) -> Any:
    """``dumped`` with the items of each set as they were read, those that a validator made sorted behind them.

    ``plain`` is the same value with Python's sets in it, ``read`` what the model wrote.
    """
    if isinstance(plain, set | frozenset) and isinstance(dumped, list):
        written = [dumps(item) for item in read] if isinstance(read, list) else []
        places = {text: place for place, text in reversed(list(enumerate(written)))}
        return sorted(dumped, key=lambda item: (places.get(dumps(item), len(written)), dumps(item)))
    if isinstance(plain, dict) and isinstance(dumped, dict) and len(plain) == len(dumped):
        inner = read if isinstance(read, dict) else {}
        pairs = zip(plain.values(), dumped.items(), strict=True)  # keys of one may be numbers, of the other their text
        return {key: in_order(one, item, inner.get(key)) for one, (key, item) in pairs}
    if isinstance(plain, list | tuple) and isinstance(dumped, list) and len(plain) == len(dumped):
        places_read = read if isinstance(read, list) and len(read) == len(dumped) else [None] * len(dumped)
        return [in_order(one, item, old) for one, item, old in zip(plain, dumped, places_read, strict=True)]
    return dumped
