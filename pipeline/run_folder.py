"""A run's output folder: whose it is, what settings it was made with, what is done."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.config import RunConfig, load_config
from pipeline.demo_model import DEMO_MODEL
from pipeline.errors import ConfigError, OutputError
from pipeline.journal import FOLDER as JOURNAL
from pipeline.journal import count_outcomes
from pipeline.manifest import without_secrets
from pipeline.markers import save_suspects
from pipeline.storage import Storage
from pipeline.udf.stage import Stage
from pipeline.writers import MANIFEST

_RUN_FILE = "run.json"
_LOCK_FILE = ".lock"


@contextmanager
def only_run(output: Storage) -> Iterator[None]:
    """Keep other runs out of a folder of this machine while the block runs; the system lets go when a driver dies.

    Two runs at once would remove each other's plan and staging. A remote store has no locks: nothing is kept out there.

    Raises:
        OutputError: another run has the folder, or it cannot be made.
    """
    if not output.is_local:
        yield
        return
    journal = output.child(JOURNAL)
    journal.make_folder()
    try:
        fd = os.open(journal.uri(_LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:  # what is written next says why
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise OutputError(
            f"another run is writing to {output.root}", hint="wait until it ends, or pass another --output"
        ) from None
    except OSError:  # a file system without locks
        os.close(fd)
        yield
        return
    try:
        yield
    finally:
        os.close(fd)


def claim_folder(output: Storage, stage: Stage) -> None:
    """Write down whose the folder is.

    Raises:
        OutputError: it cannot be written.
    """
    settings = without_secrets(from_anywhere(stage.config).model_dump(mode="json"))
    content = {"identity": _identity(stage), "settings": settings}
    output.child(JOURNAL).write(_RUN_FILE, json.dumps(content, indent=2, ensure_ascii=False).encode())


def check_folder(output: Storage, stage: Stage, *, overwrite: bool = False) -> None:
    """Raise ConfigError where the folder is somebody else's, part of the input, or holds a run with other settings."""
    source = stage.config.input.path
    if source and output.uri("").startswith(Storage(source).uri("").rstrip("/") + "/"):
        raise ConfigError(
            f"output {output.root} lies in the input folder {source}, so the next run would read it",
            hint="pass another --output",
        )
    if output.is_file():
        raise ConfigError(f"output {output.root} is a file, but a folder is needed", hint="pass another --output")
    known = output.child(JOURNAL).read(_RUN_FILE)
    if known is None:
        if not (output.is_empty() or _was_only_locked(output)):
            raise ConfigError(
                f"output folder {output.root} is not empty and holds no run of this program",
                hint="pass another --output",
            )
    elif not overwrite:
        before = _parsed(known, output)["identity"]
        before |= {"input": _absolute_input(before.get("input"))}  # older runs kept it as it was given
        changed = [name for name, value in _identity(stage).items() if before.get(name) != value]
        if changed:
            raise ConfigError(
                f"output folder {output.root} holds a run with other settings: {', '.join(changed)}",
                hint="pass another --output, or --overwrite to replace its results",
            )


def load_run(output: str) -> RunConfig:
    """The settings of the run in a folder.

    Raises:
        ConfigError: there is none.
    """
    storage = Storage(output)
    known = storage.child(JOURNAL).read(_RUN_FILE)
    if known is None:
        raise ConfigError(f"{output} holds no run of this program", hint="pass the --output of an earlier run")
    return load_config(_parsed(known, storage)["settings"])


def _was_only_locked(output: Storage) -> bool:
    """Whether all that is there is the lock of a run that ended before it began to work."""
    return output.is_local and output.names() == [JOURNAL] and output.child(JOURNAL).names() == [_LOCK_FILE]


def _parsed(known: bytes, output: Storage) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(known)
        return {"identity": dict(found["identity"]), "settings": dict(found["settings"])}
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{output.child(JOURNAL).uri(_RUN_FILE)} is damaged",
            hint="run the job with --overwrite: its journal is kept",
        ) from None


def forget_suspects(output: str) -> None:
    """Let documents that killed an engine have another try."""
    save_suspects(Storage(output).child(JOURNAL), {})


def rejects_before(output: str) -> dict[str, int]:
    """Rejects by reason of the last run that was finished in a folder; empty where none was."""
    data = Storage(output).read(MANIFEST)
    return dict(json.loads(data)["rejects_by_reason"]) if data else {}


def from_anywhere(config: RunConfig) -> RunConfig:
    """The same settings with absolute local paths, so that a replay may start in another folder.

    Addresses, tables, import paths and hub ids stay as they are.
    """
    output, model = config.output.path, config.engine.model
    updates = {
        "schema_spec": _absolute_schema(config.schema_spec),
        "input": config.input.model_copy(update={"path": _absolute_input(config.input.path)}),
        "output": config.output.model_copy(update={"path": _absolute_output(output)}),
        "engine": config.engine.model_copy(update={"model": model if model == DEMO_MODEL else _absolute(model)}),
    }
    return config.model_copy(update=updates)


def _absolute_output(path: str | None) -> str | None:
    return path if path is None or "://" in path else Storage(path).uri("")


def _absolute_schema(spec: str | None) -> str | None:
    """``FILE.py:Class`` too; a schema that is given as text or by import path is no file."""
    if spec is None:
        return None
    file, colon, name = spec.rpartition(":")
    found = _absolute(file)
    return f"{found}{colon}{name}" if found != file else _absolute(spec)


def _absolute_input(path: str | None) -> str | None:
    """A pattern too, whether files match it now or not."""
    if path is None or "://" in path or not any(c in path for c in "*?["):
        return path and _absolute(path)
    return str(Path(path).expanduser().absolute())


def _absolute(name: str) -> str:
    """A file or folder that is there, from the root of the file system; whatever else a text may name, unchanged."""
    path = os.path.expanduser(name)
    return os.path.abspath(path) if name and os.path.exists(path) else name


def done_so_far(output: str) -> int:
    """How many outcomes the journal of a run holds; cheap enough for a message at the end."""
    return count_outcomes(Storage(output).child(JOURNAL))


def _identity(stage: Stage) -> dict[str, Any]:
    """What must be the same for a run to go on in its folder; limit, profile and format may change."""
    return {
        "schema": stage.schema.extraction_fingerprint,
        "prompt": stage.prompt_fingerprint,
        "model": stage.model_id,
        "decoding": stage.config.decoding.model_dump(mode="json"),
        "chunking": stage.config.chunking.model_dump(mode="json"),
        "input": _absolute_input(stage.config.input.path),
    }
