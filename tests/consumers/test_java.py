"""The real Gson and Jackson read the java profile into typed classes; their jars come with PySpark."""

from __future__ import annotations

import json
import subprocess
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipeline.field_types import FieldType, infer
from pipeline.profiles import load_profile
from pipeline.schema import load_schema
from tests.consumers.pojo import java_classes
from tests.consumers.shipment import shipment_schema, shipments
from tests.consumers.tools import java_tool, spark_jars
from tests.test_profiles import SAMPLE_SETS, sample_records

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parent / "Reader.java"
CLASSES = {"Shipment": None, **{f"{name.title().replace('_', '')}Record": name for name in SAMPLE_SETS}}
PROFILES = ["java", "java:decimals=string", "java+ascii"]


def schema_of(name: str) -> Any:
    sample = CLASSES[name]
    return load_schema(SAMPLE_SETS[sample]) if sample else shipment_schema()


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All classes, compiled once."""
    javac, folder = java_tool("javac"), tmp_path_factory.mktemp("java")
    names = ("gson", "jackson-core", "jackson-databind", "jackson-annotations")
    path = ":".join([str(folder), *map(str, spark_jars(*names))])
    sources = [SOURCE]
    for name in CLASSES:
        file = folder / f"{name}.java"
        file.write_text(java_classes(name, infer(schema_of(name).json_schema)), encoding="utf-8")
        sources.append(file)
    subprocess.run([javac, "-encoding", "UTF-8", "-cp", path, "-d", str(folder), *map(str, sources)], check=True)
    return path


def read_with_java(class_path: str, name: str, lines: list[str], folder: Path) -> list[tuple[Any, Any]]:
    """What Gson and what Jackson make of every line."""
    file = folder / "lines.jsonl"
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    command = [java_tool("java"), "-Xmx256m", "-cp", class_path, "Reader", name, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return list(zip(results[::2], results[1::2], strict=True))


def expected(type_: FieldType, value: Any) -> Any:
    """What a Java object must hold for a record's value, worked out without the profile."""
    if value is None:
        return None
    if type_.kind == "struct":
        return {f.name: expected(f.type, value.get(f.name)) for f in type_.fields}
    if type_.kind == "list":
        assert type_.item is not None
        return [expected(type_.item, item) for item in value]
    if type_.kind == "date":
        return (date.fromisoformat(value) - date(1970, 1, 1)).days * 86_400_000
    if type_.kind == "timestamp":
        passed = datetime.fromisoformat(value) - datetime(1970, 1, 1, tzinfo=timezone(timedelta(0)))
        return passed.days * 86_400_000 + passed.seconds * 1000 + passed.microseconds // 1000
    if type_.kind == "decimal":
        return format(Decimal(value), "f")
    return value


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", CLASSES)
def test_gson_and_jackson_read_every_record_into_typed_fields(
    class_path: str, tmp_path: Path, name: str, profile: str
) -> None:
    sample = CLASSES[name]
    records = sample_records(sample)[1] if sample else [(f"s-{i}", value) for i, value in enumerate(shipments())]
    schema = schema_of(name)
    lines = [load_profile(profile, schema.json_schema).to_line(doc_id, "doc_id", value) for doc_id, value in records]
    results = read_with_java(class_path, name, [str(line) for line in lines], tmp_path)
    type_ = infer(schema.json_schema)
    for (doc_id, value), (gson, jackson) in zip(records, results, strict=True):
        right = {"doc_id": doc_id, **expected(type_, value)}
        assert gson == right, f"Gson, {doc_id}"
        assert jackson == right, f"Jackson, {doc_id}"


@pytest.mark.parametrize(
    "field", ['"number": 1.5', '"number": "12a"', '"due": "28.02.2026"', '"created": "2026-01-02 15:04:05"']
)
def test_the_readers_refuse_what_the_profile_must_never_write(class_path: str, tmp_path: Path, field: str) -> None:
    gson, jackson = read_with_java(class_path, "Shipment", [f'{{"doc_id": "d", {field}}}'], tmp_path)[0]
    assert str(gson).startswith("refused")
    assert str(jackson).startswith("refused")


def test_jackson_refuses_a_null_in_a_long_which_is_why_the_profile_does(class_path: str, tmp_path: Path) -> None:
    assert str(read_with_java(class_path, "Shipment", ['{"number": null}'], tmp_path)[0][1]).startswith("refused")
