"""10,000 hostile outputs of a scripted engine over all labelled sets, judged by an independent validator as well."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.config import DecodingConfig, PromptConfig
from pipeline.data import Chunk, Outcome, Record, Reject
from pipeline.extractor import Extractor
from pipeline.grammar import build_grammar
from pipeline.layout import render
from pipeline.profiles import load_profile
from pipeline.prompting import Prompting
from pipeline.schema import arrow_type, load_schema, to_arrow_value
from pipeline.storage import Storage
from pipeline.testing import CharacterTokenizer, Scripted, ScriptedEngine
from pipeline.validation import Valid, Validator
from pipeline.writers import LinesPart
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


class Prepared:
    """One schema of a set, ready to judge raw outputs twice: by the loop with its validator, and independently."""

    def __init__(self, document: dict[str, Any], gold: list[Any]) -> None:
        self.document, self.gold = document, gold
        self.schema = load_schema(document)
        self.grammar = build_grammar(self.schema).text
        self.independent = _independent(document)
        self._validator = Validator(self.schema)
        config = PromptConfig(show_schema=False)
        self._prompting = Prompting(CharacterTokenizer(), config=config, json_schema=self.schema.json_schema)

    def outcomes(self, answers: list[Scripted]) -> list[Outcome]:
        """What the loop makes of the engine's answers, in their order."""
        engine = ScriptedEngine(lambda text, attempt: answers[int(text)], max_model_len=1_000_000)
        loop = Extractor(
            engine, prompter=self._prompting, validator=self._validator, grammar=self.grammar,
            decoding=DecodingConfig(max_output_tokens=100_000, max_retries=0),
        )  # fmt: skip
        names = [str(number) for number in range(len(answers))]
        found = {o.chunk.doc_id: o for o in loop.run(Chunk(n, 0, 1, n, 0, len(n), n) for n in names)}
        assert len(found) == len(answers)
        return [found[name] for name in names]

    def check_record(self, record: Record, wanted: Any) -> None:
        assert record.value == wanted
        assert json.loads(record.json) == wanted
        assert all(isinstance(n, int) for n in _integers(self.document, record.value))
        assert accepts(self.grammar, render(self.schema, record.value)), f"out of reach: {record.json}"

    def check_files(self, folder: Path, values: list[Any]) -> None:
        """Both outputs, read back: every line satisfies the schema, every row is there."""
        storage, profile = Storage(str(folder)), load_profile("spark", self.schema.json_schema)
        lines = LinesPart(storage, "records.jsonl")
        columns = arrow_type(self.schema)
        for value in values:
            lines.add(str(profile.to_line("d", "doc_id", value)))
        lines.close()
        text = (folder / "records.jsonl").read_text(encoding="utf-8")
        written = [json.loads(line) for line in text.split("\n")[:-1]]
        assert [{key: item for key, item in line.items() if key != "doc_id"} for line in written] == values
        assert all(self.independent.is_valid(value) for value in values)
        rows = pa.array([to_arrow_value(self.schema, value) for value in values], type=columns)
        pq.write_table(pa.table({"record": rows}), folder / "records.parquet")
        assert pq.read_table(folder / "records.parquet")["record"].null_count == 0
        assert pq.read_table(folder / "records.parquet").num_rows == len(values)


def _judge(name: str, folder: Path, *, num_examples: int) -> Counter[str]:
    prepared = [Prepared(document, gold) for document, gold in _schemas(name)]
    values: dict[int, list[Any]] = {index: [] for index in range(len(prepared))}
    counts: Counter[str] = Counter()

    @settings(max_examples=num_examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32), st.sampled_from(range(len(prepared))))
    def run(seed: int, which: int) -> None:
        random, one = Random(seed), prepared[which]
        raws = [raw_output(random, one.document, one.gold) for _ in range(OUTPUTS_PER_EXAMPLE)]
        answers = [Scripted(raw, "length" if random.random() < 0.05 else "stop") for raw in raws]
        for answer, outcome in zip(answers, one.outcomes(answers), strict=True):
            whole = answer.finish_reason == "stop"
            wanted = _wanted(answer.text, one.document, one.independent) if whole else None
            counts["outputs"] += 1
            if wanted is None:
                assert isinstance(outcome, Reject), f"an invalid output became a record: {answer!r}"
                assert outcome.errors or not whole
                counts[outcome.reason.value] += 1
                continue
            assert isinstance(outcome, Record), f"a valid output was refused: {answer!r}: {outcome}"
            one.check_record(outcome, wanted)
            values[which].append(outcome.value)
            counts["records"] += 1

    run()
    for index, one in enumerate(prepared):
        (folder / str(index)).mkdir()
        one.check_files(folder / str(index), values[index])
    return counts


@pytest.mark.parametrize(
    "name",
    SETS or [pytest.param("", marks=pytest.mark.skip(reason="the shared test material is not beside this checkout"))],
)
def test_not_one_invalid_output_becomes_a_record_and_not_one_valid_one_is_refused(name: str, tmp_path: Path) -> None:
    counts = _judge(name, tmp_path, num_examples=EXAMPLES_PER_SET)
    assert counts["outputs"] >= OUTPUTS_PER_EXAMPLE * EXAMPLES_PER_SET
    assert counts["records"] > 100
    assert min(counts["INVALID_JSON"], counts["SCHEMA_MISMATCH"], counts["TRUNCATED"]) > 10


def test_the_generator_reaches_valid_and_invalid_outputs_of_every_kind(shared: Path) -> None:
    document, gold = _schemas("sroie_receipts_en")[0]
    validator = Validator(load_schema(document))
    verdicts = Counter(
        "valid" if isinstance(verdict, Valid) else verdict.reason.value
        for verdict in (validator.validate(raw_output(Random(seed), document, gold)) for seed in range(300))
    )
    assert min(verdicts["valid"], verdicts["INVALID_JSON"], verdicts["SCHEMA_MISMATCH"]) > 20
