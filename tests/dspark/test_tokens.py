"""Text as token ids: canonical continuations, whatever the vocabulary."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dspark.gold import LAYOUTS, Layout
from pipeline.dspark.spellings import Spellings
from pipeline.dspark.tokens import Encoding, build_token_table
from tests.dspark.drafting_material import VOCABULARIES, WORDS, Vocabulary, record_text, token_table


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@given(text=WORDS)
def test_encoding_keeps_every_byte(vocabulary: Vocabulary, text: str) -> None:
    table = token_table(vocabulary)
    ids = table.encode(text)
    assert table.decode_bytes(ids) == text.encode()
    assert sum(table.num_bytes(i) for i in ids) == len(text.encode())


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@given(text=WORDS, cut=st.integers(0, 30))
def test_a_continuation_has_the_bytes_that_are_missing(vocabulary: Vocabulary, text: str, cut: int) -> None:
    table = token_table(vocabulary)
    ids = table.encode(text)
    tail, rest = ids[:cut], table.decode_bytes(ids[cut:])
    continued = table.encode_after(tail, rest)
    # Inside a character nothing can be encoded alone; else all bytes are there.
    assert table.decode_bytes(continued) in (rest, b"")
    if rest[:1] and not 0x80 <= rest[0] < 0xC0:
        assert table.decode_bytes(continued) == rest


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_json_text_continues_as_it_was_encoded_whole(vocabulary: Vocabulary, layout: Layout) -> None:
    table = token_table(vocabulary)
    record = {"name": "Anna Müller", "kind": "order", "paid": True, "total": 24.9, "date": "2024-03-05", "items": []}
    ids = table.encode(record_text(record, layout))
    agreed = 0
    for cut in range(len(ids)):
        agreed += table.encode_after(ids[:cut], table.decode_bytes(ids[cut:])) == ids[cut:]
    assert agreed >= len(ids) - 2


class _Spaces:
    """A tokenizer of letters, single signs and runs of spaces, as some vocabularies have them; counts its calls."""

    def __init__(self) -> None:
        self.tokens = ["{", "}", '"', ":", ",", "\n", *"abcdefghijklmnopqrstuvwxyz", *[" " * n for n in range(1, 9)]]
        self.num_calls = 0

    def encode(self, sequence: str, *, add_special_tokens: bool) -> Encoding:
        self.num_calls += 1
        ids = [self.tokens.index(m) for m in re.findall(" +|.|\n", sequence)]
        return SimpleNamespace(ids=ids)

    def get_vocab(self, with_added_tokens: bool) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    def to_str(self) -> str:
        return "{}"


def test_several_spaces_are_one_token_wherever_the_text_is_cut() -> None:
    table = build_token_table(_Spaces())
    ids = table.encode('{\n  "a": "b",\n  "c": {\n    "d": "e f"\n  }\n}')
    for cut in range(len(ids) + 1):
        assert table.encode_after(ids[:cut], table.decode_bytes(ids[cut:])) == ids[cut:]


def test_what_was_encoded_once_is_not_encoded_again() -> None:
    tokenizer = _Spaces()
    table = build_token_table(tokenizer)
    first = table.encode_after([], b'"name": "anna", "kind": "order"')
    num_calls = tokenizer.num_calls
    assert table.encode_after([], b'"name": "anna", "kind": "order"') == first
    assert tokenizer.num_calls == num_calls


def test_a_spelling_is_learned_and_unlearned() -> None:
    table, spellings = token_table("byte_level"), Spellings()
    canonical = table.encode("order")
    spelled = [token for letter in "order" for token in table.encode(letter)]
    canonical, spelled = canonical[:1], spelled[: table.num_bytes(canonical[0])]
    if len(spelled) > 4:
        spelled = [*table.encode("or"), *table.encode("der")]
    spellings.learn(canonical, spelled, table)
    assert spellings.respell([*canonical, *canonical]) == [*spelled, *spelled]
    spellings.learn(spelled, canonical, table)
    assert spellings.respell(list(canonical)) == list(canonical)
