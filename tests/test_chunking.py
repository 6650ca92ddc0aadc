"""Chunking: nothing is lost, nothing is too long, cuts lie at good borders."""

from __future__ import annotations

import hashlib
import itertools
import re
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.chunking import ELLIPSIS, document_text, halve, split_document
from pipeline.data import Chunk, Document
from pipeline.errors import ConfigError


class PieceTokenizer:
    """A space joins the word after it, as in byte-level BPE; other characters are tokens of their own."""

    def __init__(self) -> None:
        self.num_chars = 0

    def count(self, text: str, /) -> int:
        self.num_chars += len(text)
        return len(re.findall(r" ?[A-Za-z]{1,6}|[\s\S]", text))


class ByteTokenizer:
    """One token per UTF-8 byte: the worst case for Chinese."""

    def count(self, text: str, /) -> int:
        return len(text.encode("utf-8", "surrogatepass"))


def key_for(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def split(
    text: str, max_tokens: int = 64, overlap: int = 8, *, repeat: bool = True, tokenizer: object = None
) -> list[Chunk]:
    return split_document(
        Document("d", text),
        tokenizer=tokenizer or PieceTokenizer(),  # type: ignore[arg-type]
        max_tokens=max_tokens,
        overlap_tokens=overlap,
        repeat_preamble=repeat,
        key_for=key_for,
    )


def check_invariants(text: str, chunks: list[Chunk], max_tokens: int) -> None:
    assert [c.index for c in chunks] == list(range(len(chunks)))
    assert {c.num_chunks for c in chunks} == {len(chunks)}
    for chunk in chunks:
        span = text[chunk.char_start : chunk.char_end]
        assert span
        assert chunk.text.endswith(span)
        assert chunk.num_tokens <= max_tokens
        assert chunk.key == key_for(chunk.text)
    covered = 0
    for before, after in zip([None, *chunks], chunks, strict=False):
        assert text[covered : after.char_start].strip() == ""
        if before is not None:
            assert after.char_start > before.char_start
            assert after.char_end > before.char_end
        covered = after.char_end
    assert text[covered:].strip() == ""


ALPHABET = "abcdefgh  .,\n\n\t|;0123456789 订单号。，！\r\f\u0301😀\u200d"
TEXTS = st.text(alphabet=st.sampled_from(list(ALPHABET)), max_size=800)


@given(text=TEXTS, max_tokens=st.integers(16, 80), overlap=st.integers(0, 15), repeat=st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_character_lies_in_a_chunk_and_no_chunk_is_too_long(
    text: str, max_tokens: int, overlap: int, repeat: bool
) -> None:
    for tokenizer in (PieceTokenizer(), ByteTokenizer()):
        chunks = split(text, max_tokens, overlap, repeat=repeat, tokenizer=tokenizer)
        if text.strip():
            check_invariants(text, chunks, max_tokens)
        assert chunks == split(text, max_tokens, overlap, repeat=repeat, tokenizer=tokenizer)


@given(text=st.text(max_size=300), max_tokens=st.integers(16, 40))
@settings(max_examples=100, deadline=None)
def test_any_unicode_text_is_covered(text: str, max_tokens: int) -> None:
    if text.strip():
        check_invariants(text, split(text, max_tokens, tokenizer=ByteTokenizer()), max_tokens)


def test_a_document_that_fits_is_one_chunk_with_the_whole_text() -> None:
    text = "  Title\n\nBody with a few words.\n"
    (chunk,) = split(text)
    assert (chunk.text, chunk.char_start, chunk.char_end, chunk.chunk_id) == (text, 0, len(text), "d#0")


def test_an_empty_document_is_one_empty_chunk() -> None:
    assert [c.text for c in split("")] == [""]
    assert [c.text for c in split(" \n" * 5000)] == [" \n" * 5000]


def test_a_tiny_limit_that_holds_no_character_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match="max_tokens"):
        split("😀" * 100, 3, 0, tokenizer=ByteTokenizer())


def test_english_is_cut_after_sentences_and_not_after_abbreviations() -> None:
    text = " ".join(f"Number {i} was sent by Dr. Smith to Mr. Jones at 3.50 p.m. on Monday." for i in range(40))
    chunks = split(text, 100, 0)
    assert len(chunks) > 5
    assert all(c.text.rstrip().endswith("Monday.") for c in chunks)


def test_chinese_is_cut_after_sentences() -> None:
    text = "".join(f"第{i}个客户订购了三件商品，总价为{i}元。他说：“很好！”" for i in range(60))
    chunks = split(text, 100, 0)
    assert len(chunks) > 5
    assert all(c.text.endswith(("。", "”")) for c in chunks)


def test_paragraph_borders_win_over_later_sentence_borders() -> None:
    text = "\n\n".join("Word word word word. " * 7 for _ in range(20))
    assert all(c.text.rstrip(" ").endswith(("\n", ".")) for c in split(text, 64, 0, repeat=False))
    assert all(c.char_start % 149 == 0 for c in split(text, 60, 0, repeat=False))


def test_a_hard_wrapped_sentence_is_not_cut_at_its_line_ends() -> None:
    sentence = "this sentence is hard wrapped\nby a mail program in the middle\nof what it says and ends here.\n"
    chunks = split(sentence.capitalize() * 30, 64, 0, repeat=False)
    assert all(c.text.endswith("here.\n") for c in chunks)


def test_the_overlap_begins_at_a_sentence() -> None:
    text = " ".join(f"Short one {i}." for i in range(200))
    chunks = split(text, 64, 20, repeat=False)
    for before, after in itertools.pairwise(chunks):
        assert after.char_start < before.char_end
        assert text[after.char_start :].startswith("Short one")


def test_a_table_header_and_the_preamble_are_repeated() -> None:
    rows = "".join(f"A-{i}\t{i}.50\t2026-01-02\n" for i in range(100))
    text = f"Orders of Example Ltd\nJanuary\n\norder\tamount\tdate\n{rows}"
    chunks = split(text, 120, 0)
    assert len(chunks) > 5
    for chunk in chunks[1:]:
        assert chunk.text.startswith(f"Orders of Example Ltd\nJanuary{ELLIPSIS}order\tamount\tdate\nA-")
    assert chunks[0].text.startswith("Orders of Example Ltd\nJanuary\n\norder\tamount\tdate\nA-0")
    plain = split(text, 120, 0, repeat=False)
    assert all(text[c.char_start : c.char_end] == c.text for c in plain)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("| id | amount |\n|---|---|\n", "| A{i} | {i} |\n"),
        ("id,amount,city\n", "A{i},{i},Bonn\n"),
        ("订单号|金额|城市\n", "甲{i}|{i}|北京\n"),
    ],
)
def test_only_the_header_of_a_table_is_repeated_never_a_row(header: str, row: str) -> None:
    chunks = split(header + "".join(row.format(i=i) for i in range(120)), 100, 0)
    assert len(chunks) > 3
    for chunk in chunks[1:]:
        assert chunk.text.startswith(header)
        assert len(chunk.text) - len(header) == chunk.char_end - chunk.char_start


