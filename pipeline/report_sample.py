"""Documents of a report's sample: text with highlighted spans beside the record, and rejects with their raw output."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from typing import Any

from pipeline.data import FieldError
from pipeline.grounding import Span
from pipeline.highlighting import highlight

MAX_TEXT_CHARS = 20_000
LOW_CONFIDENCE = 0.7


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A document with its record; ``confidence`` by JSON pointer. Shows itself in a notebook.

    ``num_chars`` is the document's length where ``text`` is only its beginning.
    """

    doc_id: str
    text: str
    value: Mapping[str, Any]
    spans: Sequence[Span] = ()
    confidence: Mapping[str, float] = field(default_factory=dict)
    attempts: int = 1
    num_chars: int = 0

    def _repr_html_(self) -> str:
        return highlight(self.text, self.value, title=self.doc_id, spans=self.spans, confidence=self.confidence)


@dataclass(frozen=True, slots=True)
class SampleReject:
    """A document without a record."""

    doc_id: str
    reason: str
    detail: str
    raw_output: str | None = None
    errors: Sequence[FieldError] = ()
    text: str | None = None


def record_html(sample: SampleRecord, *, is_open: bool = False) -> str:
    """One record; a click on a value marks its span, a click on a span its value."""
    shown, num_chars = sample.text[:MAX_TEXT_CHARS], max(sample.num_chars, len(sample.text))
    spans = [(i, span) for i, span in enumerate(sample.spans) if span.start is not None]
    inside = [(i, span) for i, span in spans if span.end is not None and span.end <= len(shown)]
    missing = sum(span.kind == "none" for span in sample.spans)
    notes = [f"{num_chars:,} characters"]
    if sample.attempts > 1:
        notes.append(f"{sample.attempts} attempts")
    if missing:
        notes.append(f"{missing} value{'s' * (missing > 1)} not in the document")
    cut = '<p class="soft">the text is cut here</p>' if len(shown) < num_chars else ""
    return (
        f'<details class="doc"{" open" if is_open else ""}><summary>{escape(sample.doc_id)} '
        f'<span class="soft">{escape(", ".join(notes))}</span></summary><div class="pair">'
        f'<div><pre class="text">{"".join(_marked(shown, inside))}</pre>{cut}</div>'
        f'<pre class="value">{_Value(sample).html()}</pre></div></details>'
    )


def reject_html(sample: SampleReject) -> str:
    """One reject with everything it takes to understand it."""
    errors = "".join(f"<li><code>{escape(e.path or '/')}</code> {escape(e.message)}</li>" for e in sample.errors[:20])
    raw = f'<h3>raw output</h3><pre class="raw">{escape(sample.raw_output)}</pre>' if sample.raw_output else ""
    text = ""
    if sample.text:
        text = f'<h3>document</h3><pre class="text">{escape(sample.text[:MAX_TEXT_CHARS])}</pre>'
    return (
        f'<details class="doc reject"><summary>{escape(sample.doc_id)} '
        f'<span class="bad">{escape(sample.reason)}</span> '
        f'<span class="soft">{escape(sample.detail[:160])}</span></summary>'
        f"<p>{escape(sample.detail)}</p><ul>{errors}</ul>"
        f'<div class="pair"><div>{text}</div><div>{raw}</div></div></details>'
    )


def _marked(text: str, spans: Sequence[tuple[int, Span]]) -> Iterator[str]:
    """The text with a mark for each stretch between borders of spans; the shortest span of a stretch is named last."""
    borders = sorted({0, len(text), *(at for _, span in spans for at in (span.start or 0, span.end or 0))})
    for low, high in itertools.pairwise(borders):
        over = [(i, s) for i, s in spans if (s.start or 0) <= low and high <= (s.end or 0)]
        piece = escape(text[low:high])
        if not over:
            yield piece
            continue
        over.sort(key=lambda item: (item[1].start or 0) - (item[1].end or 0))
        names = " ".join(str(i) for i, _ in over)
        title = ", ".join(span.path for _, span in over)
        yield f'<mark class="{over[-1][1].kind}" data-s="{names}" title="{escape(title)}">{piece}</mark>'


class _Value:
    """A record as indented JSON whose leaves can be clicked."""

    def __init__(self, sample: SampleRecord) -> None:
        self._spans = {span.path: (i, span) for i, span in enumerate(sample.spans)}
        self._confidence = sample.confidence
        self._value = sample.value

    def html(self) -> str:
        return self._node(self._value, "", "")

    def _node(self, value: Any, path: str, indent: str) -> str:
        deeper = indent + "  "
        if isinstance(value, Mapping) and value:
            lines = (
                f"{deeper}{escape(json.dumps(name, ensure_ascii=False))}: "
                + self._node(item, f"{path}/{name.replace('~', '~0').replace('/', '~1')}", deeper)
                for name, item in value.items()
            )
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
        if isinstance(value, list | tuple) and value:
            items = (deeper + self._node(item, f"{path}/{i}", deeper) for i, item in enumerate(value))
            return "[\n" + ",\n".join(items) + f"\n{indent}]"
        return self._leaf(value, path)

    def _leaf(self, value: Any, path: str) -> str:
        text = str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str)
        number, span = self._spans.get(path, (None, None))
        shown = escape(text)
        if span is not None and span.kind == "none":
            shown = f'<span class="none" title="not in the document">{shown}</span>'
        elif span is not None:
            where = f"{path}: {span.kind}, characters {span.start} to {span.end}"
            where += f", page {span.page}" if span.page else ""
            shown = (
                f'<button class="leaf {span.kind}" data-v="{number}" aria-pressed="false" title="{escape(where)}">'
                f"{shown}</button>"
            )
        confidence = self._confidence.get(path)
        if confidence is None:
            return shown
        low = " low" if confidence < LOW_CONFIDENCE else ""
        return f'{shown} <span class="conf{low}">{confidence:.0%}</span>'
