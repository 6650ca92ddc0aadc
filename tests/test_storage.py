"""Storage: whole files or none, addresses, what is hidden."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pipeline.errors import ConfigError, InputError
from pipeline.storage import Storage


def test_a_written_file_replaces_the_old_one_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    storage.write("a/b.json", b"1")
    storage.write("a/b.json", b"22", durable=False)
    assert storage.read("a/b.json") == b"22"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]


def test_hidden_files_are_not_listed_but_make_a_folder_not_empty(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    assert storage.is_empty()
    storage.write(".half.tmp", b"x")
    storage.write("_x", b"x")
    assert storage.files() == []
    assert not storage.is_empty()


def test_a_missing_file_reads_as_none_and_deletes_without_complaint(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path / "none"))
    assert storage.read("x") is None
    assert storage.files("y") == []
    storage.delete("x")
    assert not storage.exists("x")


def test_files_move_with_their_folders(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    storage.write("from/a", b"1")
    storage.move("from/a", "to/deep/b")
    assert [file.path for file in storage.files(recursive=True)] == ["to/deep/b"]


def test_it_pickles_as_its_root_and_knows_file_addresses(tmp_path: Path) -> None:
    storage = pickle.loads(pickle.dumps(Storage(f"file://{tmp_path}")))
    storage.write("x", b"1")
    assert (tmp_path / "x").read_bytes() == b"1"
    assert storage.child("sub").uri("y") == f"{tmp_path}/sub/y"


def test_an_unknown_scheme_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="nonsense"):
        Storage("nonsense://bucket/x")


def test_opening_a_missing_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jsonl"):
        Storage(str(tmp_path)).open_input("gone.jsonl")
