"""Scripts of the failure cases for the scripted engine; Spark's workers import them by path."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pipeline.errors import EngineError


def answer_is_text(text: str, attempt: int) -> str:
    """The document is the raw output."""
    return text


def dies_once(text: str, attempt: int) -> str:
    """``FILE NAME``: one byte goes to the file for every request; ``special`` kills the first engine that meets it."""
    path, _, rest = text.partition(" ")
    counter = Path(path)
    with counter.open("ab") as stream:
        stream.write(b".")
    flag = counter.with_suffix(".died")
    if "special" in rest and not flag.exists():
        flag.touch()
        raise EngineError("the engine died: the grammar cannot place token 0")
    return json.dumps({"name": rest, "age": None})


def numbered_fields(text: str, attempt: int) -> str:
    """Twenty-two lists of what the part of the document says; the parts together make a long record."""
    found = re.findall(r"k(\d+)=(\w+)", text)
    return json.dumps({f"f{index}": [word for key, word in found if int(key) == index] for index in range(22)})
