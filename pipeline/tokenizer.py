"""A model's tokenizer: documents as plain text, templates with their control tokens, chat rendering."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.chat_markers import MARKERS, added_tokens, plain_encoder
from pipeline.dspark.tokens import TokenTable, build_token_table
from pipeline.errors import ConfigError

NO_THINKING: Mapping[str, Any] = {"enable_thinking": False, "thinking": False}
"""What chat templates call it: the first Qwen, GLM and others, the second DeepSeek and Granite."""

_PLAIN = frozenset({"PreTrainedTokenizerFast", "TokenizersBackend"})
_END_OF_THOUGHT = "\n\n</think>\n\n"


class Tokenizer:
    """Wraps a Hugging Face tokenizer; torch is not needed.

    Control tokens inside *documents* (``<|im_end|>``) are encoded as ordinary characters, because a document must
    never speak for the chat template.
    """

    def __init__(self, inner: Any, *, template_options: Mapping[str, Any] | None = None) -> None:
        self._inner = inner
        self._template_options = {**NO_THINKING, **(template_options or {})}
        self._added = added_tokens(inner)
        self._plain: Any = None
        self._table: TokenTable | None = None

    @classmethod
    def load(
        cls,
        model: str,
        *,
        revision: str | None = None,
        trust_remote_code: bool = False,
        template_options: Mapping[str, Any] | None = None,
    ) -> Tokenizer:
        """Load from a local folder or a hub id. ``template_options`` are variables of the chat template.

        Raises:
            ConfigError: there is no usable tokenizer at ``model``.
        """
        try:
            kind = _plain_kind(model) or _any_kind()
            inner = kind.from_pretrained(model, revision=revision, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, KeyError, ImportError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ConfigError(
                f"model {model!r}: its tokenizer cannot be loaded: {reason}",
                hint="pass a folder with tokenizer.json, a hub id that this machine can reach, or 'demo'",
            ) from None
        return cls(inner, template_options=template_options)

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text: no special tokens are added, none is recognised."""
        if "<" in text or "[" in text:
            found = {match.group() for match in MARKERS.finditer(text)}
            if not found.isdisjoint(self._added):
                self._plain = self._plain or plain_encoder(self._inner, self._added)
                return list(self._plain.encode(text, add_special_tokens=False).ids)
        return list(self._inner.encode(text, add_special_tokens=False, split_special_tokens=True))

    def encode_template(self, text: str) -> list[int]:
        """Token ids of template text, in which control tokens count as such."""
        return list(self._inner.encode(text, add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of output tokens, without control tokens such as end-of-turn."""
        return str(self._inner.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def pieces(self, token_ids: Sequence[int]) -> tuple[bytes, ...]:
        """The bytes of each token; empty for control tokens."""
        if self._table is None:
            self._table = build_token_table(self._inner.backend_tokenizer)
        return tuple(self._table.decode_bytes([token]) for token in token_ids)

    def count(self, text: str) -> int:
        """Length of plain text in tokens."""
        return len(self.encode(text))

    @property
    def added_tokens(self) -> dict[str, int]:
        """Text and id of the control tokens that the tokenizer declares."""
        return dict(self._added)

    @property
    def has_chat_template(self) -> bool:
        return bool(getattr(self._inner, "chat_template", None))

    @property
    def bos_token(self) -> str:
        return str(self._inner.bos_token or "")

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Messages (``role``, ``content``) as text up to where the model answers, which it does at once.

        Thinking is switched off by the names that templates have for it; where a template opens it all the same, it is
        closed. Templates that know no system role get its text in front of the first user message.
        """
        from jinja2 import TemplateError

        try:
            return self._apply(messages)
        except TemplateError:
            if not messages or messages[0]["role"] != "system":
                raise
            first, second, *rest = messages
            joined = {"role": "user", "content": f"{first['content']}\n\n{second['content']}"}
            return self._apply([joined, *rest])

    def _apply(self, messages: Sequence[Mapping[str, str]]) -> str:
        text = str(
            self._inner.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True, **self._template_options
            )
        )
        return f"{text.rstrip()}{_END_OF_THOUGHT}" if text.rstrip().endswith("<think>") else text


def _plain_kind(model: str) -> Any:
    """The class of a folder that needs no other than what its tokenizer.json says; None for any other model.

    Asking ``AutoTokenizer`` imports torch: four seconds on the driver, and as much in each worker that splits texts.
    """
    folder = Path(model)
    try:
        declared = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["tokenizer_class"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if declared not in _PLAIN or not (folder / "tokenizer.json").is_file():
        return None
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast


def _any_kind() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer
