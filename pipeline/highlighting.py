"""A document as HTML with the places of a record's values marked, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pipeline.grounding import Grounder, Span

_COLOURS = ("#fde68a", "#bbf7d0", "#bfdbfe", "#fbcfe8", "#ddd6fe", "#fed7aa", "#a5f3fc", "#e5e7eb")
_BOX = "border:1px solid #d1d5db;border-radius:6px;padding:8px;margin:6px 0;color:#111827;background:#ffffff"


def highlight(
    text: str,
    value: Mapping[str, Any],
    *,
    title: str = "",
    spans: Sequence[Span] | None = None,
    confidence: Mapping[str, float] | None = None,
) -> str:
    """One HTML element: the text with a mark for each value found in it, coloured by field, then what was not found.

    ``spans`` are found here unless given; ``confidence`` (by JSON pointer) goes to the tips of the marks. Needs no
    script and no frame, so that it shows wherever notebooks do. Everything from outside is escaped. Where two values
    stand in the same place, the first field has the mark.
    """
    if spans is None:
        spans = Grounder(text).ground(value)
    colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(value)}
    parts, at = [], 0
    for span, start, end in _marks(spans):
        field = span.path.split("/")[1].replace("~1", "/").replace("~0", "~")
        style = f"background:{colours[field]};color:#111827" + (
            ";border-bottom:2px dotted #6b7280" if span.kind != "exact" else ""
        )
        probable = (confidence or {}).get(span.path)
        kind = span.kind if probable is None else f"{span.kind}, confidence {probable:.0%}"
        tip = escape(f"{span.path} ({kind})", quote=True)
        parts += [escape(text[at:start]), f'<mark style="{style}" title="{tip}">{escape(text[start:end])}</mark>']
        at = end
    body = "".join([*parts, escape(text[at:])])
    head = f"<b>{escape(title)}</b> " if title else ""
    legend = " ".join(
        f'<span style="background:{colour};padding:0 4px">{escape(name)}</span>' for name, colour in colours.items()
    )
    missing = _missing(spans, value)
    return (
        f'<div style="{_BOX}">{head}{legend}'
        f'<pre style="white-space:pre-wrap;color:#111827;background:#ffffff;margin:6px 0 0">{body}</pre>'
        + (f'<div style="color:#b91c1c">not in the text: {missing}</div>' if missing else "")
        + "</div>"
    )


def _marks(spans: Sequence[Span]) -> list[tuple[Span, int, int]]:
    """Spans in text order that do not overlap."""
    found = [(span, span.start, span.end) for span in spans if span.start is not None and span.end is not None]
    found.sort(key=lambda item: item[1])
    kept: list[tuple[Span, int, int]] = []
    for item in found:
        if not kept or item[1] >= kept[-1][2]:
            kept.append(item)
    return kept


def _missing(spans: Sequence[Span], value: Mapping[str, Any]) -> str:
    lost = [
        f"{escape(span.path)} = <b>{escape(str(_at(value, span.path)))}</b>" for span in spans if span.kind == "none"
    ]
    return ", ".join(lost)


def _at(value: Any, path: str) -> Any:
    for part in path.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value
