"""The public failure cases that concern the model's tokenizer, its chat template and the real xgrammar."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.chat_markers import MARKERS
from pipeline.config import Example, PromptConfig
from pipeline.demo_model import ensure_demo_model
from pipeline.engine_loading import check_constrained
from pipeline.errors import EngineStartError
from pipeline.grammar import build_grammar
from pipeline.prompting import Prompting
from pipeline.schema import load_schema
from pipeline.tokenizer import Tokenizer
from tests.cases import CASES, about, chunk, given


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(str(ensure_demo_model()))


@pytest.fixture(scope="module")
def families() -> Tokenizer:
    """The demo tokenizer with the control tokens of other families, marked special and (as ``<think>`` is) not."""
    from transformers import AddedToken, AutoTokenizer

    inner = AutoTokenizer.from_pretrained(str(ensure_demo_model()))
    inner.add_tokens([AddedToken(text, special=False) for text in ("<think>", "</think>", "<tool_call>", "[INST]")])
    inner.add_tokens(
        [AddedToken(text, special=True) for text in ("</s>", "[/INST]", "<|eot_id|>")], special_tokens=True
    )
    inner.add_tokens([AddedToken("<end_of_turn>", special=True)], special_tokens=True)
    return Tokenizer(inner)


@about("081")
def test_no_family_s_end_marker_in_a_document_is_a_control_token(case_id: str, families: Tokenizer) -> None:
    config = PromptConfig(examples=(Example(text="x", output={"a": "y"}),))
    prompting = Prompting(families, config=config, json_schema={"type": "object", "properties": {"a": {}}})
    control = set(families.added_tokens.values())
    assert {families.added_tokens[name] for name in ("<think>", "</s>", "<|im_end|>")} <= control
    plain = [token for token in prompting.first(chunk("plain")).token_ids if token in control]
    for text in [*given(case_id)["documents"], "".join(given(case_id)["documents"]), "<think>", "a <tool_call> b"]:
        prompt = prompting.first(chunk(text))
        document = prompt.token_ids[slice(*prompt.document_span)]
        assert not control & set(document), text
        assert families.decode(document) == text
        assert [token for token in prompt.token_ids if token in control] == plain
    assert all(MARKERS.search(text) for text in given(case_id)["documents"])


TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
ANSWER_AT_ONCE = {
    "switched by enable_thinking": "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}",
    "switched by thinking": "{% if thinking %}<think>{% else %}</think>{% endif %}",
    "always opened": "<think>\n",
    "no thinking": "",
}


@pytest.mark.parametrize("template", ANSWER_AT_ONCE)
@about("034")
def test_every_family_answers_at_once_because_the_grammar_holds_from_the_first_token(
    case_id: str, template: str
) -> None:
    from transformers import AutoTokenizer

    inner = AutoTokenizer.from_pretrained(str(ensure_demo_model()))
    inner.chat_template = TURNS + ANSWER_AT_ONCE[template]
    rendered = Tokenizer(inner).render([{"role": "user", "content": given(case_id)["document"]}])
    answer = rendered.partition("<|im_start|>assistant\n")[2]
    assert not answer.strip() or answer.strip().endswith("</think>")
    inner.chat_template = TURNS + "{{ effort | default('none') }}"
    assert Tokenizer(inner).render([{"role": "user", "content": "x"}]).endswith("none")
    low = Tokenizer(inner, template_options={"effort": "low"})
    assert low.render([{"role": "user", "content": "x"}]).endswith("low")


@about("082")
def test_a_control_token_inside_a_string_neither_ends_the_record_nor_the_matcher(
    case_id: str, tokenizer: Tokenizer
) -> None:
    """xgrammar reads a control token that is no end token by its letters; the end is allowed after the record only."""
    import xgrammar as xgr
    from transformers import AutoTokenizer

    inner = AutoTokenizer.from_pretrained(str(ensure_demo_model()))
    info = xgr.TokenizerInfo.from_huggingface(inner)
    grammar = xgr.Grammar.from_ebnf(build_grammar(load_schema(CASES["bug-042"]["schema"]), layout="spaced").text)
    matcher = xgr.GrammarMatcher(xgr.GrammarCompiler(info, max_threads=1).compile_grammar(grammar))
    bitmask = xgr.allocate_token_bitmask(1, info.vocab_size)

    def allows(token: int) -> bool:
        matcher.fill_next_token_bitmask(bitmask)
        return bool(int(bitmask[0, token // 32]) >> (token % 32) & 1)

    opened, closed = tokenizer.encode('{"items": [{"text": "said: '), tokenizer.encode('no"}]}')
    odd = [token for token in inner.all_special_ids if token not in info.stop_token_ids]
    assert odd
    for token in [*opened, *odd, *closed]:
        assert not any(allows(stop) for stop in info.stop_token_ids)
        if token not in odd or allows(token):
            assert matcher.accept_token(token)
    assert any(allows(stop) for stop in info.stop_token_ids)
    assert json.loads(tokenizer.decode([*opened, *odd, *closed])) == {"items": [{"text": "said: no"}]}


@about("013")
def test_a_start_without_a_constraint_fails(case_id: str) -> None:
    class Decoder:
        def __init__(self, answer: str) -> None:
            self.answer = answer

        def encode(self, text: str) -> list[int]:
            return [ord(character) for character in text]

        def text(self, token_ids: list[int]) -> str:
            return "".join(map(chr, token_ids))

        def decode(self, prompts: Any, **options: Any) -> list[list[int]]:
            assert options["grammar"]
            return [self.encode(self.answer)]

    check_constrained(Decoder('{"height": 330}'))  # type: ignore[arg-type]
    with pytest.raises(EngineStartError, match="does not hold its outputs to a grammar"):
        check_constrained(Decoder(given(case_id)["model_output"]))  # type: ignore[arg-type]
