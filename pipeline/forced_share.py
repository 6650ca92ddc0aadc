"""How much of an output the grammar alone decides."""

from __future__ import annotations

from collections.abc import Sequence


def forced_share(grammar: str, texts: Sequence[str]) -> float:
    """Share of the characters of ``texts`` that were the only continuation the grammar allowed (0 to 1).

    Texts that the grammar does not allow count up to where they leave it.
    """
    import xgrammar

    # A vocabulary of single bytes: only the grammar matters here, not how a model cuts the text.
    vocabulary = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)], vocab_type=xgrammar.VocabType.RAW)
    compiled = xgrammar.GrammarCompiler(vocabulary).compile_grammar(grammar)
    num_forced = num_chars = 0
    for text in texts:
        matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)
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


def _forced(matcher: object) -> str:
    try:
        return str(matcher.find_jump_forward_string())  # type: ignore[attr-defined]
    except UnicodeDecodeError:  # between the bytes of one character
        return ""
