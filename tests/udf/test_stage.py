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
        {"decoding": {"passes": 2}},
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


def test_further_passes_take_room_for_what_was_found_and_make_merge_policies_part_of_a_key() -> None:
    once, twice = _stage(), _stage(decoding={"passes": 2})
    assert twice.chunk_tokens < once.chunk_tokens
    assert twice.engine_id == once.engine_id
    policy = PEOPLE_SCHEMA | {"properties": PEOPLE_SCHEMA["properties"] | {"age": {"type": "integer", "merge": "max"}}}
    other = PEOPLE_SCHEMA | {"properties": PEOPLE_SCHEMA["properties"] | {"age": {"type": "integer", "merge": "last"}}}
    assert _stage(policy).key_for("text") == _stage(other).key_for("text")
    assert _stage(policy, decoding={"passes": 2}).key_for("x") != _stage(other, decoding={"passes": 2}).key_for("x")


def test_halves_of_a_chunk_overlap_as_chunks_do() -> None:
    text = "".join(f"Line {number} of the list.\n" for number in range(100))
    (chunk,) = split_text(_stage(), "d", text)
    first, second = _stage(chunking={"overlap_tokens": 30}).halve(chunk)
    assert first.char_start == 0
    assert second.char_start < first.char_end
    assert second.char_end == len(text)
    assert text[second.char_start - 1] == "\n"


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
