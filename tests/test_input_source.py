"""What is wrong with an input is said before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config import InputConfig
from pipeline.errors import ConfigError, InputError
from pipeline.input_source import find_source


def test_a_source_is_found_by_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "x"}\n')
    (tmp_path / "b.csv").write_text("doc_id,text\n1,x\n")
    pq.write_table(pa.table({"id": ["1"], "text": ["x"]}), tmp_path / "c.parquet")
    found = {name: find_source(InputConfig(path=str(tmp_path / name))) for name in ("a.jsonl", "b.csv", "c.parquet")}
    assert {name: (s.kind, s.id_column, len(s.files)) for name, s in found.items() if s is not None} == {
        "a.jsonl": ("jsonl", "id", 1),
        "b.csv": ("csv", "doc_id", 1),
        "c.parquet": ("parquet", None, 1),
    }


@pytest.mark.parametrize("path", ["documents", "silver.documents", "main.silver.documents"])
def test_a_name_without_a_file_may_be_a_table(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_source(InputConfig(path=path)) is None
    with pytest.raises(InputError, match="does not exist"):
        find_source(InputConfig(path=path), may_be_table=False)


def test_a_file_that_is_there_is_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("Dear all")
    source = find_source(InputConfig(path="letters"))
    assert source is not None
    assert source.kind == "text"
    assert find_source(InputConfig(path="letters", format="table")) is None


def test_what_is_wrong_is_said_without_spark(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    (tmp_path / "x.dat").write_text("?")
    (tmp_path / "x.jsonl").write_text('{"id": "a", "body": "x"}')
    for error, said, config in [
        (ConfigError, "no input", InputConfig()),
        (InputError, "does not exist", InputConfig(path=str(tmp_path / "gone"), format="text")),
        (InputError, "x.parquet", InputConfig(path=str(tmp_path / "x.parquet"))),
        (ConfigError, "cannot tell the format", InputConfig(path=str(tmp_path / "x.dat"))),
        (ConfigError, "no column 'text'; it has id, body", InputConfig(path=str(tmp_path / "x.jsonl"))),
    ]:
        with pytest.raises(error, match=said):
            find_source(config)


@pytest.mark.parametrize("path", ["nope.jsonl", "nope.csv", "a.b.parquet", "nope.jsonl.gz", "NOPE.TXT"])
def test_a_name_with_a_known_suffix_is_no_table(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        find_source(InputConfig(path=path))


def test_columns_of_parquet_are_looked_at_without_spark(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"text": ["x"], "number": [1]}), tmp_path / "day=1" / "a.parquet")
    with pytest.raises(ConfigError, match="no column names the documents; the columns are text, number, day"):
        find_source(InputConfig(path=str(tmp_path)))
    with pytest.raises(ConfigError, match="has no text column 'body'"):
        find_source(InputConfig(path=str(tmp_path), text_column="body", id_column="number"))
    assert find_source(InputConfig(path=str(tmp_path), id_column="day")) is not None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "bad.csv.gz").write_bytes(b"no gzip")
    for name in ("bad.jsonl.gz", "bad.csv.gz"):
        with pytest.raises(InputError, match=f"cannot read {name}"):
            find_source(InputConfig(path=str(tmp_path / name)))


def test_a_document_taken_for_a_header_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "letters.csv").write_text("Dear all, " + "this is a long and private letter. " * 40 + "\n")
    with pytest.raises(ConfigError, match="has no column 'text'") as caught:
        find_source(InputConfig(path=str(tmp_path / "letters.csv")))
    assert len(str(caught.value)) < 200
    assert "private" not in str(caught.value)
    assert "Dear" not in str(caught.value)


def test_a_glob_gives_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("a.jsonl", "deep/b.jsonl", "deep/er/c.jsonl"):
        (tmp_path / name).write_text('{"id": "1", "text": "x"}')
    source = find_source(InputConfig(path=str(tmp_path / "**"), format="jsonl"))
    assert source is not None
    assert len(source.files) == len({file.uri for file in source.files}) == 3
