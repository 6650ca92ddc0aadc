"""Patterns and number ranges as EBNF: against Python's re and plain comparison, by the real xgrammar."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.ebnf import ESCAPE_RULES, integer_range
from pipeline.patterns import pattern_ebnf
from tests.matching import accepts

_RULES = "".join(f"{name} ::= {body}\n" for name, body in ESCAPE_RULES.items())
_SAMPLES = [
    "", "a", "b", "ab", "xa", "aab", "caabd", "a c", 'a"c', "a\\c", "a\tc", "a\nb", "5", "room 5b", "AB12", "abcdef",
    "中文", "é", "x y foo z", "foo", "]", "-", "^", "\x01", "a]", "aa", "12 a", "2024-02-29", "\U0001f600", "zzz",
]  # fmt: skip
_PATTERNS = [
    "a+b", "^a$", "^a.c$", "[^a]", "^[^a]*$", 'a"b', "\\d+\\s\\w", "^(?!a)b", "\\bfoo\\b", "(a)\\1", "a{2,3}?",
    "^(?:x|y)*$", "^a|b$", "^\\S+$", "5", "^[\\u4e00-\\u9fff]+$", "^[A-Z]{2}[0-9]+$", "^.{3,5}$", "^.{0,500}$", "^$",
    "", '^[^"]*$', "^\\W+$", "\\n", "^[\\s]$", "[\\]\\-^]", "^\\x01$", "(foo|bar)", "^\\d{4}-\\d{2}-\\d{2}$", "cat",
]  # fmt: skip


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_a_pattern_takes_every_text_that_it_matches_and_exact_ones_no_other(pattern: str) -> None:
    found = pattern_ebnf(pattern)
    assert found is not None
    content, exact = found
    grammar = f'root ::= "\\"" ({content}) "\\""\n{_RULES}'
    for sample in _SAMPLES:
        taken = accepts(grammar, json.dumps(sample, ensure_ascii=False))
        wanted = re.search(pattern, sample, re.ASCII) is not None  # as JSON Schema has \w and \d
        assert taken or not wanted, f"{sample!r} is out of reach"
        assert taken == wanted or not exact, f"{sample!r} is taken by an exact pattern"


@pytest.mark.parametrize("pattern", ["(a", "^(a|b$)c", "(?i)a", "\\p{L}[^\\p{L}]", "\\u{1F600}"])
def test_a_pattern_that_cannot_be_translated_says_so(pattern: str) -> None:
    assert pattern_ebnf(pattern) is None


_BOUND = st.none() | st.integers(-(10**19), 10**19) | st.integers(-1000, 1000)


@settings(max_examples=150, deadline=None)
@given(_BOUND, _BOUND, st.lists(st.integers(-(10**19) + 1, 10**19 - 1) | st.integers(-1100, 1100), max_size=20))
def test_an_integer_range_takes_exactly_its_integers(low: int | None, high: int | None, numbers: list[int]) -> None:
    if low is not None and high is not None and low > high:
        low, high = high, low
    grammar = f"root ::= {integer_range(low, high, 19)}\n"
    edges = [bound + step for bound in (low, high) if bound is not None for step in (-1, 0, 1)]
    for number in [*numbers, *edges, 0, 1, -1]:
        if len(str(abs(number))) <= 19:
            assert accepts(grammar, str(number)) == (
                (low is None or number >= low) and (high is None or number <= high)
            )
    for wrong in ("", "-", "01", "-01", "1.0", "1e3", "+1"):
        assert not accepts(grammar, wrong)
