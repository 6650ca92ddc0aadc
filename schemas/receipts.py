"""A shop receipt: merchant, items and what was paid."""

from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field


class Currency(StrEnum):
    """ISO code of the money."""

    EUR = "EUR"
    GBP = "GBP"
    USD = "USD"


class PaymentMethod(StrEnum):
    """How the customer paid."""

    CARD = "card"
    CASH = "cash"
    VOUCHER = "voucher"


Money = Annotated[Decimal, Field(ge=0, max_digits=12, decimal_places=2)]


class Item(BaseModel):
    """One line of the receipt."""

    name: Annotated[str, Field(min_length=1, description="what was bought, as printed")]
    quantity: Annotated[int, Field(ge=1, le=10_000, description="how many")]
    price: Annotated[Money, Field(description="price of one")]


class Receipt(BaseModel):
    """What one receipt says."""

    merchant: Annotated[str, Field(min_length=1, description="name of the shop or company, as printed")]
    date: Annotated[date, Field(description="day of the purchase, YYYY-MM-DD")]
    currency: Annotated[Currency, Field(description="currency of all amounts")]
    items: Annotated[list[Item], Field(max_length=100, description="the lines of the receipt, in its order")]
    total: Annotated[Money, Field(description="amount paid")]
    payment_method: Annotated[PaymentMethod | None, Field(description="how it was paid; null if not stated")]
