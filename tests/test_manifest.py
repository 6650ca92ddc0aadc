"""The manifest: counts add up, secrets stay out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.errors import InternalError
from pipeline.manifest import build_manifest, versions, without_secrets

COUNTS: dict[str, Any] = {
    "records": 3, "rejects": 1, "missing": 0, "retried": 1, "num_chunks": 5, "conflicts": 0,
    "prompt_tokens": 100, "output_tokens": 50, "by_reason": {"TRUNCATED": 1},
}  # fmt: skip


def _build(num_documents: int, **changes: Any) -> dict[str, Any]:
    return build_manifest(
        run_id="r", settings={"engine": {"args": {"hf_token": "abc"}}}, hashes={"schema": "s"}, model="demo",
        num_documents=num_documents, num_resumed=0, counts=COUNTS | changes, engine={"loads": 1},
        timings_s={"extract": 1.23456}, started_at=0.0,
    )  # fmt: skip


def test_documents_are_records_plus_rejects() -> None:
    manifest = _build(4)
    assert manifest["documents"] == manifest["records"] + manifest["rejects"]
    assert manifest["reject_rate"] == 0.25
    json.dumps(manifest)


def test_a_lost_document_is_an_error_and_not_a_number() -> None:
    with pytest.raises(InternalError, match="5 documents went in, but 3 records and 1 rejects"):
        _build(5)
    with pytest.raises(InternalError, match="1 without an outcome"):
        _build(4, missing=1)


def test_settings_are_shown_without_their_secrets() -> None:
    assert "abc" not in json.dumps(_build(4)["settings"])
    kept = {"max_output_tokens": 5, "tokenizer": "x", "api_key": "", "list": [{"password": "p"}]}
    assert without_secrets(kept) == kept | {"list": [{"password": "<hidden, 1 characters>"}]}


def test_versions_name_what_is_installed() -> None:
    assert {"python", "pyspark", "pydantic"} <= set(versions())
