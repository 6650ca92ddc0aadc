"""The one engine of a Python worker: built at first use, reused by later tasks, given away when idle and wanted."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from pipeline.errors import ConfigError, EngineError
from pipeline.protocols import Engine
from pipeline.session import THREADS_VARIABLE
from pipeline.udf.lock import DeviceLock, load_place
from pipeline.udf.stage import Stage

logger = logging.getLogger(__name__)

IDLE_GRACE_S = 2.0
"""How long an idle engine is kept although another process waits; a worker's next task comes sooner than that."""
_EXIT_AFTER_S = 20.0


@dataclass(slots=True)
class LoadedEngine:
    """A loaded engine; ``instance_id`` is unique per load, so that loads can be counted."""

    engine: Engine
    settings_id: str
    load_s: float
    device: str = ""
    instance_id: str = field(default_factory=lambda: f"{os.getpid()}-{uuid.uuid4().hex[:6]}")


class _Worker:
    """State of this process: at most one engine, and the lock that goes with it.

    A worker keeps its device for life, whatever address Spark names later: CUDA cannot change it, and the tasks of an
    executor only permute its addresses.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._loaded: LoadedEngine | None = None
        self._lock: DeviceLock | None = None
        self._device: str | None = None
        self._busy = False
        self._idle_since_s = 0.0
        self._watcher: threading.Thread | None = None

    def take(self, stage: Stage, attempt: str) -> LoadedEngine:
        with self._mutex:
            if self._busy:
                raise ConfigError("this worker's engine is busy with another extraction of the same query plan")
            self._busy = True
            try:
                return self._load(stage, attempt)
            except BaseException:
                self._busy = False
                self._drop()
                raise

    def give_back(self, *, broken: bool) -> None:
        with self._mutex:
            self._busy = False
            self._idle_since_s = time.monotonic()
            if broken:
                self._drop()
            elif self._lock is not None and self._lock.is_held:
                self._lock.label("")

    def _load(self, stage: Stage, attempt: str) -> LoadedEngine:
        device = self._device = self._device or device_of(stage)
        if device is not None:
            self._lock = self._lock or DeviceLock(device)
            self._lock.acquire(attempt=attempt)
            self._watch()
        if self._loaded is not None and self._loaded.settings_id == stage.engine_id:
            return self._loaded
        if self._loaded is not None:
            logger.info("other engine settings: closing the loaded engine")
            self._loaded.engine.close()
            self._loaded = None
        started = time.monotonic()
        with load_place() if stage.config.engine.kind == "vllm" else nullcontext():
            engine = build_engine(stage)
        self._loaded = LoadedEngine(engine, stage.engine_id, time.monotonic() - started, device or "")
        return self._loaded

    def _drop(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            try:
                loaded.engine.close()
            except Exception as error:  # it is going away anyway; its fault must not hide the first one
                logger.warning("the engine did not close: %s", error)
        if self._lock is not None:
            self._lock.release()

    def _watch(self) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._give_way, name="engine-lock", daemon=True)
            self._watcher.start()

    def _give_way(self) -> None:
        while True:
            time.sleep(0.25)
            with self._mutex:
                idle = not self._busy and self._lock is not None and self._lock.is_held
                if idle and time.monotonic() - self._idle_since_s > IDLE_GRACE_S:
                    assert self._lock is not None
                    if self._lock.is_wanted():
                        logger.info("another process waits for the device: closing the idle engine")
                        self._drop()


_worker = _Worker()


@contextmanager
def engine_of(stage: Stage) -> Iterator[LoadedEngine]:
    """This worker's engine, loaded if need be, for the length of the block.

    An :class:`EngineError` inside the block means that the engine is dead: it is dropped, and the process ends soon
    after, so that no later task meets what it left behind.
    """
    loaded = _worker.take(stage, attempt_id())
    broken = False
    try:
        yield loaded
    except EngineError:
        broken = True
        raise
    except GeneratorExit:
        raise
    except Exception:
        broken = True
        raise
    finally:
        _worker.give_back(broken=broken)
        if broken:
            _exit_soon()


def build_engine(stage: Stage) -> Engine:
    """Load what the settings ask for. vLLM is imported here, on workers, and nowhere else."""
    config = stage.config
    if config.engine.kind == "scripted":
        from pipeline.testing import ScriptedEngine, load_script

        in_flight = config.engine.max_in_flight or 16
        script = load_script(config.engine.script or "")
        return ScriptedEngine(script, max_model_len=stage.max_model_len, max_in_flight=in_flight)
    if config.engine.kind == "openai":
        from pipeline.remote_engine import RemoteEngine

        return RemoteEngine(
            config=config.engine,
            decoding=config.decoding,
            served_model=stage.served_model,
            tokenizer=stage.tokenizer,
            max_model_len=stage.max_model_len,
            dspark=config.dspark.enabled,
        )
    if THREADS_VARIABLE in os.environ:
        os.environ["OMP_NUM_THREADS"] = os.environ[THREADS_VARIABLE]  # Spark sets 1; torch reads it at import
    from pipeline.engine import VllmEngine

    return VllmEngine(stage.model, config=config.engine, decoding=config.decoding, dspark=config.dspark)


def device_of(stage: Stage) -> str | None:
    """What the engine occupies alone; None where it occupies nothing (a server's, or scripted unless ``args.device``
    says so).

    Makes the task's GPU addresses the only ones this process sees; vLLM must not be imported yet.
    """
    if stage.config.engine.kind == "openai":
        return None
    addresses = gpu_addresses()
    if addresses:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(addresses)
        return "gpu-" + "-".join(addresses)
    if stage.config.engine.kind == "scripted":
        device = stage.config.engine.args.get("device")
        return str(device) if device else None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"gpu-{visible}" if visible else "host"


def gpu_addresses() -> list[str]:
    """The GPUs that Spark gave to this task."""
    context = _task_context()
    gpu = context.resources().get("gpu") if context is not None else None
    return list(gpu.addresses) if gpu is not None else []


def attempt_id() -> str:
    """This task attempt, unique on the host; "" outside Spark. Workers of one application share a parent process."""
    context = _task_context()
    return f"{os.getppid()}:{context.taskAttemptId()}" if context is not None else ""


def _task_context() -> Any:
    from pyspark import TaskContext

    return TaskContext.get()


def _exit_soon() -> None:
    """End the worker even if Spark keeps it: its engine died, and with it perhaps the process's CUDA context."""
    if _task_context() is not None:
        timer = threading.Timer(_EXIT_AFTER_S, os._exit, args=(1,))
        timer.daemon = True
        timer.start()
