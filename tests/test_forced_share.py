"""The share of characters that the grammar alone decides."""

import pytest

from pipeline.forced_share import forced_share

pytest.importorskip("xgrammar")

GRAMMAR = r"""root ::= "{\"name\": \"" [a-zé]+ "\"}" """


def test_keys_and_closers_are_forced_and_values_are_not() -> None:
    text = '{"name": "anna"}'
    # all but the four letters and the quote after them (a fifth letter would be legal too)
    assert forced_share(GRAMMAR, [text]) == pytest.approx((len(text) - 5) / len(text))


def test_characters_of_several_bytes_count_once() -> None:
    text = '{"name": "éé"}'
    assert forced_share(GRAMMAR, [text]) == pytest.approx((len(text) - 3) / len(text))


def test_a_text_counts_up_to_where_it_leaves_the_grammar() -> None:
    assert forced_share(GRAMMAR, ['{"name": "A']) == pytest.approx(1.0)


def test_without_texts_the_share_is_zero() -> None:
    assert forced_share(GRAMMAR, []) == 0.0
