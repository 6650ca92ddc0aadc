"""Material for the tests of the drafters: schemas, records, tokenizers trained on the spot, real matchers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import xgrammar as xgr
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from pipeline.dspark.drafting import Matcher, RequestDrafter
from pipeline.dspark.gold import Layout, write_gold
from pipeline.dspark.memory import Memory
from pipeline.dspark.tokens import TokenTable, build_token_table
from pipeline.grammar import build_grammar
from pipeline.schema import load_schema

Vocabulary = Literal["byte_level", "sentence_piece"]
VOCABULARIES: tuple[Vocabulary, ...] = ("byte_level", "sentence_piece")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["order", "offer", "£20-25", "订单"]},
        "paid": {"type": ["boolean", "null"]},
        "total": {"type": ["number", "null"]},
        "date": {"type": ["string", "null"], "format": "date"},
        "größe": {"type": "integer"},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
                "required": ["sku", "tags"],
                "additionalProperties": False,
            },
        },
        "note": {"type": "string"},
    },
    "required": ["name", "kind", "paid", "total", "date", "items"],
    "additionalProperties": False,
}

_TEXTS = [
    'Order 17 of Anna Müller, "express", 2 pcs. of SKU-1290 at 24.90 EUR, paid 2024-03-05.',
    "订单：北京市朝阳区，数量 12，价格 99.50 元。谢谢！",
    '{"name": "Anna", "kind": "order", "paid": true, "total": 24.9, "items": [{"sku": "A-1", "tags": ["new", "red"]}]}',
    "Fancy a coffee? ☕ 1 ½ cups, £20-25, naïve café \\ path\\to\\file \t end",
]


@cache
def token_table(vocabulary: Vocabulary) -> TokenTable:
    """A small tokenizer of one family, trained on a few texts."""
    if vocabulary == "byte_level":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        special = ["<|end|>"]
    else:
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
        tokenizer.decoder = decoders.Sequence([decoders.Metaspace(), decoders.ByteFallback(), decoders.Fuse()])
        alphabet = []
        special = ["<unk>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)]]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_TEXTS * 4, trainer)
    table = build_token_table(tokenizer)
    if vocabulary == "byte_level":
        return table
    # The trainer marks byte tokens as special; in published vocabularies they are ordinary.
    pieces = [bytes([i - 2]) if 2 <= i < 258 else piece for i, piece in enumerate(table.pieces)]
    return TokenTable(tokenizer, pieces, [len(piece) for piece in pieces], frozenset({0, 1}))


@cache
def matcher_maker(vocabulary: Vocabulary, layout: Layout) -> Callable[[], Matcher]:
    """Fresh xgrammar matchers of SCHEMA."""
    table = token_table(vocabulary)
    info = xgr.TokenizerInfo(table.pieces, xgr.VocabType.RAW, stop_token_ids=[min(table.special_ids)])
    grammar = xgr.Grammar.from_ebnf(build_grammar(load_schema(SCHEMA), layout=layout).text)
    compiled = xgr.GrammarCompiler(info, max_threads=1).compile_grammar(grammar)
    return lambda: xgr.GrammarMatcher(compiled)


def record_text(record: dict[str, Any], layout: Layout) -> str:
    return write_gold(record, SCHEMA, layout)


_LETTERS = 'abc XYZ,.:-"\\\n\t1290£éü北京订单☕🎉'
WORDS = st.text(st.one_of(st.sampled_from(_LETTERS), st.characters(codec="utf-8")), max_size=24)

RECORDS = st.fixed_dictionaries(
    {
        "name": WORDS,
        "kind": st.sampled_from(SCHEMA["properties"]["kind"]["enum"]),
        "paid": st.sampled_from([True, False, None]),
        "total": st.one_of(st.none(), st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6).map(lambda x: round(x, 2))),
        "date": st.one_of(st.none(), st.dates().map(str)),
        "items": st.lists(st.fixed_dictionaries({"sku": WORDS, "tags": st.lists(WORDS, max_size=3)}), max_size=3),
    },
    optional={"größe": st.integers(0, 10**6), "note": WORDS},
)


def drafter_for(document: str, memory: Memory, vocabulary: Vocabulary, **options: Any) -> RequestDrafter:
    return RequestDrafter(document=document, tokenizer=token_table(vocabulary), memory=memory, **options)


def document_of(record: dict[str, Any]) -> str:
    """A document in which the values of a record stand."""
    return json.dumps(record, ensure_ascii=False) + "\n" + "\n".join(str(value) for value in record.values())
