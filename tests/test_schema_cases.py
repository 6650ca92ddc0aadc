"""The public failure cases that concern schema, grammar or validation, each handled as its ``expected`` says."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.compiling import check_compiles
from pipeline.data import RejectReason
from pipeline.errors import SchemaError
from pipeline.field_rules import field_rules
from pipeline.grammar import build_grammar
from pipeline.layout import render
from pipeline.lint import lint
from pipeline.schema import arrow_type, load_schema, spark_ddl, to_arrow_value
from pipeline.validation import Invalid, Valid, Validator
from tests.conftest import SHARED
from tests.matching import accepts


def _cases() -> dict[str, dict[str, Any]]:
    file = SHARED / "cases" / "cases.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {case["id"]: case for case in map(json.loads, lines)}


CASES = _cases()
REFUSED = {"bug-026": "enum", "bug-097": "$ref"}
WITH_INSTANCES = sorted(
    name for name, case in CASES.items() if ("accept" in case or "reject" in case) and name not in REFUSED
)
NO_ROOT_OBJECT = {"bug-117"}

needs_cases = pytest.mark.skipif(not CASES, reason="the shared test material is not beside this checkout")


def _load(case_id: str) -> Any:
    return load_schema(CASES[case_id]["schema"], require_object=case_id not in NO_ROOT_OBJECT)


def _reason(case_id: str, raw: str) -> RejectReason | None:
    verdict = Validator(_load(case_id)).validate(raw)
    return verdict.reason if isinstance(verdict, Invalid) else None


@needs_cases
@pytest.mark.parametrize("case_id", WITH_INSTANCES)
def test_accepted_instances_are_valid_and_within_reach_and_rejected_ones_are_not_records(case_id: str) -> None:
    case, schema = CASES[case_id], _load(case_id)
    validator = Validator(schema)
    for layout in ("spaced", "indented", "compact"):
        grammar = build_grammar(schema, layout=layout).text
        for raw in case.get("accept", []):
            verdict = validator.validate(raw)
            assert isinstance(verdict, Valid), f"{raw} is refused: {verdict}"
            assert verdict.value == json.loads(raw)
            assert accepts(grammar, render(schema, json.loads(raw), layout=layout)), f"{raw} is out of reach"
        for raw in case.get("reject", []):
            verdict = validator.validate(raw)
            assert isinstance(verdict, Invalid), f"{raw} is taken"
            assert verdict.errors
            assert all(error.message for error in verdict.errors)


@needs_cases
@pytest.mark.parametrize("case_id", sorted(REFUSED))
def test_an_unusable_schema_is_refused_with_path_and_keyword(case_id: str) -> None:
    with pytest.raises(SchemaError) as caught:
        _load(case_id)
    assert caught.value.keyword == REFUSED[case_id]
    assert caught.value.path


@needs_cases
@pytest.mark.parametrize("text", CASES["bug-107"]["input"]["schemas"] if CASES else [""])
def test_a_blank_null_or_non_object_schema_is_refused_before_start(text: str, tmp_path: Path) -> None:
    """bug-107"""
    file = tmp_path / "schema.json"
    file.write_text(text)
    for spec in (text, str(file)):
        with pytest.raises(SchemaError):
            load_schema(spec)


@needs_cases
@pytest.mark.parametrize("case_id", ["bug-029", "bug-032", "bug-035", "bug-049", "bug-013", "bug-066", "bug-054"])
def test_raw_output_that_is_not_one_json_value_is_invalid_json(case_id: str) -> None:
    """Unbalanced, cut, fenced, free text, empty, raw line break: each its own message, none a record."""
    schema = load_schema({"type": "object", "properties": {"note": {"type": "string"}}, "additionalProperties": True})
    verdict = Validator(schema).validate(CASES[case_id]["input"]["model_output"])
    assert isinstance(verdict, Invalid)
    assert verdict.reason is RejectReason.INVALID_JSON
    assert not accepts(build_grammar(schema).text, CASES[case_id]["input"]["model_output"])


@needs_cases
def test_a_schema_returned_instead_of_data_is_no_record_and_out_of_reach() -> None:
    """bug-037"""
    raw = CASES["bug-037"]["input"]["model_output"]
    assert _reason("bug-037", raw) is RejectReason.SCHEMA_MISMATCH
    assert not accepts(build_grammar(_load("bug-037"), layout="compact").text, raw)


@needs_cases
def test_a_number_cannot_grow_without_end() -> None:
    """bug-025: the grammar ends a number after 40 digits; the cut text is no record."""
    schema = _load("bug-025")
    grammar = build_grammar(schema, layout="spaced").text
    assert accepts(grammar, '{"width": 0.' + "1" * 40 + "}")
    assert not accepts(grammar, '{"width": 0.' + "1" * 41 + "}")
    assert _reason("bug-025", CASES["bug-025"]["input"]["model_output"]) is RejectReason.INVALID_JSON


@needs_cases
@pytest.mark.parametrize("case_id", ["bug-042", "bug-044", "bug-010", "bug-045"])
def test_no_layout_leaves_white_space_to_the_model(case_id: str) -> None:
    schema = _load(case_id)
    for layout in ("spaced", "indented", "compact"):
        grammar = build_grammar(schema, layout=layout).text
        for blank in (" ", "\n", "\t"):
            assert not accepts(grammar, blank + "{}")
            assert not accepts(grammar, "{" + blank * 3 + "}")


@needs_cases
def test_quotes_of_the_document_can_be_written() -> None:
    """bug-042, bug-073"""
    schema = _load("bug-042")
    for text in (CASES["bug-042"]["input"]["document"], CASES["bug-073"]["input"]["document"]):
        value = {"items": [{"text": text}]}
        raw = render(schema, value)
        assert accepts(build_grammar(schema).text, raw)
        verdict = Validator(schema).validate(raw)
        assert isinstance(verdict, Valid)
        assert verdict.value == value


@needs_cases
def test_lint_warns_of_an_open_ended_list() -> None:
    """bug-045"""
    report = lint(_load("bug-045"), compile_grammar=False)
    assert ("tags", "unbounded list") in {(trap.path, trap.kind) for trap in report.traps}
    assert report.size.longest_chars is None


@needs_cases
def test_a_schema_without_facts_to_fill_allows_nulls() -> None:
    """bug-067"""
    gold = CASES["bug-067"]["input"]["gold"]
    assert isinstance(Validator(_load("bug-067")).validate(json.dumps(gold)), Valid)
    assert not any(trap.kind == "invention" for trap in lint(_load("bug-067"), compile_grammar=False).traps)


@pytest.mark.slow
@needs_cases
@pytest.mark.parametrize("case_id", ["bug-095", "bug-098", "bug-100"])
def test_large_enums_nested_unions_and_many_bounds_compile_in_bounded_time_and_memory(case_id: str) -> None:
    report = check_compiles(build_grammar(_load(case_id)), None, time_limit_s=5, memory_limit_mb=512)
    assert report.compile_ms < 5000


@pytest.mark.parametrize("depth", [3, 4, 5, 6])
def test_unions_nested_in_unions_stay_small(depth: int) -> None:
    """bug-098: equal parts of a schema are one rule."""
    node: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        inner = {"type": "object", "properties": {"k": node}, "required": ["k"], "additionalProperties": False}
        node = {"oneOf": [node, inner]}
    start = time.perf_counter()
    spec = build_grammar(load_schema({"type": "object", "properties": {"x": node}, "required": ["x"]}))
    assert time.perf_counter() - start < 5
    assert accepts(spec.text, '{"x": "a"}')
    assert accepts(spec.text, '{"x": {"k": "a"}}')


@pytest.mark.slow
def test_a_grammar_that_takes_too_long_or_too_much_is_stopped_and_blamed_on_a_place() -> None:
    """bug-105: the compiling process is gone afterwards, however often it happens."""
    words = {"enum": [f"word {i:06d} {'x' * 40}" for i in range(60000)]}
    spec = build_grammar(load_schema({"type": "object", "properties": {"code": words}, "required": ["code"]}))
    for _ in range(2):
        with pytest.raises(SchemaError, match="does not compile within") as caught:
            check_compiles(spec, None, time_limit_s=0.05, memory_limit_mb=4096)
        assert caught.value.path == "#/properties/code"
        assert caught.value.keyword == "enum"
    with pytest.raises(SchemaError, match=r"does not compile"):
        check_compiles(spec, None, time_limit_s=30, memory_limit_mb=1)


def test_many_schemas_in_a_row_are_quick() -> None:
    """bug-101: 128 schemas of 20 properties."""
    start = time.perf_counter()
    for number in range(128):
        kinds = ({"type": "string"}, {"type": "integer", "minimum": 0}, {"enum": ["a", "b"]}, {"type": "number"})
        properties = {f"field_{number}_{i}": kinds[i % 4] for i in range(20)}
        document = {"type": "object", "properties": properties, "required": list(properties)}
        build_grammar(load_schema(document))
    assert time.perf_counter() - start < 20


@needs_cases
def test_nesting_is_bounded_well_below_what_consumers_take() -> None:
    """bug-117"""
    assert _reason("bug-117", "[" * 1500 + "]" * 1500) is RejectReason.INVALID_JSON
    assert _reason("bug-117", "[" * 128 + "]" * 128) is None
    assert _reason("bug-117", "[" * 129 + "]" * 129) is RejectReason.INVALID_JSON


@needs_cases
def test_integers_stay_inside_int64_whatever_the_schema_says() -> None:
    """bug-018"""
    assert _reason("bug-018", '{"seed":9223372036854775808}') is RejectReason.SCHEMA_MISMATCH
    assert _reason("bug-018", '{"seed":-9223372036854775808}') is None
    assert spark_ddl(_load("bug-018")) == "seed BIGINT NOT NULL"


def test_null_items_survive_in_an_integer_list() -> None:
    """bug-020"""
    schema = load_schema("scores ARRAY<INT>")
    value = {"scores": [1, None, 3]}
    assert isinstance(Validator(schema).validate(json.dumps(value)), Valid)
    column = pa.array([to_arrow_value(schema, value)], type=arrow_type(schema))
    assert column.to_pylist() == [value]


@needs_cases
def test_objects_are_closed_unless_told_otherwise_and_lint_says_so() -> None:
    """bug-118, bug-089"""
    assert _reason("bug-118", '{"a":1,"x":2}') is RejectReason.SCHEMA_MISMATCH
    open_schema = load_schema(CASES["bug-118"]["schema"], close_objects=False)
    assert isinstance(Validator(open_schema).validate('{"a":1,"x":2}'), Valid)
    assert any(trap.kind == "open object" for trap in lint(open_schema, compile_grammar=False).traps)
    grammar = build_grammar(_load("bug-089")).text
    assert accepts(grammar, '{"a": "1", "zz": "2"}')
    assert not accepts(grammar, '{"b": "1", "a": "2"}')  # a declared key is no undeclared one
    assert not accepts(grammar, '{"a": "1", "a": "2"}')


@needs_cases
def test_every_ignored_keyword_is_named_as_checked_afterwards() -> None:
    """bug-001, bug-003, bug-007, bug-008, bug-039, bug-083"""
    for case_id, path, keyword in (
        ("bug-001", "sku", "maxLength"), ("bug-003", "codes[]", "maxLength"), ("bug-007", "ids", "uniqueItems"),
        ("bug-007", "qty", "multipleOf"), ("bug-008", "price", "multipleOf"),
    ):  # fmt: skip
        rules = {field.path: field for field in field_rules(_load(case_id).json_schema)}
        assert any(rule.startswith(keyword) for rule in rules[path].checked), case_id
    for document in CASES["bug-039"]["input"]["batch"]:
        assert accepts(build_grammar(load_schema(document["schema"])).text, '{"a": 5}')
