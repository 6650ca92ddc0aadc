"""Markers: who was in the engine when it died."""

from __future__ import annotations

from pathlib import Path

from pipeline.markers import Marker, Suspicion, combine, load_suspects, read_markers, save_suspects
from pipeline.storage import Storage


def test_a_marker_is_there_before_work_and_goes_with_its_last_outcome(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    marker = Marker(storage, prefix="r1-p00000-t7")
    marker.start(["a", "b"])
    marker.finish("a")
    assert set(read_markers(storage)) == {"a", "b"}
    marker.finish("b")
    assert read_markers(storage) == {}
    marker.finish("unknown")


def test_only_the_failed_task_is_under_suspicion(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    Marker(storage, prefix="r1-p00000-t1").start(["a"])
    Marker(storage, prefix="r1-p00001-t2").start(["b"])
    assert set(read_markers(storage, prefix="r1-p00001-")) == {"b"}


def test_two_failures_one_of_them_alone_make_a_text_guilty() -> None:
    assert not Suspicion(1, 1).is_guilty
    assert not Suspicion(2, 0).is_guilty
    assert (Suspicion(1, 0) + Suspicion(1, 1)).is_guilty


def test_what_the_driver_wrote_down_outlives_the_markers(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    assert load_suspects(storage) == {}
    marker = Marker(storage, prefix="r1-p00000-t1")
    marker.start(["a"])
    save_suspects(storage, combine(load_suspects(storage), read_markers(storage)))
    marker.start(["a"], alone=True)
    save_suspects(storage, combine(load_suspects(storage), read_markers(storage)))
    assert load_suspects(storage) == {"a": Suspicion(2, 1)}
    assert read_markers(storage) == {}
