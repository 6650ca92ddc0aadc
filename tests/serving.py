"""A small HTTP server with an OpenAI-compatible surface whose answers are scripted, for the remote engine's tests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pipeline.testing import CharacterTokenizer


class ByteTokenizer(CharacterTokenizer):
    """The character tokenizer with what the remote engine asks besides."""

    def pieces(self, token_ids: list[int]) -> tuple[bytes, ...]:
        return tuple(chr(token).encode() for token in token_ids)


@dataclass(frozen=True)
class Answer:
    """One HTTP answer. ``drop`` closes the connection instead; ``delay_s`` comes before either."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False


def completion(text: str, *, finish_reason: str = "stop", **choice: Any) -> Answer:
    """What vLLM answers to a request of the remote engine; tokens are characters."""
    token_ids = [ord(character) for character in text]
    return Answer(
        body={
            "choices": [{"text": text, "finish_reason": finish_reason, "token_ids": token_ids, **choice}],
            "usage": {"prompt_tokens": 5, "completion_tokens": len(token_ids)},
        }
    )


def error(status: int, message: str, **headers: str) -> Answer:
    return Answer(status, {"error": {"message": message, "code": status}}, headers)


MODELS = Answer(body={"object": "list", "data": [{"id": "small", "max_model_len": 512}, {"id": "large"}]})
Script = Callable[[dict[str, Any], int], Answer]
"""(request body, number of this request from 1) to the answer."""


class ScriptedServer:
    """What the server was asked: bodies and headers of ``/v1/completions``, and how many at the same time."""

    def __init__(self, script: Script, models: Answer) -> None:
        self.script = script
        self.models = models
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.peak = 0
        self.num_dropped = 0
        self.url = ""
        self._active = 0
        self._mutex = threading.Lock()

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any] | None) -> Answer:
        if path == "/v1/models":
            self.headers.append(headers)
            return self.models
        if path != "/v1/completions" or body is None:
            return error(404, "Not Found")
        with self._mutex:
            self.bodies.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            number = len(self.bodies)
            self._active += 1
            self.peak = max(self.peak, self._active)
        try:
            answer = self.script(body, number)
            time.sleep(answer.delay_s)
            return answer
        finally:
            with self._mutex:
                self._active -= 1


@contextmanager
def scripted_server(script: Script, *, models: Answer = MODELS) -> Iterator[ScriptedServer]:
    """Serve ``script`` on a free port for the length of the block."""
    state = ScriptedServer(script, models)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(state.answer(self.path, dict(self.headers), None))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._reply(state.answer(self.path, dict(self.headers), body))

        def _reply(self, answer: Answer) -> None:
            self.close_connection = answer.drop
            if answer.drop:
                return
            data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            try:
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                state.num_dropped += 1
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
