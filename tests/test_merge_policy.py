"""What a document's key leaves out: how its chunks are merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.grammar import build_grammar
from pipeline.schema import Schema, load_schema


def test_how_chunks_are_merged_is_no_part_of_what_is_extracted() -> None:
    plain = load_schema({"type": "object", "properties": {"key": {"type": "string"}, "merge": {"type": "string"}}})
    said: dict[str, Any] = {
        "type": "object",
        "properties": {"key": {"type": "string", "merge": "last"}, "merge": {"type": "string", "merge": "vote"}},
    }
    other = load_schema(said)
    assert plain.extraction_fingerprint == other.extraction_fingerprint
    assert plain.fingerprint != other.fingerprint
    assert build_grammar(plain).text == build_grammar(other).text
    del said["properties"]["merge"]
    assert load_schema(said).extraction_fingerprint != plain.extraction_fingerprint


def test_a_class_with_validators_may_change_its_merge_policy(tmp_path: Path) -> None:
    text = """
from pydantic import BaseModel, Field, field_validator


class Order(BaseModel):
    name: str = Field(description="a"{extra})  # {comment}

    @field_validator("name")
    @classmethod
    def _check(cls, value: str) -> str:
        return value{body}
"""

    def schema(name: str, **parts: str) -> Schema:
        path = tmp_path / f"{name}.py"
        path.write_text(text.format(**({"extra": "", "comment": "", "body": ""} | parts)))
        return load_schema(f"{path}:Order")

    plain = schema("plain")
    merged = schema("merged", extra=', json_schema_extra={"merge": "last"}', comment="why")
    assert plain.fingerprint != merged.fingerprint
    assert plain.extraction_fingerprint == merged.extraction_fingerprint
    assert plain.extraction_fingerprint != schema("changed", body=".strip()").extraction_fingerprint
