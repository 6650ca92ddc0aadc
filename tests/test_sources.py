"""Files of documents: every line exactly once however a file is split, every fault with its place."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigError, InputError
from pipeline.line_ranges import count_lines, lines_of
from pipeline.parquet_files import MAX_CHECKED, check_parquet
from pipeline.sources import SourceFile, check_columns, list_files, read_function, split_file


def _read(
    file: SourceFile, kind: str, spans: list[tuple[int, int]] | None = None, **options: Any
) -> list[dict[str, Any]]:
    arguments: dict[str, Any] = {"id_column": "id", "text_column": "text", "limit": None} | options
    parts = [
        {"index": i, "uri": file.uri, "name": file.name, "start": start, "stop": stop, "first_line": 1}
        for i, (start, stop) in enumerate(spans or split_file(file))
    ]
    batches = read_function(kind, **arguments)([pa.RecordBatch.from_pylist(parts)])
    return [row for batch in batches for row in batch.to_pylist()]


def _file(path: Path) -> SourceFile:
    return list_files(str(path), suffix=None)[0]


@given(
    lines=st.lists(st.text("aé\r漢 ", max_size=12), max_size=12),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    end=st.booleans(),
)
def test_every_line_is_read_once_wherever_the_file_is_split(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], cuts: list[int], end: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    data = "\n".join(lines) + ("\n" if end and lines else "")
    path.write_bytes(data.encode())
    size = path.stat().st_size
    edges = sorted({0, size, *(cut for cut in cuts if cut < size)})
    spans = list(itertools.pairwise(edges)) or [(0, size)]
    found = [list(lines_of(str(path), start, stop)) for start, stop in spans]
    got = [line for part in found for line in part]
    expected = data.encode().split(b"\n")
    assert got == (expected[:-1] if expected[-1] == b"" else expected)
    assert [count_lines(str(path), start, stop) for start, stop in spans] == [len(part) for part in found]
    assert count_lines(str(path), 0, 1 << 62) == len(got)


def test_a_line_longer_than_a_block_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"id": "a", "text": "x" * 3_000_000}) + "\n" + json.dumps({"id": "b", "text": "y"}))
    rows = _read(_file(path), "jsonl")
    assert [(row["doc_id"], len(row["text"])) for row in rows] == [("a", 3_000_000), ("b", 1)]


def test_every_broken_line_becomes_a_row_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"id": 1, "text": "fine"}\n\n{"id": "cut"\n[1]\n{"id": "b", "text": "caf\xe9"}\n{"text": "x"}\n'
        b'{"id": "n"}\n{"id": "num", "text": 17}\n{"id": "s", "text": "\\ud800"}\n{"id": "z", "text": "a\\u0000b"}'
    )
    rows = {row["doc_id"]: row for row in _read(_file(path), "jsonl")}
    assert {doc_id: row["reason"] for doc_id, row in rows.items()} == {
        "1": None, "in.jsonl:3": "UNDECODABLE_INPUT", "in.jsonl:4": "UNDECODABLE_INPUT", "b": "UNDECODABLE_INPUT",
        "in.jsonl:6": "UNDECODABLE_INPUT", "n": "EMPTY_INPUT", "num": "UNDECODABLE_INPUT", "s": "UNDECODABLE_INPUT",
        "z": None,
    }  # fmt: skip
    assert rows["b"]["detail"] == "in.jsonl:5: byte 24 of the line is not UTF-8"
    assert rows["z"]["text"] == "a\x00b"


def test_compressed_lines_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b'{"id": %d, "text": "aaaaaaaaaaaaaaaaaaaa"}\n' % i for i in range(1000))))
    assert len(_read(_file(path), "jsonl")) == 1000
    assert _file(path).suffix == ".jsonl"


def test_csv_fields_may_hold_line_breaks_and_bad_bytes_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'id,text\n1,"two\nlines, ""quoted"""\n2,caf\xe9\n3\n,x\n')
    rows = _read(_file(path), "csv")
    assert [(row["doc_id"], row["text"], row["reason"]) for row in rows] == [
        ("1", 'two\nlines, "quoted"', None),
        ("2", None, "UNDECODABLE_INPUT"),
        ("3", None, "UNDECODABLE_INPUT"),
        ("x.csv:6", None, "UNDECODABLE_INPUT"),
    ]


