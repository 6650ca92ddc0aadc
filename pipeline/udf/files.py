"""Rows of documents out of PDF, HTML and Word files, one document a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pipeline.documents import FileFormat, Unreadable, read_file
from pipeline.storage import Storage

Row = dict[str, Any]


def file_rows(kind: FileFormat) -> Callable[[Row, str | None, str], Iterator[Row]]:
    """A reader of parts (see :func:`pipeline.sources.read_function`); a file that cannot be read says why."""

    def rows(part: Row, id_column: str | None, text_column: str) -> Iterator[Row]:
        with Storage(part["uri"]).open_input() as raw:
            found = read_file(raw.read(), kind)
        if isinstance(found, Unreadable):
            detail = f"{part['name']}: {found.detail}"
            yield {"doc_id": part["name"], "text": None, "reason": str(found.reason), "detail": detail}
        else:
            yield {"doc_id": part["name"], "text": found.text, "metadata": found.metadata}

    return rows
