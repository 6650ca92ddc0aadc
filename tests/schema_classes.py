"""A Pydantic class with every type that schemas may use."""

from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, NaiveDatetime, computed_field, field_validator, model_validator


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Everything(BaseModel):
    """One field of each kind."""

    text: Annotated[str, Field(min_length=1, max_length=20)]
    code: Annotated[str, Field(pattern=r"^[A-Z]{2}\d+$")]
    count: Annotated[int, Field(ge=-5, le=500)]
    rate: Annotated[float, Field(gt=0)]
    price: Annotated[Decimal, Field(max_digits=12, decimal_places=2)]
    flag: bool
    day: date
    moment: datetime
    local: NaiveDatetime
    clock: time
    ident: UUID
    colour: Colour
    level: Literal["low", "high"]
    note: str | None = None
    tags: set[str] = set()
    pair: tuple[int, str]
    scores: dict[str, float]
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    given_name: Annotated[str, Field(alias="given-name")]
    blob: bytes = b""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def shout(self) -> str:
        return self.text.upper()

    @field_validator("text")
    @classmethod
    def _tidy(cls, value: str) -> str:
        if value == "forbidden":
            raise ValueError("this word is not allowed")
        return value.strip() or value

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.level == "high" and self.count < 0:
            raise ValueError("a high level needs a count of at least 0")
        return self


class Tree(BaseModel):
    """Contains itself."""

    name: str
    children: list["Tree"] = []


class Endless(BaseModel):
    """Needs itself: no value is ever complete."""

    inner: "Endless"
