"""Why grammars are written here: what xgrammar 0.2.8's own conversion does with the same schema (see at upgrades)."""

import json
from typing import Any

import pytest

from pipeline.grammar import build_grammar
from pipeline.schema import load_schema
from tests.matching import accepts


def _field(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": keywords}, "required": ["x"], "additionalProperties": False}


_EITHER = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    "additionalProperties": False,
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}


def _theirs(document: dict[str, Any]) -> str:
    import xgrammar as xgr

    return str(xgr.Grammar.from_json_schema(json.dumps(document), any_whitespace=False, separators=(", ", ": ")))


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (_field(type="string", maxLength=5), '{"x": "a\\"b"}'),
        (_field(type="string", pattern="^.*$"), '{"x": "a\\"b"}'),
        (_field(type="string", pattern="5"), '{"x": "room 5b"}'),
        (_field(type="number", exclusiveMinimum=0, maximum=5), '{"x": 1e-1}'),
        (_field(type="number", exclusiveMinimum=0, maximum=5), '{"x": 0.0000001}'),
    ],
)
def test_valid_values_that_its_conversion_cannot_reach_are_within_reach_here(document: Any, text: str) -> None:
    assert not accepts(_theirs(document), text)
    assert accepts(build_grammar(load_schema(document), layout="spaced").text, text)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (_field(type="string", maxLength=5), '{"x": "a\tb"}'),
        (_field(type="string"), '{"x": "\\ud83d"}'),
        (_EITHER, '{"fax": "1"}'),
        (_EITHER, "[1, 2]"),
    ],
)
def test_invalid_texts_that_its_conversion_takes_are_refused_here(document: Any, text: str) -> None:
    assert accepts(_theirs(document), text)
    assert not accepts(build_grammar(load_schema(document), layout="spaced").text, text)
