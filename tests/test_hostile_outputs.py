"""10,000 hostile outputs over the schemas of all labelled sets, judged by an independent validator as well."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.grammar import build_grammar
from pipeline.layout import render
from pipeline.schema import arrow_type, load_schema, to_arrow_value
from pipeline.validation import Valid, Validator
from tests.conftest import SHARED
from tests.matching import accepts
from tests.raw_outputs import raw_output

SETS = sorted(path.name for path in (SHARED / "data").iterdir() if path.is_dir()) if (SHARED / "data").is_dir() else []
OUTPUTS_PER_EXAMPLE = 20
EXAMPLES_PER_SET = 52
"""Ten sets, 52 examples, 20 outputs: 10,400."""


def _schemas(name: str) -> list[tuple[dict[str, Any], list[Any]]]:
    """(schema document, gold values) of a set; one set has a schema for each service."""
    folder = SHARED / "data" / name
    rows = [json.loads(line) for line in (folder / "documents.jsonl").read_text(encoding="utf-8").splitlines()]
    files = sorted({row.get("schema", "schema.json") for row in rows})
    gold = {file: [row["gold"] for row in rows if row.get("schema", "schema.json") == file] for file in files}
    return [(json.loads((folder / file).read_text(encoding="utf-8")), gold[file]) for file in files]


def _independent(schema: dict[str, Any]) -> Any:
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def _strict(raw: str) -> Any:
    """What Python's own parser takes, without duplicate keys, NaN, half surrogates and integers beyond int64."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) != len(items):
            raise ValueError("duplicate key")
        return dict(items)

    def constant(text: str) -> Any:
        raise ValueError(text)

    value = json.loads(raw, object_pairs_hook=pairs, parse_constant=constant)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _integers(schema: Any, value: Any) -> list[Any]:
    """The numbers in integer fields of a valid value."""
    if not isinstance(schema, dict):
        return []
    found = [value] if "integer" in schema.get("type", "") and isinstance(value, int | float) else []
    for branch in schema.get("oneOf", []):
        if isinstance(value, dict) and branch["properties"]["domain"]["const"] == value.get("domain"):
            found += _integers(branch, value)
    if isinstance(value, dict):
        for key, item in value.items():
            found += _integers(schema.get("properties", {}).get(key), item)
    if isinstance(value, list):
        for item in value:
            found += _integers(schema.get("items"), item)
    return found


def _wanted(raw: str, schema: dict[str, Any], independent: Any) -> Any:
    """The value that must become a record, or None."""
    try:
        value = _strict(raw)
    except (ValueError, RecursionError):
        return None
    if not independent.is_valid(value) or any(not -(2**63) <= n < 2**63 for n in _integers(schema, value)):
        return None
    return value


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS or [pytest.param("", marks=pytest.mark.skip(reason="no shared data"))])
def test_not_one_invalid_output_becomes_a_record_and_not_one_valid_one_is_refused(name: str) -> None:
    prepared = []
    for document, gold in _schemas(name):
        schema = load_schema(document)
        grammar = build_grammar(schema).text
        prepared.append(
            (document, gold, schema, Validator(schema), _independent(document), grammar, arrow_type(schema))
        )
    counts: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES_PER_SET, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32), st.sampled_from(range(len(prepared))))
    def run(seed: int, which: int) -> None:
        random = Random(seed)
        document, gold, schema, validator, independent, grammar, columns = prepared[which]
        for _ in range(OUTPUTS_PER_EXAMPLE):
            raw = raw_output(random, document, gold)
            wanted = _wanted(raw, document, independent)
            verdict = validator.validate(raw)
            counts["valid" if wanted is not None else "invalid"] += 1
            if wanted is None:
                assert not isinstance(verdict, Valid), f"an invalid output became a record: {raw!r}"
                assert verdict.errors
                continue
            assert isinstance(verdict, Valid), f"a valid output was refused: {raw!r}: {verdict}"
            assert verdict.value == wanted
            assert json.loads(verdict.json) == wanted
            assert independent.is_valid(json.loads(verdict.json))
            assert all(isinstance(n, int) for n in _integers(document, verdict.value))
            assert accepts(grammar, render(schema, verdict.value)), f"out of reach: {raw!r}"
            pa_value = to_arrow_value(schema, verdict.value)
            assert pa.array([pa_value], type=columns).null_count == 0

    run()
    assert counts["valid"] + counts["invalid"] >= OUTPUTS_PER_EXAMPLE * EXAMPLES_PER_SET
    assert counts["valid"] > 100
    assert counts["invalid"] > 100


def test_the_generator_reaches_valid_and_invalid_outputs_of_every_kind(shared: Path) -> None:
    document, gold = _schemas("sroie_receipts_en")[0]
    validator = Validator(load_schema(document))
    verdicts = Counter(
        "valid" if isinstance(verdict, Valid) else verdict.reason.value
        for verdict in (validator.validate(raw_output(Random(seed), document, gold)) for seed in range(300))
    )
    assert min(verdicts["valid"], verdicts["INVALID_JSON"], verdicts["SCHEMA_MISMATCH"]) > 20
