"""Keys: what decides an outcome changes them, what does not leaves them alone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pipeline.config import load_config
from pipeline.errors import ConfigError
from pipeline.schema import load_schema
from pipeline.udf.chunk import split_text
from pipeline.udf.stage import Stage, build_stage
from tests.scripts import PEOPLE_SCHEMA


def _stage(schema: Any = PEOPLE_SCHEMA, **settings: Any) -> Stage:
    engine = {"kind": "scripted", "script": "tests.scripts:people"} | settings.pop("engine", {})
    return build_stage(load_config({"engine": engine, **settings}), schema=load_schema(schema))


@pytest.mark.parametrize(
    "settings",
    [
        {"prompt": {"instructions": "Other words."}},
        {"prompt": {"examples": [{"text": "x", "output": {"name": "x", "age": 1}}]}},
        {"decoding": {"temperature": 0.2}},
        {"decoding": {"layout": "compact"}},
        {"chunking": {"max_tokens": 100}},
        {"engine": {"script": "tests.scripts:slow_people"}},
        {"engine": {"args": {"dtype": "float32"}}},
        {"schema": PEOPLE_SCHEMA | {"description": "A person."}},
    ],
)
def test_what_decides_an_outcome_changes_its_key(settings: dict[str, Any]) -> None:
    assert _stage(**settings).key_for("text") != _stage().key_for("text")


@pytest.mark.parametrize(
    "settings",
    [
        {"engine": {"args": {"tensor_parallel_size": 2}}},
        {"output": {"profile": "ascii", "id_field": "", "formats": ["jsonl"]}},
        {"journal": {"flush_outcomes": 1}},
        {"input": {"limit": 3}},
    ],
)
def test_what_does_not_decide_it_leaves_the_key_alone(settings: dict[str, Any]) -> None:
    assert _stage(**settings).key_for("text") == _stage().key_for("text")


def test_a_stage_travels_as_data_and_works_on_the_other_side() -> None:
    stage = _stage()
    assert stage.prompting.num_fixed_tokens > 0  # what was built here stays here
    arrived = pickle.loads(pickle.dumps(stage))
    assert arrived.fingerprint == stage.fingerprint
    assert "prompting" not in arrived.__dict__
    assert arrived.prompting.fingerprint == stage.prompt_fingerprint


def test_a_prompt_that_leaves_no_room_is_refused_on_the_driver() -> None:
    with pytest.raises(ConfigError, match="which leaves 0 for documents"):
        _stage(engine={"args": {"max_model_len": 100}})


def test_short_documents_are_one_chunk_and_long_ones_cover_their_text() -> None:
    stage = _stage(chunking={"max_tokens": 50, "overlap_tokens": 0, "repeat_preamble": False})
    assert [chunk.text for chunk in split_text(stage, "d", "a\x00b")] == ["a b"]
    text = "\n".join(f"line {number} with words" for number in range(100))
    chunks = split_text(stage, "d", text)
    assert len(chunks) > 5
    assert {chunk.num_chunks for chunk in chunks} == {len(chunks)}
    assert "".join(chunk.text for chunk in chunks) == text
