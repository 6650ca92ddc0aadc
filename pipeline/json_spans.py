"""Where each scalar of a JSON text stands in it."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(
    r"[ \t\n\r]*(?:(?P<mark>[{}\[\],:])|(?P<string>\"(?:[^\"\\]|\\.)*\")|(?P<scalar>[-+0-9.eEa-z]+))", re.DOTALL
)
Spans = dict[str, tuple[int, int]]


def scalar_spans(text: str) -> Spans:
    """JSON pointer to ``[start, end)`` in code points, quotes included, for every scalar of a JSON text.

    Raises:
        ValueError: the text is no JSON.
    """
    reader = _Reader(text)
    reader.value("")
    return reader.spans


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.spans: Spans = {}

    def value(self, path: str) -> None:
        match = self._next()
        if match["mark"] == "{":
            self._object(path)
        elif match["mark"] == "[":
            self._array(path)
        elif match["mark"] is not None:
            raise ValueError(f"a value is missing at character {match.start('mark')}")
        else:
            self.spans[path] = match.span("string" if match["string"] is not None else "scalar")

    def _object(self, path: str) -> None:
        if self._skip("}"):
            return
        while True:
            name = self._next()["string"]
            if name is None or not self._skip(":"):
                raise ValueError(f"a name is missing at character {self._at}")
            self.value(f"{path}/{json.loads(name).replace('~', '~0').replace('/', '~1')}")
            if not self._skip(","):
                break
        if not self._skip("}"):
            raise ValueError(f"an object does not end at character {self._at}")

    def _array(self, path: str) -> None:
        if self._skip("]"):
            return
        index = 0
        while True:
            self.value(f"{path}/{index}")
            index += 1
            if not self._skip(","):
                break
        if not self._skip("]"):
            raise ValueError(f"an array does not end at character {self._at}")

    def _next(self) -> re.Match[str]:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise ValueError(f"no JSON at character {self._at}")
        self._at = match.end()
        return match

    def _skip(self, mark: str) -> bool:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match["mark"] != mark:
            return False
        self._at = match.end()
        return True
