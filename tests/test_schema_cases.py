"""The public failure cases that concern schema, grammar or validation, each handled as its ``expected`` says."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.compiling import check_compiles
from pipeline.config import PromptConfig
from pipeline.data import Chunk, RejectReason
from pipeline.errors import SchemaError
from pipeline.field_rules import field_rules
from pipeline.fields import describe_fields
from pipeline.grammar import build_grammar
from pipeline.grounding import Grounder
from pipeline.layout import render
from pipeline.lint import lint
from pipeline.prompting import Prompting
from pipeline.schema import arrow_type, load_schema, spark_ddl, to_arrow_value
from pipeline.testing import CharacterTokenizer
from pipeline.validation import Invalid, Valid, Validator
from tests.cases import CASES, about, given
from tests.matching import accepts

REFUSED = {"bug-026": "enum", "bug-097": "$ref"}
WITH_INSTANCES = sorted(
    name for name, case in CASES.items() if ("accept" in case or "reject" in case) and name not in REFUSED
)
NO_ROOT_OBJECT = {"bug-117"}


def _load(case_id: str) -> Any:
    return load_schema(CASES[case_id]["schema"], require_object=case_id not in NO_ROOT_OBJECT)


def _reason(case_id: str, raw: str) -> RejectReason | None:
    verdict = Validator(_load(case_id)).validate(raw)
    return verdict.reason if isinstance(verdict, Invalid) else None


@about(*(name.removeprefix("bug-") for name in WITH_INSTANCES))
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


@about("026", "097")
def test_an_unusable_schema_is_refused_with_path_and_keyword(case_id: str) -> None:
    with pytest.raises(SchemaError) as caught:
        _load(case_id)
    assert caught.value.keyword == REFUSED[case_id]
    assert caught.value.path


@about("107")
def test_a_blank_null_or_non_object_schema_is_refused_before_start(case_id: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    for text in given(case_id)["schemas"]:
        file.write_text(text)
        for spec in (text, str(file)):
            with pytest.raises(SchemaError):
                load_schema(spec)


@about("029", "032", "035", "049", "013", "066", "054")
def test_raw_output_that_is_not_one_json_value_is_invalid_json(case_id: str) -> None:
    """Unbalanced, cut, fenced, free text, empty, raw line break: each its own message, none a record."""
    schema = load_schema({"type": "object", "properties": {"note": {"type": "string"}}, "additionalProperties": True})
    verdict = Validator(schema).validate(given(case_id)["model_output"])
    assert isinstance(verdict, Invalid)
    assert verdict.reason is RejectReason.INVALID_JSON
    assert not accepts(build_grammar(schema, layout="spaced").text, given(case_id)["model_output"])


@about("037")
def test_a_schema_returned_instead_of_data_is_no_record_and_out_of_reach(case_id: str) -> None:
    raw = given(case_id)["model_output"]
    assert _reason(case_id, raw) is RejectReason.SCHEMA_MISMATCH
    assert not accepts(build_grammar(_load(case_id), layout="compact").text, raw)


@about("037")
def test_a_description_written_as_the_value_stands_nowhere_in_the_document(case_id: str) -> None:
    """A string can still hold schema text: as no value of the document it is reported, or refused where so asked."""
    (span,) = Grounder("Sold to Ann Lee.").ground({"name": "Name of the buyer"})
    assert (span.path, span.kind) == ("/name", "none")


@about("025")
def test_a_number_cannot_grow_without_end(case_id: str) -> None:
    """The grammar ends a number after 40 digits; the cut text is no record."""
    schema = _load(case_id)
    grammar = build_grammar(schema, layout="spaced").text
    assert accepts(grammar, '{"width": 0.' + "1" * 40 + "}")
    assert not accepts(grammar, '{"width": 0.' + "1" * 41 + "}")
    assert _reason(case_id, given(case_id)["model_output"]) is RejectReason.INVALID_JSON


@about("042", "044", "010", "045")
def test_no_layout_leaves_white_space_to_the_model(case_id: str) -> None:
    schema = _load(case_id)
    for layout in ("spaced", "indented", "compact"):
        grammar = build_grammar(schema, layout=layout).text
        for blank in (" ", "\n", "\t"):
            assert not accepts(grammar, blank + "{}")
            assert not accepts(grammar, "{" + blank * 3 + "}")


@about("042", "070", "073")
def test_every_character_of_the_document_can_be_written(case_id: str) -> None:
    """Straight and typographic quotes, Chinese, emoji and combining marks: unescaped and within reach."""
    schema = _load("bug-042")
    value = {"items": [{"text": given(case_id)["document"]}]}
    raw = render(schema, value)
    assert "\\u" not in raw
    assert accepts(build_grammar(schema).text, raw)
    verdict = Validator(schema).validate(raw)
    assert isinstance(verdict, Valid)
    assert verdict.value == value


@about("070")
def test_text_that_was_escaped_twice_stands_nowhere_in_the_document(case_id: str) -> None:
    case = given(case_id)
    wrong = json.loads(case["wrong_output"])
    assert wrong != case["gold"]
    grounder = Grounder(case["document"])
    assert [span.kind for span in grounder.ground(wrong)] == ["none"]
    assert [span.kind for span in grounder.ground(case["gold"])] == ["exact"]


@about("045")
def test_an_open_ended_list_is_warned_of_and_can_be_given_an_end(case_id: str) -> None:
    """The limit never cuts a list in silence: the grammar allows one item more, which validation refuses."""
    schema = _load(case_id)
    report = lint(schema, compile_grammar=False)
    assert ("tags", "unbounded list") in {(trap.path, trap.kind) for trap in report.traps}
    assert report.size.longest_chars is None
    grammar = build_grammar(schema, max_list_items=3).text
    validator = Validator(schema, max_list_items=3)
    for num_items, is_reachable, is_valid in ((3, True, True), (4, True, False), (5, False, False)):
        raw = render(schema, {"name": "Ann", "tags": ["x"] * num_items})
        assert accepts(grammar, raw) is is_reachable
        assert isinstance(validator.validate(raw), Valid) is is_valid
    pair = load_schema({"type": "object", "properties": {"p": {"prefixItems": [{}, {}], "items": False}}})
    assert isinstance(Validator(pair, max_list_items=1).validate('{"p": [1, 2]}'), Valid)
    assert accepts(build_grammar(pair, layout="spaced", max_list_items=1).text, '{"p": [1, 2]}')


@about("067")
def test_a_schema_without_facts_to_fill_allows_nulls_and_the_prompt_says_when(case_id: str) -> None:
    gold = given(case_id)["gold"]
    assert isinstance(Validator(_load(case_id)).validate(json.dumps(gold)), Valid)
    assert not any(trap.kind == "invention" for trap in lint(_load(case_id), compile_grammar=False).traps)
    assert "null" in describe_fields(_load(case_id).json_schema)


@about("048")
def test_the_prompt_names_every_field(case_id: str) -> None:
    prompting = Prompting(CharacterTokenizer(), config=PromptConfig(), json_schema=_load(case_id).json_schema)
    prompt = prompting.first(Chunk("d", 0, 1, "A B came.", 0, 9, "k"))
    assert "guests" in "".join(map(chr, prompt.token_ids))


@about("077")
def test_a_nul_character_is_kept_stripped_or_refused_as_asked(case_id: str) -> None:
    schema, raw = _load(case_id), CASES[case_id]["accept"][0]
    kept, stripped = Validator(schema).validate(raw), Validator(schema, nul="strip").validate(raw)
    assert isinstance(kept, Valid)
    assert isinstance(stripped, Valid)
    assert (kept.value["t"], stripped.value["t"]) == ("a\0b", "ab")
    refused = Validator(schema, nul="reject").validate(raw)
    assert isinstance(refused, Invalid)
    assert [(error.path, error.keyword) for error in refused.errors] == [("/t", "nul")]


@about("095", "098", "100")
@pytest.mark.slow
def test_large_enums_nested_unions_and_many_bounds_compile_in_bounded_time_and_memory(case_id: str) -> None:
    report = check_compiles(build_grammar(_load(case_id)), None, time_limit_s=5, memory_limit_mb=512)
    assert report.compile_ms < 5000


@pytest.mark.parametrize("depth", [3, 4, 5, 6])
@about("098")
def test_unions_nested_in_unions_stay_small(case_id: str, depth: int) -> None:
    """Equal parts of a schema are one rule."""
    node: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        inner = {"type": "object", "properties": {"k": node}, "required": ["k"], "additionalProperties": False}
        node = {"oneOf": [node, inner]}
    start = time.perf_counter()
    spec = build_grammar(load_schema({"type": "object", "properties": {"x": node}, "required": ["x"]}))
    assert time.perf_counter() - start < 5
    assert accepts(spec.text, '{\n  "x": "a"\n}')
    assert accepts(spec.text, '{\n  "x": {\n    "k": "a"\n  }\n}')


@about("105")
@pytest.mark.slow
def test_a_grammar_that_takes_too_long_or_too_much_is_stopped_and_blamed_on_a_place(case_id: str) -> None:
    """The compiling process is gone afterwards, however often it happens."""
    words = {"enum": [f"word {i:06d} {'x' * 40}" for i in range(60000)]}
    spec = build_grammar(load_schema({"type": "object", "properties": {"code": words}, "required": ["code"]}))
    for _ in range(2):
        with pytest.raises(SchemaError, match="does not compile within") as caught:
            check_compiles(spec, None, time_limit_s=0.05, memory_limit_mb=4096)
        assert caught.value.path == "#/properties/code"
        assert caught.value.keyword == "enum"
    with pytest.raises(SchemaError, match=r"does not compile"):
        check_compiles(spec, None, time_limit_s=30, memory_limit_mb=1)


@about("101")
def test_many_schemas_in_a_row_are_quick(case_id: str) -> None:
    start = time.perf_counter()
    for number in range(given(case_id)["schemas"]):
        kinds = ({"type": "string"}, {"type": "integer", "minimum": 0}, {"enum": ["a", "b"]}, {"type": "number"})
        properties = {f"field_{number}_{i}": kinds[i % 4] for i in range(given(case_id)["properties_each"])}
        document = {"type": "object", "properties": properties, "required": list(properties)}
        build_grammar(load_schema(document))
    assert time.perf_counter() - start < 20


@about("117")
def test_nesting_and_digits_are_bounded_well_below_what_consumers_take(case_id: str) -> None:
    assert _reason(case_id, "[" * 1500 + "]" * 1500) is RejectReason.INVALID_JSON
    assert _reason(case_id, "[" * 128 + "]" * 128) is None
    assert _reason(case_id, "[" * 129 + "]" * 129) is RejectReason.INVALID_JSON
    number = load_schema({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]})
    assert isinstance(Validator(number).validate(f'{{"n":1{"0" * 1001}}}'), Invalid)


@about("018")
def test_integers_stay_inside_int64_whatever_the_schema_says(case_id: str) -> None:
    assert _reason(case_id, '{"seed":9223372036854775808}') is RejectReason.SCHEMA_MISMATCH
    assert _reason(case_id, '{"seed":-9223372036854775808}') is None
    assert spark_ddl(_load(case_id)) == "seed BIGINT NOT NULL"


@about("020")
def test_null_items_survive_in_an_integer_list(case_id: str) -> None:
    schema = load_schema(given(case_id)["column"])
    value = {"scores": given(case_id)["rows"][0]}
    assert isinstance(Validator(schema).validate(json.dumps(value)), Valid)
    column = pa.array([to_arrow_value(schema, value)], type=arrow_type(schema))
    assert column.to_pylist() == [value]


@about("118")
def test_objects_are_closed_unless_told_otherwise_and_lint_says_so(case_id: str) -> None:
    assert _reason(case_id, '{"a":1,"x":2}') is RejectReason.SCHEMA_MISMATCH
    open_schema = load_schema(CASES[case_id]["schema"], close_objects=False)
    assert isinstance(Validator(open_schema).validate('{"a":1,"x":2}'), Valid)
    assert any(trap.kind == "open object" for trap in lint(open_schema, compile_grammar=False).traps)


@about("089")
def test_a_declared_key_is_no_undeclared_one(case_id: str) -> None:
    grammar = build_grammar(_load(case_id), layout="spaced").text
    assert accepts(grammar, '{"a": "1", "zz": "2"}')
    assert not accepts(grammar, '{"b": "1", "a": "2"}')
    assert not accepts(grammar, '{"a": "1", "a": "2"}')


CHECKED_LATE = {
    "bug-001": [("sku", "maxLength")], "bug-003": [("codes[]", "maxLength")],
    "bug-007": [("ids", "uniqueItems"), ("qty", "multipleOf")], "bug-008": [("price", "multipleOf")],
}  # fmt: skip


@about("001", "003", "007", "008")
def test_every_keyword_that_a_grammar_ignores_is_named_as_checked_afterwards(case_id: str) -> None:
    rules = {field.path: field for field in field_rules(_load(case_id).json_schema)}
    for path, keyword in CHECKED_LATE[case_id]:
        assert any(rule.startswith(keyword) for rule in rules[path].checked)


@about("039")
def test_one_backend_takes_every_schema(case_id: str) -> None:
    for document in given(case_id)["batch"]:
        assert accepts(build_grammar(load_schema(document["schema"]), layout="spaced").text, '{"a": 5}')