def test_a_quote_that_is_never_closed_is_a_reject_not_a_long_document(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('id,text\n1,"one"\n2,"two\n3,three\n')
    rows = _read(_file(path), "csv")
    assert [(row["doc_id"], row["text"], row["reason"]) for row in rows] == [
        ("1", "one", None),
        ("2", None, "UNDECODABLE_INPUT"),
    ]
    for fine in ('id,text\n1,a\n2,"b\nc"', 'id,text\n1,5" pipe', "id,text\n1,a\n\n"):  # no line end, or two
        path.write_text(fine)
        assert all(row["reason"] is None for row in _read(_file(path), "csv"))


def test_a_text_file_is_one_document_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "_hidden.txt").write_text("x")
    files = list_files(str(tmp_path), suffix=None)
    rows = [row for file in files for row in _read(file, "text")]
    assert [(row["doc_id"], row["text"], row["reason"]) for row in rows] == [
        ("b.txt", None, "UNDECODABLE_INPUT"),
        ("sub/a.txt", "one\ntwo\n", None),
    ]


def test_a_limit_stops_reading_early(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"id": i, "text": "x"}) + "\n" for i in range(100)))
    assert [row["doc_id"] for row in _read(_file(path), "jsonl", limit=3)] == ["0", "1", "2"]


def test_globs_and_single_files_are_found_and_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.jsonl").write_text("{}")
    assert [f.name for f in list_files(f"{tmp_path}/*.jsonl", suffix=None)] == ["a.jsonl", "b.jsonl"]
    assert [f.name for f in list_files(f"{tmp_path}/a.jsonl", suffix=None)] == ["a.jsonl"]
    for path in (f"{tmp_path}/*.csv", f"{tmp_path}/none.jsonl"):
        with pytest.raises(InputError):
            list_files(path, suffix=None)
    with pytest.raises(InputError, match=r"ends in \.csv"):
        list_files(str(tmp_path), suffix=(".csv",))


def test_a_missing_column_is_found_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"name": "a", "body": "x"}\n')
    with pytest.raises(ConfigError, match=r"no column 'text'; it has name, body"):
        check_columns([_file(path)], kind="jsonl", id_column=None, text_column="text")
    with pytest.raises(ConfigError, match=r"no column 'nr'.*--id-column"):
        check_columns([_file(path)], kind="jsonl", id_column="nr", text_column="body")
    assert check_columns([_file(path)], kind="jsonl", id_column=None, text_column="body") is None
    assert check_columns([_file(path)], kind="jsonl", id_column="name", text_column="body") == "name"
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InputError, match="header"):
        check_columns([_file(tmp_path / "empty.csv")], kind="csv", id_column=None, text_column="text")


def test_every_parquet_file_has_the_columns_that_are_read(tmp_path: Path) -> None:
    def write(name: str, **columns: pa.Array) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), tmp_path / name)

    def check(*names: str) -> None:
        check_parquet(list_files(str(tmp_path), suffix=None), names)

    text, ids = pa.array(["x"]), pa.array([1])
    write("a/0.parquet", id=ids, text=text, other=ids)
    write("a/1.parquet", id=ids, text=text.dictionary_encode())
    write("b/2.parquet", id=ids, text=text.cast(pa.large_string()), other=text)
    check("text", "id")
    (tmp_path / "a/1.parquet").unlink()
    with pytest.raises(InputError, match=r"column 'other' is string in b/2\.parquet and int64 in a/0\.parquet"):
        check("text", "other")
    write("b/3.parquet", id=ids, body=text)
    with pytest.raises(InputError, match=r"b/3\.parquet has no column 'text', which a/0\.parquet has"):
        check("text", "id")
    write("b/3.parquet", id=text, text=text)
    with pytest.raises(InputError, match="column 'id' is string in"):
        check("text", "id")
    (tmp_path / "b/3.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(InputError, match=r"cannot read b/3\.parquet as Parquet"):
        check("text", "id")


def test_only_so_many_parquet_files_are_looked_at(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "a.parquet")
    good = list_files(str(tmp_path / "a.parquet"), suffix=None)
    gone = SourceFile(str(tmp_path / "gone.parquet"), "gone.parquet", 1)
    check_parquet([*good * MAX_CHECKED, gone], ["text"])
    with pytest.raises(InputError, match=r"gone\.parquet"):
        check_parquet([*good, gone], ["text"])