def test_prose_with_commas_is_no_table() -> None:
    text = "He came, saw, and won 3 games.\n" * 200
    assert all(c.text == text[c.char_start : c.char_end] for c in split(text, 64, 0))


def test_half_a_million_characters_take_linear_time_and_little_memory() -> None:
    paragraph = "The order 12345 of customer Smith was sent on 2026-01-02 to Bonn. 订单已发货，金额为99元。\n"
    text = paragraph * (500_000 // len(paragraph))
    tokenizer = PieceTokenizer()
    tracemalloc.start()
    started = time.perf_counter()
    chunks = split(text, 1024, 64, tokenizer=tokenizer)
    elapsed = time.perf_counter() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    check_invariants(text, chunks, 1024)
    assert tokenizer.num_chars < 2.5 * len(text)
    assert peak < 20_000_000
    assert elapsed < 20


@given(text=TEXTS, max_tokens=st.integers(20, 90), overlap=st.integers(0, 19), repeat=st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_text_is_put_together_from_its_chunks(text: str, max_tokens: int, overlap: int, repeat: bool) -> None:
    chunks = split(text, max_tokens, overlap, repeat=repeat)
    again = document_text([(c.text, c.char_start, c.char_end) for c in reversed(chunks)])
    assert len(again) <= len(text)
    for place, character in enumerate(text):
        assert character.isspace() or again[place] == character


@pytest.mark.parametrize("text", ["x" * 200_000, "中" * 200_000, "a b " * 50_000, "\n" * 200_000 + "x", "." * 200_000])
def test_a_text_without_good_borders_is_still_covered(text: str) -> None:
    check_invariants(text, split(text, 512, 32), 512)


@given(text=TEXTS, overlap=st.integers(0, 20))
@settings(max_examples=150, deadline=None)
def test_halves_cover_their_chunk_and_are_smaller(text: str, overlap: int) -> None:
    chunk = Chunk("d", 3, 7, "preamble\n" + text, 100, 100 + len(text), "k")
    halves = halve(chunk, tokenizer=PieceTokenizer(), key_for=key_for, overlap_tokens=overlap)
    if not halves:
        assert len(text.split()) < 2 or len(text.strip()) < 8
        return
    first, second = halves
    assert first.char_start == 100
    assert second.char_end == 100 + len(text)
    assert 100 < second.char_start <= first.char_end < second.char_end
    for half in halves:
        assert half.text == "preamble\n" + text[half.char_start - 100 : half.char_end - 100]
        assert half.text.removeprefix("preamble\n").strip()
        assert len(half.text) < len(chunk.text)
        assert (half.doc_id, half.index, half.num_chunks) == ("d", 3, 7)


def test_one_word_cannot_be_halved() -> None:
    assert halve(Chunk("d", 0, 1, "x", 0, 1, "k"), tokenizer=PieceTokenizer(), key_for=key_for) == []
