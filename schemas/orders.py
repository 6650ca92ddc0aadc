"""A customer's account with the orders placed on it, as customer letters, chats and exports give it."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field


class Order(BaseModel):
    """One order of the customer."""

    order_id: Annotated[str, Field(min_length=1, description="order number, exactly as written, e.g. ORD-10077")]
    amount: Annotated[float, Field(gt=0, description="what the order cost, a number without currency sign")]
    timestamp: Annotated[
        datetime, Field(description="when the order was placed, ISO date-time text, e.g. 2025-06-01T12:30:00Z")
    ]


class Address(BaseModel):
    """Where the orders go."""

    city: Annotated[str, Field(min_length=1, description="city only")]
    street: Annotated[str, Field(min_length=1, description="street with house number, without the city")]


class CustomerOrders(BaseModel):
    """All orders that a document names for one customer."""

    user_id: Annotated[str, Field(min_length=1, description="account, user or membership number of the customer")]
    order_count: Annotated[int, Field(ge=0, le=1000, description="how many orders there are")]
    orders: Annotated[list[Order], Field(max_length=50, description="the orders in the order of the document")]
    address: Annotated[Address, Field(description="delivery address")]
