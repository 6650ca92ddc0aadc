"""The java profile's values: long, epoch milliseconds, decimals and nulls."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.field_types import Field, FieldType
from pipeline.profile_form import Path
from pipeline.profile_java import JavaForm
from pipeline.profiles import Loss, load_profile
from pipeline.strict_json import dumps
from tests.consumers.types import RECORD_TYPES, values


def convert(kind: Any, value: Any, *, nullable: bool = False, **options: str) -> Any:
    """One value in a record of one field, or the losses."""
    form = JavaForm(
        FieldType("struct", fields=(Field("x", FieldType(kind, nullable, precision=20, scale=4), True),)), options
    )
    losses: list[tuple[Path, str]] = []
    result = form.convert({"x": value}, lambda path, why: losses.append((path, why)))
    return losses or result["x"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-02T15:04:05Z", 1767366245000),
        ("2026-01-02t15:04:05z", 1767366245000),
        ("2026-01-02T15:04:05+08:00", 1767337445000),
        ("2026-01-02T15:04:05.123456-03:30", 1767378845123),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1970-01-01T00:00:00Z", 0),
        ("2016-12-31T23:59:60Z", 1483228800000),
        ("0001-01-01T00:00:00+14:00", -62135647200000),
    ],
)
def test_a_zone_in_the_value_wins(value: str, expected: int) -> None:
    assert convert("timestamp", value) == expected
    assert convert("timestamp", value, tz="Asia/Tokyo") == expected


@pytest.mark.parametrize(
    ("kind", "value", "zone", "expected"),
    [
        ("timestamp_ntz", "2026-01-02T15:04:05", "UTC", 1767366245000),
        ("timestamp_ntz", "2026-01-02T15:04:05", "Asia/Shanghai", 1767337445000),
        ("timestamp_ntz", "2026-10-25T02:30:00", "Europe/Berlin", 1792888200000),  # twice: the earlier
        ("date", "2026-01-02", "UTC", 1767312000000),
        ("date", "2026-01-02", "America/New_York", 1767330000000),
    ],
)
def test_local_times_and_dates_are_taken_in_the_option_tz(kind: str, value: str, zone: str, expected: int) -> None:
    assert convert(kind, value, tz=zone) == expected


@given(st.datetimes(min_value=datetime.datetime(1, 1, 2), max_value=datetime.datetime(9999, 12, 30)))
def test_epoch_milliseconds_agree_with_integer_arithmetic(moment: datetime.datetime) -> None:
    days = moment.toordinal() - datetime.date(1970, 1, 1).toordinal()
    seconds = days * 86400 + moment.hour * 3600 + moment.minute * 60 + moment.second
    assert convert("timestamp", moment.isoformat() + "Z") == seconds * 1000 + moment.microsecond // 1000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("12.50", "12.50"),
        (Decimal("1E+3"), "1000"),
        (3, "3"),
        (0.1, "0.1"),
        (Decimal("1234567890123456.7891"), "1234567890123456.7891"),
    ],
)
def test_decimals_keep_every_digit_as_configured(value: Any, text: str) -> None:
    assert dumps(convert("decimal", value)) == text
    assert convert("decimal", value, decimals="string") == text


def test_what_a_java_reader_would_make_up_is_a_loss() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "m": {"type": ["integer", "null"]},
        },
        "required": ["n", "at", "m"],
    }
    profile = load_profile("java", schema)
    good = {"n": 1, "at": "2026-01-01T00:00:00Z", "m": None}
    assert profile.to_value(good) == {"n": 1, "at": 1767225600000, "m": None}
    for change, path in (
        ({"n": None}, "/n"),
        ({"n": 2**63}, "/n"),
        ({"n": 1.5}, "/n"),
        ({"at": "soon"}, "/at"),
    ):
        result = profile.to_value(good | change)
        assert isinstance(result, Loss), change
        assert result.path == path
    absent = profile.to_value({"at": good["at"], "m": 1})
    assert isinstance(absent, Loss)
    assert absent.path == "/n"


def test_whole_numbers_have_neither_point_nor_exponent() -> None:
    for value in (9.18e12, Decimal("9.18E+12"), 9180000000000):
        assert dumps(convert("integer", value)) == "9180000000000"


def test_a_text_longer_than_jackson_reads_is_a_loss() -> None:
    assert convert("string", "x" * 20_000_000) == "x" * 20_000_000
    assert "Jackson" in convert("string", "x" * 20_000_001)[0][1]


@given(st.data())
def test_every_valid_record_has_a_java_form_that_keeps_all_other_values(data: st.DataObject) -> None:
    type_ = data.draw(RECORD_TYPES)
    value = data.draw(values(type_))
    losses: list[Any] = []
    result = JavaForm(type_, {}).convert(value, lambda path, why: losses.append((path, why)))
    assert losses == []
    _compare(type_, value, result)


def _compare(type_: FieldType, before: Any, after: Any) -> None:
    if before is None:
        assert after is None
    elif type_.kind == "struct":
        assert list(after) == list(before)
        fields = {f.name: f.type for f in type_.fields}
        for name, item in before.items():
            _compare(fields[name], item, after[name])
    elif type_.kind == "list":
        assert type_.item is not None
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            _compare(type_.item, one, other)
    elif type_.kind in ("date", "timestamp", "timestamp_ntz"):
        assert isinstance(after, int)
    else:
        assert after == before
        assert type(after) is type(before)
