"""Stand-ins for tests, of this project and of its users: a scripted engine and a tiny tokenizer.

They implement the Protocols of :mod:`pipeline.protocols`, so that the whole row lifecycle runs without vLLM.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.data import FinishReason
from pipeline.errors import ConfigError
from pipeline.protocols import Completion, Request


@dataclass(frozen=True, slots=True)
class Scripted:
    """What the scripted engine answers: a text, or a finish reason of its own, after ``num_steps`` steps.

    ``probability`` is that of every letter and digit of the text, which are its tokens; all else counts as forced.
    """

    text: str
    finish_reason: FinishReason = "stop"
    num_steps: int = 1
    delay_s: float = 0.0
    probability: float = 1.0


Script = Callable[[str, int], "str | Scripted"]
"""(document text, attempt number from 1) to the raw output."""


_CODE_POINT = "I"  # four bytes wherever CPython runs
_ENCODING = "utf-32-le" if sys.byteorder == "little" else "utf-32-be"


class CharacterTokenizer:
    """One token per Unicode code point; its chat template is plain text. For tests only."""

    has_chat_template = True
    bos_token = ""

    def encode(self, text: str) -> list[int]:
        return array(_CODE_POINT, text.encode(_ENCODING, "surrogatepass")).tolist()

    encode_template = encode

    def decode(self, token_ids: Sequence[int]) -> str:
        return array(_CODE_POINT, token_ids).tobytes().decode(_ENCODING, "surrogatepass")

    def count(self, text: str) -> int:
        return len(text)

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        return "".join(f"<{m['role']}>{m['content']}</{m['role']}>" for m in messages) + "<assistant>"


class WordTokenizer(CharacterTokenizer):
    """Fast for large scripted runs: counts words and separators, and still round-trips through characters."""

    _words = re.compile(r"\w+|\W")

    def count(self, text: str) -> int:
        return len(self._words.findall(text))


_TOKENIZER = CharacterTokenizer()


class ScriptedEngine:
    """Answers from a script; counts what it was asked. Implements :class:`pipeline.protocols.Engine`.

    A prompt's document is found by its span, so the script sees the document's text only. Prompts must come from a
    :class:`CharacterTokenizer`. A script that raises kills the engine, as a real fault would.
    """

    def __init__(self, script: Script, *, max_model_len: int = 8192, max_in_flight: int = 16) -> None:
        self._script = script
        self.max_model_len = max_model_len
        self.max_in_flight = max_in_flight
        self.num_submitted = 0
        self.num_processed_tokens = 0
        self.num_steps = 0
        self.peak_in_flight = 0
        self._waiting: dict[str, tuple[Request, Scripted, int]] = {}

    def submit(self, request: Request) -> None:
        start, end = request.document_span
        text = _TOKENIZER.decode(request.prompt_token_ids[start:end])
        number = request.request_id.rpartition(":")[2]  # the loop's ids end with the attempt number
        answer = self._script(text, int(number) if number.isdigit() else 1)
        scripted = answer if isinstance(answer, Scripted) else Scripted(answer)
        self.num_submitted += 1
        self._waiting[request.request_id] = (request, scripted, scripted.num_steps)
        self.peak_in_flight = max(self.peak_in_flight, len(self._waiting))

    def step(self) -> list[Completion]:
        self.num_steps += 1
        ended = []
        for request_id, (request, scripted, left) in list(self._waiting.items()):
            if scripted.delay_s:
                time.sleep(scripted.delay_s)
            if left > 1:
                self._waiting[request_id] = (request, scripted, left - 1)
                continue
            del self._waiting[request_id]
            ended.append(self._complete(request, scripted))
        return ended

    def _complete(self, request: Request, scripted: Scripted) -> Completion:
        text, reason = scripted.text, scripted.finish_reason
        if len(text) > request.max_tokens:
            text, reason = text[: request.max_tokens], "length"
        self.num_processed_tokens += len(text) + len(request.prompt_token_ids)
        tokens: tuple[bytes, ...] = ()
        logprobs: tuple[float, ...] = ()
        if request.wants_logprobs:
            tokens = tuple(character.encode("utf-8", "surrogatepass") for character in text)
            logprobs = tuple(math.log(scripted.probability) if c.isalnum() else 0.0 for c in text)
        num_prompt = len(request.prompt_token_ids)
        return Completion(request.request_id, text, reason, num_prompt, len(text), tokens=tokens, logprobs=logprobs)

    def abort(self, request_id: str) -> None:
        self._waiting.pop(request_id, None)

    def counters(self) -> dict[str, float]:
        return {"engine_steps": float(self.num_steps)}

    def close(self) -> None:
        self._waiting.clear()


def load_script(spec: str) -> Script:
    """``package.module:function`` to the function.

    Raises:
        ConfigError: it cannot be imported.
    """
    module_name, _, name = spec.partition(":")
    try:
        script: Script = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"engine.script {spec!r} cannot be imported: {error}") from None
    return script
