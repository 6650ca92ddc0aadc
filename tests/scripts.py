"""Scripts for the scripted engine; Spark's workers import them by path."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from pipeline.errors import EngineError, EngineStartError
from pipeline.testing import Scripted

LOGGED_DELAY_S = 0.005

PEOPLE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": ["integer", "null"]}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def people(text: str, attempt: int) -> str | Scripted:
    """``NAME AGE`` to a person. Words in the text ask for trouble: bad, retry, cut, refused."""
    if "refused" in text:
        return Scripted("", "error")
    if "bad" in text or ("retry" in text and attempt == 1):
        return '{"name": 3}'
    if "cut" in text:
        return Scripted('{"name": "', "length")
    words = (match.group() for match in re.finditer(r"\w+", text))  # of a long text only the head is read
    name = next(words, "")
    age = int(name) if name.isdigit() else next((int(word) for word in words if word.isdigit()), None)
    return json.dumps({"name": name, "age": age})


def slow_people(text: str, attempt: int) -> Scripted:
    """The same, 10 ms a document."""
    answer = people(text, attempt)
    return Scripted(answer, delay_s=0.01) if isinstance(answer, str) else answer


def shuffled_people(text: str, attempt: int) -> str | Scripted:
    """People with a date and large numbers; some take more steps than others, so that they overtake one another."""
    answer = people(text, attempt)
    if not isinstance(answer, str) or "bad" in text:
        return answer
    value = json.loads(answer) | {"born": "1066-10-14", "marks": [2**60 + 1, None]}
    return Scripted(json.dumps(value), num_steps=1 + len(text) * 7 % 5 + (value["age"] or 0) % 3)


def deadly_people(text: str, attempt: int) -> str | Scripted:
    """``kill`` ends the process, ``crash`` kills the engine."""
    if "kill" in text:
        os.kill(os.getpid(), signal.SIGKILL)
    if "crash" in text:
        raise EngineError("the engine died: CUDA error")
    return people(text, attempt)


def stalling_people(text: str, attempt: int) -> str | Scripted:
    """``stall`` never comes to an end."""
    return Scripted("{", num_steps=10**9, delay_s=0.01) if "stall" in text else people(text, attempt)


def gated_people(text: str, attempt: int) -> str | Scripted:
    """``gate`` holds the engine for eight seconds."""
    if text.endswith("gate"):
        time.sleep(8)
    return people(text, attempt)


def doomed(text: str, attempt: int) -> str:
    """The engine dies whatever it is asked."""
    raise EngineError("the engine died: CUDA error")


def unstartable(text: str, attempt: int) -> str:
    """What a model that does not fit raises."""
    raise EngineStartError("model 'x' did not load: no memory")


def counted_people(text: str, attempt: int) -> str | Scripted:
    """``FILE NAME AGE``: appends one byte to the file for every request."""
    path, _, rest = text.partition(" ")
    with Path(path).open("ab") as stream:
        stream.write(b".")
    return people(rest, attempt)


def logged_people(text: str, attempt: int) -> Scripted:
    """``FILE NAME AGE``: appends a line to the file for every request, and takes its time."""
    path, _, rest = text.partition(" ")
    with Path(path).open("ab") as stream:
        stream.write(b"%d %s\n" % (os.getpid(), rest.encode()))
    answer = people(rest, attempt)
    assert isinstance(answer, str)
    return Scripted(answer, delay_s=LOGGED_DELAY_S)


def described_people(text: str, attempt: int) -> str:
    """``NAME AGE CITY`` with the text's last words, one more at each attempt; a text that says "invents" gets a city
    that is not in it."""
    words = re.findall(r"\w+", text)
    age = next((int(word) for word in words if word.isdigit()), None)
    city = next((word for word in ("Paris", "Oslo") if word in words), None)
    names = [word for word in words if word.istitle()]
    return json.dumps(
        {"name": names[0] if names else "", "age": age, "city": "Atlantis" if "invents" in words else city,
         "words": words[-attempt:]}
    )  # fmt: skip


def unsure_people(text: str, attempt: int) -> str | Scripted:
    """People; where the text says "doubt" every letter and digit has the probability 0.5."""
    answer = people(text, attempt)
    return Scripted(answer, probability=0.5) if isinstance(answer, str) and "doubt" in text else answer
