"""A schema with every kind of field a consumer may trip over, and records of it that are hard to carry."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, Field

from pipeline.schema import Schema, load_schema
from pipeline.validation import Valid, Validator


class Place(BaseModel):
    city: str
    country: str | None


class Stop(BaseModel):
    place: Place
    arrived: datetime
    delay_minutes: int | None
    remarks: list[str]


class Shipment(BaseModel):
    number: int
    parcels: Annotated[int, Field(json_schema_extra={"x-arrow": "int32"})]
    weight: float
    fragile: bool
    value: Annotated[Decimal, Field(max_digits=20, decimal_places=4)]
    created: datetime
    due: date | None
    codes: list[int]
    stops: list[Stop]
    sender: Place | None
    note: str | None


def _stop(city: str, country: str | None, arrived: str, delay: int | None, remarks: list[str]) -> dict[str, Any]:
    place = {"city": city, "country": country}
    return {"place": place, "arrived": arrived, "delay_minutes": delay, "remarks": remarks}


SHIPMENTS: list[dict[str, Any]] = [
    {
        "number": 9_180_000_000_000, "parcels": 3, "weight": 12.5, "fragile": True, "value": "1234567890.1250",
        "created": "2026-01-02T15:04:05+08:00", "due": "2026-02-28", "codes": [1, -2, 9_223_372_036_854_775_807],
        "stops": [
            _stop("北京", "中国", "2026-01-03T00:00:00Z", None, ["到达", "已签收 \U0001f4e6"]),
            _stop("São Paulo", None, "2026-01-04T23:59:59.123-03:00", 45, []),
        ],
        "sender": {"city": "Köln", "country": "DE"}, "note": 'quotes " \\ and\nline ends\u2028here',
    },
    {
        "number": -9_223_372_036_854_775_808, "parcels": 0, "weight": 1e22, "fragile": False, "value": "0.0001",
        "created": "1969-12-31T23:59:59.999Z", "due": None, "codes": [], "stops": [], "sender": None, "note": None,
    },
    {
        "number": 0, "parcels": -2_147_483_648, "weight": 0.0, "fragile": False, "value": "-5",
        "created": "2024-02-29T12:00:00+00:00", "due": "2024-02-29", "codes": [0],
        "stops": [_stop("X", "", "2024-03-01T00:00:00Z", 0, ["", " ", "null"])],
        "sender": {"city": "", "country": None}, "note": "true",
    },
]  # fmt: skip


@lru_cache(maxsize=1)
def shipment_schema() -> Schema:
    return load_schema(Shipment)


def valid(schema: Schema, value: Any) -> Any:
    """The value as validation hands it to the profiles."""
    outcome = Validator(schema).validate(json.dumps(value))
    assert isinstance(outcome, Valid), outcome
    return outcome.value


@lru_cache(maxsize=1)
def shipments() -> tuple[Any, ...]:
    return tuple(valid(shipment_schema(), value) for value in SHIPMENTS)
