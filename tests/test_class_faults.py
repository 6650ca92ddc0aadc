"""Classes that would lose values or refuse every output are found when they are loaded; sets keep their order."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    PlainSerializer,
    SecretStr,
    create_model,
    field_serializer,
)

from pipeline.errors import SchemaError
from pipeline.schema import arrow_type, load_schema, to_arrow_value
from pipeline.validation import Invalid, Valid, Validator


class German(BaseModel):
    day: date

    @field_serializer("day")
    def _written(self, value: date) -> str:
        return value.strftime("%d.%m.%Y")


class Inside(BaseModel):
    first: str = Field(validation_alias=AliasPath("names", 0))


class Either(BaseModel):
    first: str = Field(validation_alias=AliasChoices("first", AliasPath("names", 0)))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Annotated[int, PlainSerializer(str, return_type=str)], r"Holder\.v is read as number and written as string"),
        (list[Annotated[int, PlainSerializer(str, return_type=str)]], r"Holder\.v\[\] is read as number"),
        (German, r"German\.day is read as date and written as string"),
        (list[German], "written as string"),
        (Inside, "Inside.first is read from inside another value"),
        (Either, "Either.first is read from inside another value"),
        (SecretStr, "secret, which would be written as stars"),
        (dict[str, SecretStr | None], "secret, which would be written as stars"),
    ],
)
def test_a_class_that_cannot_give_back_what_it_read_is_refused(kind: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        load_schema(create_model("Holder", v=(kind, ...)))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Annotated[int, PlainSerializer(lambda value: value + 0, return_type=int)], 3),
        (Annotated[float, PlainSerializer(int, return_type=int)], 3),
        (Decimal, "1.5"),
        (set[date], ["2026-01-02"]),
        (timedelta, "PT5S"),
        (Annotated[str, AfterValidator(str.title)], "Ab"),
    ],
)
def test_a_class_that_writes_what_it_reads_is_taken(kind: Any, value: Any) -> None:
    verdict = Validator(load_schema(create_model("Holder", v=(kind, ...)))).validate(json.dumps({"v": value}))
    assert isinstance(verdict, Valid)
    assert json.loads(verdict.json) == {"v": value}


def test_a_set_keeps_the_order_in_which_it_was_read() -> None:
    kinds: dict[str, Any] = {"v": (dict[int, list[set[str]]], ...), "w": (frozenset[tuple[int, str]], ...)}
    validator = Validator(load_schema(create_model("Sets", **kinds)))
    value = {"v": {"1": [["zz", "a", "m", "b"], []], "2": [["q", "c"]]}, "w": [[2, "b"], [1, "a"]]}
    verdict = validator.validate(json.dumps(value))
    assert isinstance(verdict, Valid)
    assert json.loads(verdict.json) == verdict.value == value


def test_what_a_validator_makes_of_a_set_is_the_same_in_every_process() -> None:
    program = (
        "from typing import Annotated; from pydantic import AfterValidator, create_model\n"
        "from pipeline.schema import load_schema; from pipeline.validation import Validator\n"
        "kind = set[Annotated[str, AfterValidator(str.title)]]\n"
        "schema = load_schema(create_model('Sets', v=(kind, ...)))\n"
        'print(Validator(schema).validate(\'{"v": ["q", "a", "M", "c", "z"]}\').json)'
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert outputs == {'{"v":["M","A","C","Q","Z"]}\n'}


@pytest.mark.parametrize(("text", "written"), [("PT0.5S", "PT0.5S"), ("-P1D", "-P1D"), ("P1W", "P7D")])
def test_durations_are_those_of_the_class(text: str, written: str) -> None:
    validator = Validator(load_schema(create_model("Holder", v=(timedelta, ...))))
    verdict = validator.validate(json.dumps({"v": text}))
    assert isinstance(verdict, Valid)
    assert verdict.value == {"v": written}
    for wrong in ("P", "PT", "1 day", "P1H"):
        assert isinstance(validator.validate(json.dumps({"v": wrong})), Invalid)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Decimal | Literal["n/a"], ["5.0", "n/a"]),
        (Decimal | str, ["5.0", "x"]),
        (dict[str, Decimal | bool], [{"a": True, "b": "1.50"}]),
    ],
)
def test_a_decimal_in_a_union_with_other_texts_has_a_column(kind: Any, values: list[Any]) -> None:
    schema = load_schema(create_model("Holder", v=(kind, ...)))
    for value in values:
        verdict = Validator(schema).validate(json.dumps({"v": value}))
        assert isinstance(verdict, Valid)
        assert verdict.value == {"v": value}
        assert to_arrow_value(schema, verdict.value)["v"] is not None
    assert str(arrow_type(schema).field("v").type) in ("string", "map<string, string>")
