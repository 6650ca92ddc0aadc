"""Control tokens of chat models as plain text: a document that holds them must not speak for the template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MARKERS = re.compile(r"<[^<>\s]{1,40}>|\[[/A-Z_]{2,40}\]")
"""What control tokens look like in all families; most texts that match (HTML tags) are none."""


def added_tokens(tokenizer: Any) -> dict[str, int]:
    """Text and id of a Hugging Face tokenizer's added tokens, special or not, that look like control tokens."""
    found = {str(token): int(number) for number, token in tokenizer.added_tokens_decoder.items()}
    return {text: number for text, number in found.items() if MARKERS.fullmatch(text)}


def plain_encoder(tokenizer: Any, added: Mapping[str, int]) -> Any:
    """A copy of the tokenizer's backend that knows none of ``added`` as a token of its own.

    ``split_special_tokens`` of the library does that for special tokens only; some models declare ``<think>`` and
    others as ordinary added tokens, which would still be read as one control token.
    """
    import json

    from tokenizers import Tokenizer

    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] not in added]
    encoder = Tokenizer.from_str(json.dumps(content))
    encoder.encode_special_tokens = True
    encoder.no_truncation()
    encoder.no_padding()
    return encoder
