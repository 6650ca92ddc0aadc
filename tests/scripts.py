"""Scripts for the scripted engine; Spark's workers import them by path."""

import json
import os
import re
import signal
import time
from pathlib import Path

from pipeline.errors import EngineError
from pipeline.testing import Scripted

PEOPLE_SCHEMA = {
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
    words = re.findall(r"\w+", text)
    age = next((int(word) for word in words if word.isdigit()), None)
    return json.dumps({"name": words[0] if words else "", "age": age})


def slow_people(text: str, attempt: int) -> Scripted:
    """The same, 5 ms a document."""
    answer = people(text, attempt)
    assert isinstance(answer, str)
    return Scripted(answer, delay_s=0.005)


def deadly_people(text: str, attempt: int) -> str | Scripted:
    """``kill`` ends the process, ``crash`` kills the engine; every load of the engine is one line of a file."""
    if "kill" in text:
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
    if "crash" in text:
        raise EngineError("the engine died: CUDA error")
    return people(text, attempt)


def counted_people(text: str, attempt: int) -> str | Scripted:
    """Appends one byte to the file named by the environment for every request."""
    with Path(os.environ["COUNT_FILE"]).open("ab") as stream:
        stream.write(b".")
    return people(text, attempt)
