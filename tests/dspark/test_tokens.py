"""Text as token ids: canonical continuations, whatever the vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dspark.spellings import Spellings
from tests.dspark.drafting_material import VOCABULARIES, WORDS, Vocabulary, token_table


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
def test_a_json_text_continues_as_it_was_encoded_whole(vocabulary: Vocabulary) -> None:
    table = token_table(vocabulary)
    ids = table.encode('{"name": "Anna Müller", "kind": "order", "paid": true, "total": 24.9, "date": "2024-03-05"}')
    agreed = 0
    for cut in range(len(ids)):
        agreed += table.encode_after(ids[:cut], table.decode_bytes(ids[cut:])) == ids[cut:]
    assert agreed >= len(ids) - 2


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
