"""A live kernel, cell by cell: classes from a cell, a warm engine, an interrupt; the engine is scripted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

jupyter_client = pytest.importorskip("jupyter_client")
ROOT = Path(__file__).parents[1]

START = """
import json, time
from pathlib import Path
import pipeline
from pipeline.config import load_config
from pipeline.session import make_session
from pydantic import BaseModel, Field, field_validator

spark = make_session()

def extract(schema, texts, output, script="people"):
    config = load_config({"engine": {"kind": "scripted", "script": f"tests.scripts:{script}"}})
    documents = spark.createDataFrame(list(enumerate(texts)), "id string, text string")
    show = lambda line: print(line, flush=True)
    found = pipeline.extract(documents, schema=schema, config=config, output=output, id_column="id", show=show)
    return sorted(tuple(row) for row in found.select("doc_id", "record.name", "error.reason").collect())

def engines(output):
    return {json.loads(f.read_bytes())["engine_id"] for f in Path(output).rglob("progress/*.json")}
"""

PERSON = """
class Shouting(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value):
        if value not in KNOWN:
            raise ValueError("unknown person")
        return value

KNOWN = {"Ann", "Bob"}

class Person(Shouting):
    age: int | None
"""


class Kernel:
    """One kernel; ``run`` gives what a cell printed and how it ended."""

    def __init__(self, folder: Path) -> None:
        self._manager = jupyter_client.KernelManager(kernel_name="python3")
        environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
        self._manager.start_kernel(cwd=str(ROOT), env=environment)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def run(self, code: str, *, interrupt_at: str | None = None, timeout: float = 120.0) -> tuple[str, str | None]:
        """Output so far, and the name of the exception or None. Interrupts once ``interrupt_at`` was printed."""
        sent = self._client.execute(code)
        shown, error, waiting = "", None, interrupt_at
        ends = time.monotonic() + timeout
        while True:
            message: Any = self._client.get_iopub_msg(timeout=max(1.0, ends - time.monotonic()))
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown += content["text"]
            elif kind == "execute_result":
                shown += content["data"]["text/plain"]
            elif kind == "error":
                error = content["ename"]
                shown += "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return shown, error
            if waiting and waiting in shown:
                self._manager.interrupt_kernel()
                waiting = None

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    started = Kernel(tmp_path_factory.mktemp("kernel"))
    yield started
    started.close()


@pytest.mark.spark
@pytest.mark.slow
def test_a_session_survives_classes_of_cells_and_an_interrupt(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.run(START + PERSON)[1] is None

    shown, error = kernel.run(f"extract(Person, ['Ann 3', 'Eve 4', 'Bob 5'], '{tmp_path}/a')")
    assert error is None, shown
    assert "[('0', 'Ann', None), ('1', None, 'SCHEMA_MISMATCH'), ('2', 'Bob', None)]" in shown, "the validator ran"

    changed = "KNOWN.add('Eve')\n"
    shown, error = kernel.run(f"{changed}extract(Person, ['Ann 3', 'Eve 4', 'Bob 5'], '{tmp_path}/b')")
    assert error is None, shown
    assert "('1', 'Eve', None)" in shown, "a changed class is the one that workers get"
    warm, _ = kernel.run(f"print(engines('{tmp_path}/b') <= engines('{tmp_path}/a'))")
    assert warm.strip() == "True", "the engines stayed loaded between the cells"

    slow = f"extract(Person, [f'Ann {{n}}' for n in range(4000)], '{tmp_path}/c', script='slow_people')"
    started = time.monotonic()
    shown, error = kernel.run(slow, interrupt_at="/4000 documents")
    assert error == "KeyboardInterrupt", shown[-2000:]
    assert time.monotonic() - started < 30
    shown, error = kernel.run(f"extract(Person, ['Ann 3'], '{tmp_path}/d')")
    assert error is None, shown
    assert "[('0', 'Ann', None)]" in shown
    done = json.loads(kernel.run(f"from pipeline.run_folder import done_so_far\nprint(done_so_far('{tmp_path}/c'))")[0])
    assert done < 4000, "the interrupted extraction went on behind the session's back"
