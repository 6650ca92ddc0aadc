"""PDF, HTML and Word files: text with pages, and a reason where there is none."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.data import RejectReason
from pipeline.documents import FileText, Unreadable, check_available, page_starts_of, read_file
from pipeline.grounding import Grounder

pytest.importorskip("pypdf")
pytest.importorskip("inscriptis")
docx = pytest.importorskip("docx")


def make_pdf(*pages: str) -> bytes:
    """A PDF written by hand: one line of text per page, any characters, by a ToUnicode map."""
    characters = sorted({c for page in pages for c in page})
    codes = {c: index + 1 for index, c in enumerate(characters)}
    pairs = "".join(f"<{codes[c]:04x}> <{c.encode('utf-16-be').hex()}>\n" for c in characters)
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        f"1 begincodespacerange <0000> <ffff> endcodespacerange\n{len(characters)} beginbfchar\n{pairs}endbfchar\n"
        "endcmap end end"
    )
    kids = " ".join(f"{6 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H "
        "/DescendantFonts [4 0 R] /ToUnicode 5 0 R >>",
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) "
        "/Supplement 0 >> /DW 600 >>",
        f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream",
    ]
    for index, page in enumerate(pages):
        shown = "".join(f"{codes[c]:04x}" for c in page)
        content = f"BT /F1 12 Tf 50 700 Td <{shown}> Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {7 + 2 * index} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return (out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}").encode("latin-1")


def make_docx() -> bytes:
    document = docx.Document()
    document.add_heading("Orders 订单", 0)
    document.add_paragraph("For Ann Lee")
    table = document.add_table(rows=2, cols=3)
    for index, text in enumerate(("order", "amount", "date", "A-1", "5.00", "2026-01-02")):
        table.cell(index // 3, index % 3).text = text
    document.add_paragraph("End")
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def encrypted(data: bytes, password: str) -> bytes:
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def text_of(found: FileText | Unreadable) -> str:
    assert isinstance(found, FileText), found
    return found.text


def test_a_pdf_gives_its_text_with_page_offsets() -> None:
    found = read_file(make_pdf("Invoice A-1 for Ann", "订单号：B-2，金额５００元", "Total 7.50"), "pdf")
    assert isinstance(found, FileText)
    pages = [found.text[start:] for start in found.page_starts]
    assert [page[:5] for page in pages] == ["Invoi", "订单号：B", "Total"]
    assert page_starts_of(found.metadata) == found.page_starts
    spans = Grounder(found.text, page_starts=found.page_starts).ground({"id": "B-2", "sum": 500, "total": 7.5})
    assert [(span.kind, span.page) for span in spans] == [("exact", 2), ("normalised", 2), ("normalised", 3)]


def test_a_pdf_without_a_user_password_is_read() -> None:
    assert text_of(read_file(encrypted(make_pdf("Hello"), ""), "pdf")) == "Hello"


def test_html_gives_visible_text_with_rows_as_lines() -> None:
    page = """<html><head><title>t</title><style>p{}</style><script>var x='<p>no</p>';</script></head><body>
    <h1>Orders</h1><p>For  Ann&nbsp;Lee &amp; co 订单</p><table><tr><td>A-1</td><td>5.00</td></tr>
    <tr><td>A-2</td><td>6.00</td></tr></table></body></html>"""
    text = text_of(read_file(page.encode(), "html"))
    assert "Ann\xa0Lee & co 订单" in text or "Ann Lee & co 订单" in text
    assert "var x" not in text
    lines = [line.split() for line in text.split("\n")]
    assert ["A-1", "5.00"] in lines
    assert ["A-2", "6.00"] in lines


@pytest.mark.parametrize(
    ("head", "encoding"),
    [("", "utf-8"), ("", "utf-16"), ('<meta charset="gb2312">', "gb18030"), ("", "utf-8-sig"),
     ('<meta http-equiv="Content-Type" content="text/html; charset=big5">', "big5"),
     ('<?xml version="1.0" encoding="utf-8"?>', "utf-8")],
)  # fmt: skip
def test_html_is_decoded_as_it_says(head: str, encoding: str) -> None:
    assert "中文" in text_of(read_file(f"{head}<p>中文</p>".encode(encoding), "html"))


def test_html_without_a_declaration_is_read_as_a_browser_would() -> None:
    assert text_of(read_file(b"<p>Caf\xe9 \x80 5</p>", "html")) == "Café € 5"


def test_a_word_file_gives_paragraphs_and_table_rows_in_order() -> None:
    assert text_of(read_file(make_docx(), "docx")) == (
        "Orders 订单\nFor Ann Lee\norder\tamount\tdate\nA-1\t5.00\t2026-01-02\n\nEnd"
    )


def test_what_cannot_be_read_says_why() -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a.txt", "x")
    cases = [
        (b"", "pdf", RejectReason.EMPTY_INPUT, "empty"),
        (b" \n", "html", RejectReason.EMPTY_INPUT, "empty"),
        (b"hello", "pdf", RejectReason.UNDECODABLE_INPUT, "not a PDF"),
        (make_pdf("Hello")[:300], "pdf", RejectReason.UNDECODABLE_INPUT, "broken pdf"),
        (encrypted(make_pdf("Hello"), "secret"), "pdf", RejectReason.UNDECODABLE_INPUT, "encrypted"),
        (make_pdf(" ", " "), "pdf", RejectReason.EMPTY_INPUT, "OCR"),
        (b"<html><body><script>x</script></body></html>", "html", RejectReason.EMPTY_INPUT, "no text"),
        (b'<meta charset="utf-8"><p>\xff\xff</p>', "html", RejectReason.UNDECODABLE_INPUT, "character set"),
        (b'<meta charset="klingon"><p>x</p>', "html", RejectReason.UNDECODABLE_INPUT, "klingon"),
        (b"\x89PNG\x00\x00\x00", "html", RejectReason.UNDECODABLE_INPUT, "not an HTML"),
        (b"PK nonsense", "docx", RejectReason.UNDECODABLE_INPUT, "not a Word"),
        (zipped.getvalue(), "docx", RejectReason.UNDECODABLE_INPUT, "broken docx"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "docx", RejectReason.UNDECODABLE_INPUT, "encrypted"),
        (make_docx()[:2000], "docx", RejectReason.UNDECODABLE_INPUT, ""),
    ]
    for data, kind, reason, words in cases:
        found = read_file(data, kind)  # type: ignore[arg-type]
        assert isinstance(found, Unreadable), (kind, words, found)
        assert found.reason == reason
        assert words in found.detail


@given(data=st.data(), kind=st.sampled_from(["pdf", "docx", "html"]))
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_never_raise(data: st.DataObject, kind: str) -> None:
    whole = {
        "pdf": make_pdf("Hello there", "订单"),
        "docx": make_docx(),
        "html": b"<p>Hello<table><tr><td>x</td></table>",
    }[kind]
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 20))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    found = read_file(bytes(broken), kind)  # type: ignore[arg-type]
    if isinstance(found, FileText):
        found.text.encode("utf-8")
        assert "\x00" not in found.text


def test_the_libraries_are_checked_on_the_driver() -> None:
    for kind in ("pdf", "html", "docx"):
        check_available(kind)  # type: ignore[arg-type]
