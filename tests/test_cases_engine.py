"""The public failure cases that concern the model's tokenizer, the real xgrammar and the real vLLM (on the CPU)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.chat_markers import MARKERS
from pipeline.config import DecodingConfig, DSparkConfig, EngineConfig, Example, PromptConfig
from pipeline.data import Chunk, Outcome, Record
from pipeline.demo_model import ensure_demo_model
from pipeline.engine_loading import StartDecoder, check_constrained
from pipeline.errors import EngineStartError
from pipeline.extractor import Extractor
from pipeline.grammar import build_grammar
from pipeline.prompting import Prompting
from pipeline.protocols import Completion, Request
from pipeline.schema import load_schema
from pipeline.tokenizer import Tokenizer
from pipeline.validation import Validator
from tests.cases import CASES, about, given


def chunk(text: str, doc_id: str = "d") -> Chunk:
    return Chunk(doc_id, 0, 1, text, 0, len(text), doc_id)


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


# -- the real engine ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    from pipeline.engine import VllmEngine

    args = {"max_model_len": 2048, "dtype": "float32"}  # in bfloat16 near-ties flip with the batch's shape
    built = VllmEngine(
        str(ensure_demo_model()), config=EngineConfig(args=args), decoding=DecodingConfig(), dspark=DSparkConfig()
    )
    yield built
    built.close()


class Reading:
    """Documents of one schema, with examples, through the loop on the real engine."""

    def __init__(self, engine: Any, tokenizer: Tokenizer, schema: Any, examples: list[tuple[str, Any]]) -> None:
        self.schema = load_schema(schema)
        config = PromptConfig(examples=tuple(Example(text=text, output=output) for text, output in examples))
        self.prompting = Prompting(tokenizer, config=config, json_schema=self.schema.json_schema)
        self.engine = engine

    def read(self, texts: dict[str, str], *, max_output_tokens: int = 96) -> dict[str, Outcome]:
        loop = Extractor(
            self.engine, prompter=self.prompting, validator=Validator(self.schema),
            grammar=build_grammar(self.schema).text, decoding=DecodingConfig(max_output_tokens=max_output_tokens),
        )  # fmt: skip
        outcomes = list(loop.run([chunk(text, doc_id) for doc_id, text in texts.items()]))
        assert len(outcomes) == len(texts)
        return {outcome.chunk.doc_id: outcome for outcome in outcomes}


def records(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    assert all(isinstance(outcome, Record) for outcome in outcomes.values()), outcomes
    return {doc_id: outcome.value for doc_id, outcome in outcomes.items() if isinstance(outcome, Record)}


def literal(engine: Any, text: str) -> Completion:
    """What comes back of an output that its grammar forces."""
    quoted = json.dumps(text, ensure_ascii=False).replace("\\", "\\\\").replace('"', '\\"')
    engine.submit(Request("literal", [1, 2, 3], 200, f'root ::= "{quoted}"', (0, 3)))
    while True:
        for completion in engine.step():
            return completion  # type: ignore[no-any-return]


@pytest.mark.vllm
@pytest.mark.slow
@about("013")
def test_an_engine_that_ignores_the_grammar_does_not_start(case_id: str, engine: Any) -> None:
    """The real engine, asked in a way that it does not read: free text comes back, and the start fails."""
    decoder = StartDecoder(engine.vllm_engine, engine._stop_tokens)
    check_constrained(decoder)

    class Deaf(StartDecoder):
        def decode(self, prompts: Any, *, grammar: str, max_tokens: int, dspark: Any) -> list[list[int]]:
            engine.submit(Request("free", list(prompts[0]), max_tokens, "", (0, 1)))
            while True:
                for completion in engine.step():
                    return [self.encode(completion.text)]

    with pytest.raises(EngineStartError, match="does not hold its outputs to a grammar"):
        check_constrained(Deaf(engine.vllm_engine, engine._stop_tokens))


@pytest.mark.vllm
@pytest.mark.slow
@about("031")
def test_a_record_ends_when_its_grammar_ends(case_id: str, engine: Any, tokenizer: Tokenizer) -> None:
    reading = Reading(engine, tokenizer, CASES[case_id]["schema"], [("Two pens.", {"name": "pen", "count": 2})])
    (outcome,) = reading.read({"d": "Three caps."}, max_output_tokens=given(case_id)["sampling"]["max_tokens"]).values()
    assert outcome.attempts[0].finish_reason == "stop"
    assert outcome.attempts[0].output_tokens < given(case_id)["sampling"]["min_tokens"]
    assert engine._sampling(Request("r", [1], 8, "", (0, 1))).min_tokens == 0


@pytest.mark.vllm
@pytest.mark.slow
@about("063")
def test_a_result_does_not_depend_on_how_many_are_decoded_together(
    case_id: str, engine: Any, tokenizer: Tokenizer
) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "people": {"type": "integer"}}}
    schema["required"] = list(schema["properties"])
    examples = [("Bern has 134591 inhabitants.", {"city": "Bern", "people": 134591})] * 2
    reading = Reading(engine, tokenizer, schema, examples)
    texts = {
        f"d{n}": f"{name} has {n * 1237 + 400} inhabitants." for n, name in enumerate(["Lyon", "Graz", "Oslo"] * 8)
    }
    together = records(reading.read(texts))
    for size in (1, 2):
        some = dict(list(texts.items())[:size])
        assert records(reading.read(some)) == {doc_id: together[doc_id] for doc_id in some}


@pytest.mark.vllm
@pytest.mark.slow
@about("067")
def test_a_document_without_facts_gives_nulls(case_id: str, engine: Any, tokenizer: Tokenizer) -> None:
    examples = [
        (f"{name} {verb}.", {"name": name, "ort": None, "jahr": None})
        for name, verb in (("Tom", "schläft"), ("Ina", "singt"), ("Jan", "lacht"), ("Uwe", "geht"))
    ]
    reading = Reading(engine, tokenizer, CASES[case_id]["schema"], examples)
    assert records(reading.read({"d": given(case_id)["document"]})) == {"d": given(case_id)["gold"]}


@pytest.mark.vllm
@pytest.mark.slow
@about("070")
def test_chinese_text_is_written_as_characters(case_id: str, engine: Any, tokenizer: Tokenizer) -> None:
    examples = [("小米在香港上市。", {"company": "小米"}), ("百度在纳斯达克上市。", {"company": "百度"})]
    outcomes = Reading(engine, tokenizer, CASES[case_id]["schema"], examples).read({"d": given(case_id)["document"]})
    assert "\\u" not in outcomes["d"].attempts[0].raw_output
    assert records(outcomes)["d"] == given(case_id)["gold"]


@pytest.mark.vllm
@pytest.mark.slow
@about("042", "070", "073")
def test_characters_of_several_tokens_come_back_whole(case_id: str, engine: Any) -> None:
    text = given(case_id)["document"]
    completion = literal(engine, text)
    assert (json.loads(completion.text), completion.finish_reason) == (text, "stop")
    assert completion.output_tokens > 5


@pytest.mark.vllm
@pytest.mark.slow
@about("081")
def test_markers_in_documents_do_not_end_the_turn(case_id: str, engine: Any, tokenizer: Tokenizer) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    reading = Reading(engine, tokenizer, schema, [("x 3 y", {"n": 3}), ("a 5 b", {"n": 5})])
    texts = {str(n): f"{marker} 7 {marker}" for n, marker in enumerate(given(case_id)["documents"])}
    assert [value["n"] for value in records(reading.read(texts)).values()] == [7] * len(texts)
