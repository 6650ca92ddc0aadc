"""The real xgrammar over a vocabulary of single bytes: does a grammar take a text?"""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _compiler() -> Any:
    import xgrammar as xgr

    vocabulary = [bytes([code]) for code in range(256)] + [b"</s>"]
    info = xgr.TokenizerInfo(vocabulary, xgr.VocabType.RAW, stop_token_ids=[256])
    return xgr.GrammarCompiler(info, max_threads=1, cache_enabled=False)


@lru_cache(maxsize=64)
def _compiled(grammar: str) -> Any:
    import xgrammar as xgr

    return _compiler().compile_grammar(xgr.Grammar.from_ebnf(grammar))


def accepts(grammar: str, text: str) -> bool:
    """Whether the whole text, and nothing more, is an output of the grammar."""
    import xgrammar as xgr

    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    matcher = xgr.GrammarMatcher(_compiled(grammar), terminate_without_stop_token=True)
    return bool(matcher.accept_string(text)) and bool(matcher.is_completed())
