"""The report: a page that shows what it was given, in a real browser."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pipeline.data import FieldError
from pipeline.evaluation import Prediction, compare, evaluate
from pipeline.grounding import Grounder
from pipeline.report import TimelinePoint, render_report
from pipeline.report_evaluation import render_evaluation
from pipeline.report_sample import SampleRecord, SampleReject
from tests.browser import Browser, chromium

TEXT = """Kundenbrief <script>alert(1)</script> & mehr
Dear Marta Lindqvist, account U-20417.
- ORD-88120: 64.90 on 4 January 2026
- ORD-88341: 1,018.25 on 2026-01-19T17:45:03Z
Delivery: 14 Harbour Lane, Bristol. 收货人：王小明，电话１３８００
"""
VALUE = {
    "user_id": "U-20417",
    "name": "Marta  LINDQVIST",
    "orders": [
        {"order_id": "ORD-88120", "amount": 64.9, "timestamp": "2026-01-04"},
        {"order_id": "ORD-88341", "amount": 1018.25, "timestamp": "2026-01-19T17:45:03Z"},
    ],
    "address": {"city": "Bristol", "street": "14 Harbour Lame"},
    "phone": "13800",
    "note": "invented by the model",
    "active": True,
}
MANIFEST: dict[str, Any] = {
    "run_id": "a1b2c3d4e5f6", "started_at": "2026-05-01T10:00:00+00:00", "finished_at": "2026-05-01T10:20:07+00:00",
    "documents": 12000, "records": 11871, "rejects": 129, "reject_rate": 129 / 12000, "resumed_documents": 2000,
    "rejects_by_reason": {"SCHEMA_MISMATCH": 80, "TRUNCATED": 31, "EMPTY_INPUT": 18}, "chunks": 12340,
    "retried_documents": 412, "merge_conflicts": 7, "tokens": {"prompt": 6_812_345, "output": 1_204_551},
    "engine": {"loads": 8, "load_s": 96.2, "busy_s": 8421.0, "rounds": 1, "prompt_tokens": 5_600_000,
               "output_tokens": 1_003_000, "counters": {
                   "num_decode_steps": 310_000, "num_tokens": 1_003_000, "drafted_by.history": 400_000,
                   "accepted_by.history": 372_000, "drafted_by.document": 520_000, "accepted_by.document": 310_500,
                   "drafted_by.grammar": 90_000, "accepted_by.grammar": 88_200}},
    "timings_s": {"plan": 21.5, "compare": 4.2, "extract": 1103.0, "output": 30.9, "total": 1163.0},
    "model": "Qwen/Qwen3-4B@main", "hashes": {"run": "abc"}, "versions": {"python": "3.12.4", "vllm": "0.32.0"},
    "settings": {"schema_spec": "schemas/orders.py:CustomerOrders", "output": {"profile": "spark"}},
}  # fmt: skip


def sample_records() -> list[SampleRecord]:
    confidence = {"/user_id": 0.99, "/note": 0.31, "/orders/0/amount": 0.93}
    one = SampleRecord("letter-1", TEXT, VALUE, Grounder(TEXT).ground(VALUE), confidence, attempts=2)
    text = "订单号：A-1，金额：５００元，日期：2026年1月4日。" * 3
    value = {"订单号": "A-1", "金额": 500, "日期": "2026-01-04"}
    return [one, SampleRecord("信-2", text, value, Grounder(text).ground(value))]


def report() -> str:
    reject = SampleReject(
        "doc</details>", "SCHEMA_MISMATCH", "/total: expected a number", '{"total": "<b>a lot</b>"}',
        [FieldError("/total", 'expected a number, got "<b>a lot</b>"')], "Total: a lot",
    )  # fmt: skip
    timeline = [TimelinePoint(i * 10.0, int(95 * i + 20 * math.sin(i / 4)), 60_000 * i) for i in range(110)]
    latencies = [800.0 + 37 * (i % 97) + (4000 if i % 50 == 0 else 0) for i in range(2000)]
    return render_report(
        MANIFEST, records=sample_records(), rejects=[reject], timeline=timeline, latencies_ms=latencies
    )


class Tags(HTMLParser):
    """Checks that every tag that was opened is closed in order."""

    VOID = frozenset({"meta", "link", "br", "rect", "line", "polygon", "polyline", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def assert_well_formed(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert not re.search(r'(?:src|href)="(?!data:,)', page)


def test_the_page_is_well_formed_and_escapes_what_is_not_ours() -> None:
    page = report()
    assert_well_formed(page)
    assert "<script>alert" not in page
    assert "<b>a lot" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; mehr" in page
    assert "129 rejected (1.1%)" in page
    assert "3.24" in page  # tokens per decode step
    assert page == report()


def test_an_empty_run_has_a_report_too() -> None:
    page = render_report({"run_id": "x", "documents": 0, "records": 0, "rejects": 0})
    assert_well_formed(page)
    assert "0 records from 0 documents" in page


def test_a_long_text_is_cut_and_overlapping_spans_nest() -> None:
    text = "New York City " * 5000
    value = {"a": "New York City", "b": "York City", "c": "York"}
    page = render_report({}, records=[SampleRecord("d", text, value, Grounder(text).ground(value))])
    assert len(page) < 80_000
    assert "the text is cut here" in page
    assert '<mark class="exact" data-s="0 1 2"' in page
    assert '<mark class="exact" data-s="0 1"' in page


def test_a_record_shows_itself_in_a_notebook() -> None:
    shown = sample_records()[0]._repr_html_()
    assert "<script" not in shown
    assert 'title="/user_id (exact, confidence 99%)"' in shown
    assert_well_formed(shown)


def test_an_evaluation_is_a_page() -> None:
    gold = {str(i): {"a": i, "b": "x<y"} for i in range(40)}
    first = evaluate(gold, {str(i): Prediction({"a": i}, confidence={"/a": 0.9}) for i in range(39)})
    second = evaluate(
        gold, {str(i): Prediction({"a": i + i % 2, "b": "x<y"}, confidence={"/a": i / 40}) for i in range(40)}
    )
    page = render_evaluation(second, title="B & A", comparison=compare(first, second))
    assert_well_formed(page)
    assert "may be chance" in page or "clear" in page
    assert "x&lt;y" in render_evaluation(first, title="A")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.mark.slow
def test_in_a_browser_a_click_on_a_value_marks_its_span_and_back(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report(), encoding="utf-8")
    browser.requests.clear()
    browser.open(file)
    marked = "[].map.call(document.querySelectorAll('.on'),function(e){return e.tagName+':'+e.textContent})"
    assert browser.run(marked) == []
    browser.click('button.leaf[title^="/orders/1/amount"]')
    assert browser.run(marked) == ["MARK:1,018.25", "BUTTON:1018.25"]
    assert browser.run("getComputedStyle(document.querySelector('button.on')).outlineStyle") == "solid"
    browser.click('mark[title="/address/street"]')
    assert browser.run(marked) == ["MARK:14 Harbour Lane", 'BUTTON:"14 Harbour Lame"']
    assert browser.run("document.querySelectorAll('.doc')[0].querySelector('.text').textContent") == TEXT
    assert browser.requests == [file.as_uri()]
    assert browser.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser_nothing_is_wider_than_the_page(browser: Browser, tmp_path: Path, dark: bool) -> None:
    file = tmp_path / "report.html"
    file.write_text(report(), encoding="utf-8")
    for width in (1280, 420):
        browser.open(file, dark=dark, width=width)
        assert browser.run("document.documentElement.scrollWidth") <= width
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(21, 23, 26)" if dark else "rgb(251, 251, 250)")
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000
