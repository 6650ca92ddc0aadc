"""Parquet input on the driver: every file's footer is looked at, because Spark takes the columns of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.sources import SourceFile
from pipeline.storage import Storage

MAX_CHECKED = 1000
"""Files beyond so many are not looked at; where one differs, Spark fails or its texts are null (EMPTY_INPUT)."""
_AT_A_TIME = 16


def check_parquet(files: Sequence[SourceFile], names: Sequence[str]) -> list[str]:
    """Compare the columns ``names`` of the first :data:`MAX_CHECKED` files; gives the names of all of the first file.

    Raises:
        InputError: a file is no Parquet, or lacks a column that another has, or has it with another type.
    """
    files = files[:MAX_CHECKED]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        columns = list(pool.map(_columns, files))
    for name in names:
        having = [(file, found[name]) for file, found in zip(files, columns, strict=True) if name in found]
        lacking = [file for file, found in zip(files, columns, strict=True) if name not in found]
        if having and lacking:
            raise InputError(
                f"{lacking[0].name} has no column {name!r}, which {having[0][0].name} has",
                hint="give files of each kind a folder of their own",
            )
        for file, kind in having:
            if kind != having[0][1]:
                raise InputError(
                    f"column {name!r} is {kind} in {file.name} and {having[0][1]} in {having[0][0].name}",
                    hint="give files of each kind a folder of their own",
                )
    return list(columns[0]) if columns else []


def _columns(file: SourceFile) -> dict[str, str]:
    """Names and kinds of a file's columns: what Spark reads as one type has one name here."""
    import pyarrow.parquet as pq

    folder, _, name = file.uri.rpartition("/")
    with Storage(folder).open_input_file(name) as stream:
        try:
            schema = pq.ParquetFile(stream).schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"cannot read {file.name} as Parquet: {error}") from None
    return {field.name: _kind(field.type) for field in schema}


def _kind(type_: Any) -> str:
    if pa.types.is_dictionary(type_):
        return _kind(type_.value_type)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "string"
    return "binary" if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_) else str(type_)
