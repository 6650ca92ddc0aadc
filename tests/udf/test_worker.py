"""The worker's engine: one per process, reused, dropped when it dies, given away when idle and wanted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import load_config
from pipeline.errors import ConfigError, EngineError
from pipeline.schema import load_schema
from pipeline.udf import worker
from pipeline.udf.lock import DeviceLock
from pipeline.udf.stage import Stage, build_stage
from tests.scripts import PEOPLE_SCHEMA


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker, "_worker", worker._Worker())
    monkeypatch.setattr(worker, "DeviceLock", lambda device: DeviceLock(device, folder=tmp_path))


def _stage(**args: Any) -> Stage:
    engine = {"kind": "scripted", "script": "tests.scripts:people", "args": args}
    return build_stage(load_config({"engine": engine}), schema=load_schema(PEOPLE_SCHEMA))


def test_later_tasks_of_a_worker_reuse_its_engine() -> None:
    with worker.engine_of(_stage()) as first:
        pass
    with worker.engine_of(_stage()) as second:
        assert second.instance_id == first.instance_id


def test_other_settings_load_another_engine() -> None:
    with worker.engine_of(_stage()) as first:
        pass
    with worker.engine_of(_stage(max_model_len=4096)) as second:
        assert second.instance_id != first.instance_id
        assert second.engine.max_model_len == 4096


def test_a_dead_engine_is_not_used_again() -> None:
    with pytest.raises(EngineError), worker.engine_of(_stage()) as first:
        raise EngineError("the engine died")
    with worker.engine_of(_stage()) as second:
        assert second.instance_id != first.instance_id


def test_two_extractions_at_once_in_one_worker_are_refused() -> None:
    with worker.engine_of(_stage()), pytest.raises(ConfigError, match="busy"), worker.engine_of(_stage()):
        pass


def test_an_idle_engine_goes_when_another_process_wants_the_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker, "IDLE_GRACE_S", 0.1)
    with worker.engine_of(_stage(device="cpu")) as first:
        pass
    other = DeviceLock("cpu", folder=tmp_path)
    started = time.monotonic()
    other.acquire(attempt="2")
    assert time.monotonic() - started < 10
    other.release()
    with worker.engine_of(_stage(device="cpu")) as second:
        assert second.instance_id != first.instance_id


def test_a_script_that_cannot_be_imported_is_found_on_the_driver() -> None:
    config = load_config({"engine": {"kind": "scripted", "script": "no.such:thing"}})
    with pytest.raises(ConfigError, match=r"no\.such:thing"):
        build_stage(config, schema=load_schema(PEOPLE_SCHEMA))
