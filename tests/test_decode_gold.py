"""Masks that leave the gold record's next token alone."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.config import Example
from pipeline.decode_gold import GoldMasks, is_legal
from pipeline.decode_workload import load_workload
from pipeline.errors import InputError

GRAMMAR = 'root ::= "{\\"n\\": " [0-9]+ "}"'


class Manager:
    """vLLM's manager with every token legal everywhere."""

    name = "manager"

    def grammar_bitmask(self, requests: Any, request_ids: list[str], drafts: dict[str, list[int]]) -> Any:
        if not request_ids:
            return None
        rows = sum(1 + len(drafts.get(request_id, ())) for request_id in request_ids)
        return np.full((rows, 4), -1, dtype=np.int32)


def legal(row: np.ndarray[Any, np.dtype[np.int32]]) -> list[int]:
    return [token for token in range(len(row) * 32) if int(row[token // 32]) >> token % 32 & 1]


def test_each_row_leaves_the_token_that_the_record_has_there() -> None:
    masks = GoldMasks(Manager(), {"a": [5, 31, 64, 2], "b": [7, 2]})
    requests = {"a-1f": SimpleNamespace(output_token_ids=[5]), "other": SimpleNamespace(output_token_ids=[])}
    bitmask = masks.grammar_bitmask(requests, ["a-1f", "other"], {"a-1f": [9, 9, 9]})
    assert bitmask is not None
    # token 31 is an int32's sign; behind the end only the end token
    assert [legal(row) for row in bitmask[:4]] == [[31], [64], [2], [2]]
    assert legal(bitmask[4]) == list(range(128)), "a request without gold is left alone"


def test_all_else_is_the_managers() -> None:
    masks = GoldMasks(Manager(), {})
    assert masks.grammar_bitmask({}, [], {}) is None
    assert masks.name == "manager"


def test_a_record_is_legal_as_a_whole_or_not_at_all() -> None:
    assert is_legal(GRAMMAR, '{"n": 12}')
    assert not is_legal(GRAMMAR, '{"n": 12')
    assert not is_legal(GRAMMAR, '{"n": 12}}')


class _Tokenizer:
    """A token per character; no chat template."""

    has_chat_template = False
    bos_token = ""

    def encode(self, text: str) -> list[int]:
        return [ord(char) for char in text]

    encode_template = encode


def test_the_samples_have_gold_records_that_can_be_written() -> None:
    workload = load_workload(tokenizer=_Tokenizer(), with_gold=True)  # type: ignore[arg-type]
    assert len(workload.golds) == len(workload.prompts)
    assert '"user_id": "U-20417"' in workload.golds[0]
    assert load_workload(tokenizer=_Tokenizer()).golds == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"id": "d1", "text": "x"}, "document d1: no gold"),
        ({"id": "d2", "text": "x", "gold": {"size": "big"}}, "document d2: its gold record does not follow"),
    ],
)
def test_a_document_whose_gold_cannot_be_written_is_named(row: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=complaint):
        load_workload(
            tokenizer=_Tokenizer(),
            documents=_written(tmp_path, row),
            schema_spec=str(tmp_path / "sizes.json"),
            with_gold=True,
        )  # type: ignore[arg-type]


def test_documents_can_bring_a_schema_each(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"type": "object", "properties": {"own": {"type": "null"}}}', encoding="utf-8")
    documents = _written(tmp_path, {"text": "x"}, {"text": "y", "schema": "own.json"})
    workload = load_workload(tokenizer=_Tokenizer(), documents=documents, schema_spec=str(tmp_path / "sizes.json"))  # type: ignore[arg-type]
    assert workload.only_form is None
    assert [name for form in workload.forms for name in form.schema.json_schema["properties"]] == ["size", "own"]
    assert "own" in "".join(map(chr, workload.prompts[1].token_ids))
    same = _written(tmp_path, {"text": "x"}, {"text": "y", "schema": "sizes.json"})
    example = Example(text="a", output={"size": 1})
    shown = load_workload(
        tokenizer=_Tokenizer(),  # type: ignore[arg-type]
        documents=same,
        schema_spec=str(tmp_path / "sizes.json"),
        examples=[example],
    )
    assert [len(prompt.example_spans) for prompt in shown.prompts] == [1, 0], (
        "examples belong to the schema that was asked for"
    )
    assert (shown.num_examples, workload.num_examples) == (1, 0)
    documents = _written(tmp_path, {"text": "x"}, {"text": "y", "schema": "own.json"})
    one = load_workload(tokenizer=_Tokenizer(), documents=documents, schema_spec=str(tmp_path / "sizes.json"), limit=1)  # type: ignore[arg-type]
    assert one.only_form is one.forms[0]
    with pytest.raises(InputError, match="need a schema"):
        load_workload(tokenizer=_Tokenizer(), documents=documents)  # type: ignore[arg-type]


def _written(folder: Path, *rows: dict[str, Any]) -> Path:
    (folder / "sizes.json").write_text(
        '{"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}', encoding="utf-8"
    )
    documents = folder / "documents.jsonl"
    documents.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return documents
