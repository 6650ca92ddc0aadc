"""One row of :func:`pipeline.extract` beside its document, as a notebook shows it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from pipeline.grounding import Span
from pipeline.highlighting import highlight
from pipeline.results import json_value

_BOX = "border:1px solid #d1d5db;border-radius:6px;padding:8px;margin:6px 0;color:#111827;background:#ffffff"


class ShownRow:
    """The last expression of a cell: ``ShownRow(row, text=...)`` marks every value of the record in the text.

    ``row`` is a row of the result (a Spark row or a mapping with ``doc_id, record, error, meta``), ``text`` the text of
    its document. Spans and confidences are those of ``meta``; without spans they are found here. A reject shows why.
    """

    def __init__(self, row: Any, *, text: str) -> None:
        self._row: Mapping[str, Any] = row if isinstance(row, Mapping) else row.asDict(recursive=True)
        self._text = text

    def _repr_html_(self) -> str:
        row, meta = self._row, self._row.get("meta") or {}
        if row["record"] is None:
            error = row.get("error") or {}
            return (
                f'<div style="{_BOX}"><b>{escape(row["doc_id"])}</b> '
                f'<span style="color:#b91c1c">{escape(str(error.get("reason", "")))}</span> '
                f"{escape(str(error.get('detail', '')))}"
                f'<pre style="white-space:pre-wrap;margin:6px 0 0">{escape(self._text)}</pre></div>'
            )
        found = meta.get("spans")
        return highlight(
            self._text,
            json_value(row["record"]),
            title=row["doc_id"],
            spans=None if found is None else [Span(**span) for span in found],
            confidence={entry["path"]: entry["confidence"] for entry in meta.get("confidence") or ()},
        )
