"""What the input is: its format, its files, the column that names a document; told at once, without Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from pipeline.config import InputConfig, InputFormat
from pipeline.documents import FileFormat, check_available
from pipeline.errors import ConfigError
from pipeline.parquet_files import check_parquet
from pipeline.sources import ID_COLUMNS, SourceFile, check_columns, list_files

_BY_SUFFIX: dict[str, InputFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".csv": "csv",
    ".txt": "text",
    ".md": "text",
    ".pdf": "pdf",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".docx": "docx",
}
_ONE_PER_FILE = ("text", "pdf", "html", "docx")


@dataclass(frozen=True, slots=True)
class InputSource:
    """A source that can be read; ``id_column`` is None where documents are named by file and line, or by Spark."""

    kind: InputFormat
    files: list[SourceFile]
    id_column: str | None = None


def find_source(config: InputConfig, *, may_be_table: bool = True) -> InputSource | None:
    """The input, looked at; None where it may be a table, which only Spark knows.

    Raises:
        ConfigError: no path, unknown format, unknown column, a format whose library is not installed.
        InputError: the path is missing or cannot be read.
    """
    if not config.path or not config.path.strip():
        raise ConfigError("no input is given", hint="pass --input PATH_OR_TABLE")
    if config.format == "table" or (config.format is None and may_be_table and _may_be_table(config.path)):
        return None
    kind = config.format or _infer_format(config.path)
    if kind == "parquet":
        files = list_files(config.path, suffix=None)
        names = [config.text_column, *([config.id_column] if config.id_column else ID_COLUMNS)]
        columns = check_parquet(files, names)
        require_columns([*columns, *re.findall(r"([^/=]+)=[^/]*/", files[0].uri)], config)
        return InputSource(kind, files)
    if kind in get_args(FileFormat):
        check_available(cast(FileFormat, kind))
    suffix = None if kind == "text" else tuple(end for end, known in _BY_SUFFIX.items() if known == kind)
    files = list_files(config.path, suffix=suffix)
    if kind in _ONE_PER_FILE:
        files = files[: config.limit]
    id_column = check_columns(files, kind=kind, id_column=config.id_column, text_column=config.text_column)
    return InputSource(kind, files, id_column)


def require_columns(columns: Sequence[str], config: InputConfig) -> str:
    """The id column of an input with these columns.

    Raises:
        ConfigError: the id column or the text column is missing.
    """
    wanted = [("text", config.text_column, "--text-column"), ("id", config.id_column, "--id-column")]
    for role, name, option in wanted:
        if name is not None and name not in columns:
            raise ConfigError(
                f"the input has no {role} column {name!r}; its columns are {', '.join(columns)}",
                hint=f"pass {option} NAME",
            )
    found = config.id_column or next((name for name in ID_COLUMNS if name in columns), None)
    if found is None:
        raise ConfigError(
            f"no column names the documents; the columns are {', '.join(columns)}", hint="pass --id-column NAME"
        )
    return found


def _may_be_table(path: str) -> bool:
    """Whether a text can be a table's name: no sign of a path, or two or three words with dots between, of which the
    last is no known suffix."""
    is_name = not re.search(r"[/\\*]|\.\w+$", path) or re.fullmatch(r"\w+(\.\w+){1,2}", path) is not None
    return is_name and SourceFile(path, path, 0).suffix not in _BY_SUFFIX and not Path(path).exists()


def _infer_format(path: str) -> InputFormat:
    kinds = {_BY_SUFFIX.get(file.suffix) for file in list_files(path, suffix=None)}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        raise ConfigError(
            f"cannot tell the format of {path} from its name",
            hint="pass --input-format jsonl, parquet, csv, text, pdf, html or docx",
        )
    return kind
