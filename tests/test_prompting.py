"""Prompts: shared prefix, neutralised control tokens, retry turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from pipeline.config import Example, PromptConfig
from pipeline.data import Chunk, FieldError
from pipeline.demo_model import ensure_demo_model
from pipeline.errors import ConfigError
from pipeline.fields import describe_fields
from pipeline.prompting import Prompting
from pipeline.testing import CharacterTokenizer
from pipeline.tokenizer import Tokenizer

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "description": "the first letter"}}}
CONTROL = ["a<|im_end|>b", "a</s>b", "[INST] x [/INST]", "<|eot_id|>", "<end_of_turn>", "</think>", "<|endoftext|>"]


def chunk(text: str) -> Chunk:
    return Chunk("d", 0, 1, text, 0, len(text), "k")


@pytest.fixture(scope="module")
def demo_tokenizer() -> Tokenizer:
    return Tokenizer.load(str(ensure_demo_model()))


def test_all_prompts_share_the_instructions_and_examples_as_a_token_prefix() -> None:
    config = PromptConfig(instructions="Do it.", examples=(Example(text="t1", output={"a": "x"}),))
    prompting = Prompting(CharacterTokenizer(), config=config, json_schema=SCHEMA)
    one, two = prompting.first(chunk("one")), prompting.first(chunk("two"))
    start = one.document_span[0]
    assert one.token_ids[:start] == two.token_ids[:start]
    text = "".join(map(chr, one.token_ids))
    assert text.index("Do it.") < text.index("the first letter") < text.index('{\n  "a": "x"\n}') < text.index("one")
    assert "".join(map(chr, one.token_ids[slice(*one.document_span)])) == "one"
    assert len(one.token_ids) == prompting.num_fixed_tokens + 3
    assert [text[slice(*span[:2])] for span in one.example_spans] == ["t1"]
    assert [json.loads(text[slice(*span[2:])]) for span in two.example_spans] == [{"a": "x"}]


def test_the_retry_prompt_extends_the_first_prompt_and_shows_output_and_errors() -> None:
    prompting = Prompting(CharacterTokenizer(), config=PromptConfig(), json_schema=SCHEMA)
    first = prompting.first(chunk("document"))
    retry = prompting.retry(chunk("document"), '{"a": 1}', [FieldError("/a", "is not a string")])
    end = first.document_span[1]
    assert retry.token_ids[:end] == first.token_ids[:end]
    tail = "".join(map(chr, retry.token_ids[end:]))
    assert tail.index('{"a": 1}') < tail.index("- /a: is not a string")
    assert tail.startswith("</user><assistant>")
    assert tail.endswith("<assistant>")


def test_the_prompt_of_a_further_pass_extends_the_first_prompt_and_shows_what_was_found_as_the_grammar_writes_it() -> (
    None
):
    prompting = Prompting(CharacterTokenizer(), config=PromptConfig(), json_schema=SCHEMA)
    first, again = prompting.first(chunk("document")), prompting.again(chunk("document"), {"a": "x"})
    end = first.document_span[1]
    assert again.token_ids[:end] == first.token_ids[:end]
    assert again.document_span == first.document_span
    tail = "".join(map(chr, again.token_ids[end:]))
    assert tail.index('{\n  "a": "x"\n}') < tail.index("missed")
    assert tail.endswith("<assistant>")


@pytest.mark.parametrize("text", CONTROL)
def test_control_tokens_in_a_document_are_ordinary_characters(text: str, demo_tokenizer: Tokenizer) -> None:
    special = {demo_tokenizer.encode_template(t)[0] for t in ("<|im_start|>", "<|im_end|>", "<|endoftext|>")}
    prompting = Prompting(
        demo_tokenizer, config=PromptConfig(examples=(Example(text=text, output={"a": text}),)), json_schema=SCHEMA
    )
    prompt = prompting.retry(chunk(text), text, [FieldError("/a", text)])
    document = prompt.token_ids[slice(*prompt.document_span)]
    assert demo_tokenizer.decode(document) == text
    assert not special & set(document)
    turns = [token for token in prompt.token_ids if token in special]
    # system, example (user, assistant), document, broken output, errors: opened and closed; the answer only opened
    assert len(turns) == 2 * 6 + 1


def test_the_fingerprint_changes_with_everything_the_model_reads() -> None:
    base = PromptConfig()
    variants = [
        (base, SCHEMA, "spaced"),
        (base.model_copy(update={"instructions": "other"}), SCHEMA, "spaced"),
        (base.model_copy(update={"examples": (Example(text="t", output={}),)}), SCHEMA, "spaced"),
        (base.model_copy(update={"show_schema": False}), SCHEMA, "spaced"),
        (base, {"type": "object", "properties": {"b": {"type": "string"}}}, "spaced"),
        (base, SCHEMA, "compact"),
    ]
    prints = {
        Prompting(CharacterTokenizer(), config=config, json_schema=schema, layout=layout).fingerprint  # type: ignore[arg-type]
        for config, schema, layout in variants
    }
    assert len(prints) == len(variants)


def test_a_template_that_drops_a_message_is_refused() -> None:
    class Dropping(CharacterTokenizer):
        def render(self, messages: Sequence[Mapping[str, str]]) -> str:
            return super().render(messages[1:])

    with pytest.raises(ConfigError, match="chat template"):
        Prompting(Dropping(), config=PromptConfig(), json_schema=SCHEMA)


def test_a_model_without_chat_template_gets_plain_text() -> None:
    class Plain(CharacterTokenizer):
        has_chat_template = False

    prompt = Prompting(Plain(), config=PromptConfig(instructions="Do."), json_schema=SCHEMA).first(chunk("text"))
    assert "".join(map(chr, prompt.token_ids)).endswith("Document:\ntext\n\nJSON:\n")


def test_fields_are_described_once_with_type_nesting_and_description() -> None:
    schema = {
        "properties": {
            "orders": {"type": "array", "items": {"$ref": "#/$defs/Order"}, "description": "all\n orders"},
            "kind": {"enum": ["a", "b", None]},
            "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        },
        "$defs": {
            "Order": {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}},
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}},
        },
    }
    assert describe_fields(schema).splitlines() == [
        "- orders (list of object): all orders",
        "  - at (date-time)",
        "- kind (one of a, b or null)",
        "- next (object or null)",
        "  - next (value)",
        "Write null where the document does not say it.",
    ]


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("spaced", '{"a": "é", "b": [1]}'),
        ("compact", '{"a":"é","b":[1]}'),
        ("indented", '{\n  "a": "é",\n  "b": [\n    1\n  ]\n}'),
    ],
)
def test_examples_are_written_as_the_grammar_wants_them(layout: str, text: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array"}}}
    config = PromptConfig(examples=(Example(text="t", output={"b": [1], "a": "é"}),))
    prompting = Prompting(CharacterTokenizer(), config=config, json_schema=schema, layout=layout)  # type: ignore[arg-type]
    assert f"<assistant>{text}</assistant>" in "".join(map(chr, prompting.first(chunk("x")).token_ids))
