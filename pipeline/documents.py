"""Text of PDF, HTML and Word files: bytes in, text with page offsets or the reason why there is none out.

The libraries are those of the extra ``files``: pypdf, inscriptis (on lxml), python-docx. Nothing in a file raises, is
fetched or is executed; what cannot be read becomes a reject.
"""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.data import RejectReason
from pipeline.errors import ConfigError

logger = logging.getLogger(__name__)

FileFormat = Literal["pdf", "html", "docx"]
PAGE_BREAK = "\n\n"
PAGE_STARTS = "page_starts"
"""Key of the page offsets in a document's metadata."""

_MAX_UNPACKED_BYTES = 500_000_000
_OLE = b"\xd0\xcf\x11\xe0"
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_\-:.]+)", re.IGNORECASE)
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass(frozen=True, slots=True)
class FileText:
    """Text of one file. ``page_starts`` are code point offsets at which pages begin; empty where there are no pages."""

    text: str
    page_starts: tuple[int, ...] = ()

    @property
    def metadata(self) -> dict[str, str]:
        """What a document carries of its pages."""
        return {PAGE_STARTS: ",".join(map(str, self.page_starts))} if self.page_starts else {}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a file has no text."""

    reason: RejectReason
    detail: str


def page_starts_of(metadata: Mapping[str, str]) -> tuple[int, ...]:
    """The page offsets of a document; empty where it has none."""
    return tuple(int(part) for part in metadata.get(PAGE_STARTS, "").split(",") if part)


def check_available(kind: FileFormat) -> None:
    """Check on the driver that the library for a format is installed.

    Raises:
        ConfigError: it is not.
    """
    import importlib

    for module in {"pdf": ("pypdf",), "html": ("inscriptis", "lxml"), "docx": ("docx",)}[kind]:
        try:
            importlib.import_module(module)
        except ImportError:
            raise ConfigError(
                f"input format {kind} needs the package that provides {module!r}",
                hint="install the extra: pip install 'spark-extract-pipeline[files]'",
            ) from None


def read_file(data: bytes, kind: FileFormat) -> FileText | Unreadable:
    """The text of a file's bytes. Never raises for anything in them."""
    if not data.strip():
        return Unreadable(RejectReason.EMPTY_INPUT, "the file is empty")
    readers: dict[str, Callable[[bytes], FileText | Unreadable]] = {"pdf": _pdf, "html": _html, "docx": _docx}
    try:
        found = readers[kind](data)
    except ImportError:
        raise
    except Exception as error:  # these libraries raise dozens of kinds for broken files; all of them mean that
        logger.debug("a %s file cannot be read", kind, exc_info=True)
        return Unreadable(RejectReason.UNDECODABLE_INPUT, f"broken {kind} file: {_reason(error)}")
    if isinstance(found, FileText) and not found.text.strip():
        why = "the PDF has no text (scanned pages need OCR first)" if kind == "pdf" else "the file has no text"
        return Unreadable(RejectReason.EMPTY_INPUT, why)
    return found


def _pdf(data: bytes) -> FileText | Unreadable:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError, WrongPasswordError

    if b"%PDF-" not in data[:1024]:
        return Unreadable(RejectReason.UNDECODABLE_INPUT, "not a PDF file")
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # a warning per odd object of every file helps nobody
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return Unreadable(RejectReason.UNDECODABLE_INPUT, "the PDF is encrypted")
        pages = [_clean(page.extract_text() or "").strip("\n") for page in reader.pages]
    except (DependencyError, FileNotDecryptedError, WrongPasswordError):
        return Unreadable(RejectReason.UNDECODABLE_INPUT, "the PDF is encrypted")
    starts, at = [], 0
    for text in pages:
        starts.append(at)
        at += len(text) + len(PAGE_BREAK)
    return FileText(PAGE_BREAK.join(pages), tuple(starts))


def _html(data: bytes) -> FileText | Unreadable:
    from inscriptis import get_text  # type: ignore[import-untyped]

    try:
        text = _decode(data)
    except (UnicodeDecodeError, LookupError) as error:
        return Unreadable(RejectReason.UNDECODABLE_INPUT, f"not text in its character set: {_reason(error)}")
    if "\x00" in text[:1000]:
        return Unreadable(RejectReason.UNDECODABLE_INPUT, "not an HTML file")
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)  # lxml refuses decoded text that names an encoding
    lines = (line.rstrip() for line in get_text(text).split("\n"))
    return FileText(_clean(re.sub(r"\n{3,}", "\n\n", "\n".join(lines))).strip("\n"))


def _decode(data: bytes) -> str:
    """By byte order mark, by declaration, as UTF-8, else as a browser would."""
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data.decode(name)
    declared = _CHARSET.search(data[:4096])
    if declared is not None:
        name = declared[1].decode("ascii").lower()
        return data.decode({"gb2312": "gb18030", "gbk": "gb18030", "iso-8859-1": "cp1252"}.get(name, name))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252")


def _docx(data: bytes) -> FileText | Unreadable:
    import docx

    if data.startswith(_OLE):
        return Unreadable(RejectReason.UNDECODABLE_INPUT, "encrypted, or an old .doc file")
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return Unreadable(RejectReason.UNDECODABLE_INPUT, "not a Word file")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > _MAX_UNPACKED_BYTES:
            return Unreadable(RejectReason.UNDECODABLE_INPUT, "the file unpacks to more than 500 MB")
    document = docx.Document(io.BytesIO(data))
    return FileText(_clean("\n".join(_blocks(document.iter_inner_content()))).strip("\n"))


def _blocks(content: Any) -> Iterator[str]:
    """Paragraphs and tables in the order of the document; a table row is a line, its cells are divided by tabs."""
    for block in content:
        if hasattr(block, "rows"):
            for row in block.rows:
                cells: list[str] = []
                seen: list[Any] = []
                for cell in row.cells:  # a merged cell is given once for each column it covers
                    if not any(cell._tc is other for other in seen):
                        seen.append(cell._tc)
                        cells.append(" ".join(_text_of(cell).split()))
                yield "\t".join(cells)
            yield ""
        else:
            yield block.text


def _text_of(cell: Any) -> str:
    return "\n".join(_blocks(cell.iter_inner_content()))


def _clean(text: str) -> str:
    """Without NUL and lone surrogates, with plain line ends."""
    text = text.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n")
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
