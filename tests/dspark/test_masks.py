"""Bitmasks of drafts: the same rows as one call per token gives, in one call per request, fast enough."""

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.demo_model import ensure_demo_model
from pipeline.dspark.masks import Bitmask, Chain, MaskFiller, first_legal_token

xgrammar = pytest.importorskip("xgrammar")
transformers = pytest.importorskip("transformers")

VALUE = '{"name": "Anna Kowalski of York", "count": 1234, "kind": "alpha", "items": [{"a": "x y z", "b": 1.5}]}'
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "kind": {"enum": ["alpha", "beta"]},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    },
    "required": ["name", "count", "kind", "items"],
    "additionalProperties": False,
}


class Case:
    """A compiled grammar, the tokens of a value, and matchers that stand somewhere in it."""

    def __init__(self, info: object, token_ids: list[int]) -> None:
        grammar = xgrammar.Grammar.from_json_schema(json.dumps(SCHEMA), any_whitespace=False, separators=(", ", ": "))
        self.compiled = xgrammar.GrammarCompiler(info).compile_grammar(grammar)
        self.vocab_size = info.vocab_size
        self.token_ids = token_ids

    @classmethod
    def of_demo_model(cls) -> "Case":
        tokenizer = transformers.AutoTokenizer.from_pretrained(ensure_demo_model())
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer)
        return cls(info, [*tokenizer.encode(VALUE), tokenizer.eos_token_id])

    @classmethod
    def of_large_vocabulary(cls) -> "Case":
        """131,072 tokens of a real model, from the tokenizer files of a package that vLLM needs."""
        folder = Path(pytest.importorskip("mistral_common").__file__).parent / "data"
        read = json.loads((folder / "tekken_240911.json").read_text(encoding="utf-8"))
        num_special = read["config"]["default_num_special_tokens"]
        num_others = read["config"]["default_vocab_size"] - num_special
        pieces = [f"<special {n}>".encode() for n in range(num_special)]
        pieces += [base64.b64decode(entry["token_bytes"]) for entry in read["vocab"][:num_others]]
        info = xgrammar.TokenizerInfo(pieces, xgrammar.VocabType.RAW, stop_token_ids=[2])
        return cls(info, [*longest_pieces(VALUE.encode(), pieces, num_special), 2])

    def matcher(self, position: int) -> object:
        matcher = xgrammar.GrammarMatcher(self.compiled)
        assert all(matcher.accept_token(token) for token in self.token_ids[:position])
        return matcher

    def bitmask(self, num_rows: int) -> Bitmask:
        return np.zeros((num_rows, (self.vocab_size + 31) // 32), dtype=np.int32)


def longest_pieces(text: bytes, pieces: list[bytes], first: int) -> list[int]:
    """One of the ways to write a text in tokens."""
    known = {piece: number for number, piece in enumerate(pieces) if number >= first}
    ids, at = [], 0
    while at < len(text):
        size = next(size for size in range(16, 0, -1) if text[at : at + size] in known)
        ids.append(known[text[at : at + size]])
        at += len(text[at : at + size])
    return ids


@pytest.fixture(scope="module")
def case() -> Case:
    return Case.of_demo_model()


def serial(chain: Chain, bitmask: Bitmask) -> None:
    """What vLLM does: fill, accept, fill, …, roll back."""
    matcher, accepted = chain.matcher, 0
    for offset, token in enumerate([*chain.token_ids, None]):
        if matcher.is_terminated():
            bitmask[chain.first_row + offset] = -1
        else:
            matcher.fill_next_token_bitmask(bitmask, chain.first_row + offset)
        if token is not None:
            assert matcher.accept_token(token)
            accepted += 1
    matcher.rollback(accepted)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_rows_equal_those_of_one_call_per_token(case: Case, num_threads: int) -> None:
    rng = np.random.default_rng(0)
    chains, row = [], 0
    for _ in range(40):
        start = int(rng.integers(0, len(case.token_ids)))
        length = int(rng.integers(0, min(9, len(case.token_ids) - start + 1)))
        chains.append(Chain(case.matcher(start), case.token_ids[start : start + length], row))
        row += length + 1
    expected, filled = case.bitmask(row), case.bitmask(row)
    for chain in chains:
        serial(chain, expected)
    MaskFiller(max_draft_tokens=16, num_threads=num_threads).fill(chains, filled)
    assert (filled == expected).all()


def test_filling_does_not_move_the_matcher(case: Case) -> None:
    matcher = case.matcher(5)
    MaskFiller(max_draft_tokens=8).fill([Chain(matcher, case.token_ids[5:9], 0)], case.bitmask(5))
    assert matcher.accept_token(case.token_ids[5])


def test_the_row_behind_the_end_token_allows_everything(case: Case) -> None:
    bitmask = case.bitmask(3)
    chain = Chain(case.matcher(len(case.token_ids) - 2), case.token_ids[-2:], 0)
    MaskFiller(max_draft_tokens=8).fill([chain], bitmask)
    assert (bitmask[2] == -1).all()
    assert not (bitmask[1] == -1).all()


def test_an_ended_grammar_allows_everything(case: Case) -> None:
    bitmask = case.bitmask(1)
    MaskFiller(max_draft_tokens=8).fill([Chain(None, [], 0)], bitmask)
    assert (bitmask == -1).all()


def test_the_first_legal_token_is_legal(case: Case) -> None:
    matcher = case.matcher(4)
    token = first_legal_token(matcher, case.vocab_size)
    assert token is not None
    assert matcher.accept_token(token)


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", [Case.of_demo_model, Case.of_large_vocabulary])
def test_64_requests_with_8_drafts_take_less_than_3_ms(vocabulary: Callable[[], Case]) -> None:
    case = vocabulary()
    rng = np.random.default_rng(1)
    starts = [int(rng.integers(0, len(case.token_ids) - 8)) for _ in range(64)]
    chains = [Chain(case.matcher(s), case.token_ids[s : s + 8], index * 9) for index, s in enumerate(starts)]
    bitmask, filler = case.bitmask(64 * 9), MaskFiller(max_draft_tokens=8)
    assert fastest_ms(lambda: filler.fill(chains, bitmask)) < 3.0


def fastest_ms(call: Callable[[], None], *, rounds: int = 30) -> float:
    """What it takes when nothing else disturbs it."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e3 * min(times)
