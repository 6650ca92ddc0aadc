"""A Chinese shop order: customer, items, payment and delivery."""

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field


class Payment(StrEnum):
    """How the customer pays."""

    WECHAT = "微信支付"
    ALIPAY = "支付宝"
    BANK_CARD = "银行卡"
    ON_DELIVERY = "货到付款"


class Item(BaseModel):
    """One line of the order."""

    name: Annotated[str, Field(min_length=1, description="商品名称")]
    quantity: Annotated[int, Field(ge=1, le=10_000, description="数量")]
    price: Annotated[float, Field(ge=0, description="单价(元)")]


class OrderZh(BaseModel):
    """One order of a Chinese shop."""

    order_no: Annotated[str, Field(pattern="^DD[0-9]{11}$", description="订单编号,例如 DD20250101001")]
    customer: Annotated[str, Field(min_length=1, description="客户姓名")]
    phone: Annotated[str | None, Field(pattern="^1[0-9]{10}$", description="客户手机号;没有则为 null")]
    items: Annotated[list[Item], Field(max_length=100, description="商品,按原文顺序")]
    total: Annotated[float, Field(ge=0, description="总金额(元)")]
    payment: Annotated[Payment, Field(description="支付方式")]
    delivery_date: Annotated[date, Field(description="送货日期,YYYY-MM-DD")]
    city: Annotated[str, Field(min_length=1, description="城市")]
    address: Annotated[str, Field(min_length=1, description="街道地址,不含城市")]
