"""How much of an output the grammar alone decides."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any


def forced_share(grammar: str, texts: Sequence[str]) -> float:
    """Share of the characters of ``texts`` that were the only continuation the grammar allowed (0 to 1).

    Texts that the grammar does not allow count up to where they leave it.
    """
    num_forced = num_chars = 0
    for text in texts:
        matcher = byte_matcher(grammar)
        position = 0
        while position < len(text) and not matcher.is_terminated():
            forced = _forced(matcher)
            if forced and text.startswith(forced, position):
                num_forced += len(forced)
            else:
                forced = text[position]
            if not matcher.accept_string(forced):
                break
            position += len(forced)
        num_chars += position
    return num_forced / num_chars if num_chars else 0.0


def byte_matcher(grammar: str) -> Any:
    """A fresh ``xgrammar.GrammarMatcher`` over single bytes: it reads text, however a model cuts it."""
    import xgrammar

    return xgrammar.GrammarMatcher(_compiled(grammar), terminate_without_stop_token=True)


@functools.lru_cache(maxsize=32)
def _compiled(grammar: str) -> Any:
    import xgrammar

    vocabulary = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)], vocab_type=xgrammar.VocabType.RAW)
    return xgrammar.GrammarCompiler(vocabulary).compile_grammar(grammar)


def _forced(matcher: Any) -> str:
    try:
        return str(matcher.find_jump_forward_string())
    except UnicodeDecodeError:  # between the bytes of one character
        return ""
