"""Marked values in a document's HTML."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from pipeline.highlighting import highlight

TEXT = "Order A-17 for 12.50 EUR,\nplaced by <b>Bob & Co</b> in Łódź."


def test_every_value_found_is_marked_with_its_path_and_the_others_are_listed() -> None:
    html = highlight(TEXT, {"id": "A-17", "amount": 12.5, "lines": [{"who": "Bob & Co"}], "city": "Paris"})
    marks = {unescape(mark) for mark in re.findall(r"<mark[^>]*>(.*?)</mark>", html)}
    assert marks == {"A-17", "12.50", "Bob & Co"}
    assert "/lines/0/who" in html
    assert re.search(r"not in the text: /city = <b>Paris</b>", html)


def test_text_from_documents_and_models_is_escaped() -> None:
    html = highlight(TEXT, {"<script>": "<img src=x onerror=alert(1)>"}, title="<script>")
    assert "<script>" not in html
    assert "<img" not in html
    assert "<b>Bob" not in html


@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=5), max_size=5))
def test_the_document_is_complete_whatever_is_marked(text: str, found: list[str]) -> None:
    html = highlight(text, {"values": found})
    body = html.split("<pre", 1)[1].split(">", 1)[1].split("</pre>", 1)[0]
    assert unescape(re.sub(r"</?mark[^>]*>", "", body)) == text
