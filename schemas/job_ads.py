"""A job advertisement: the position, its pay and how to apply."""

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field


class EmploymentType(StrEnum):
    """Kind of employment."""

    FULL_TIME = "full-time"
    PART_TIME = "part-time"
    CONTRACT = "contract"
    INTERNSHIP = "internship"


Salary = Annotated[int, Field(ge=0, le=100_000_000)]


class JobAd(BaseModel):
    """One advertised position; what the advertisement leaves out is null."""

    title: Annotated[str, Field(min_length=1, description="name of the position")]
    company: Annotated[str, Field(min_length=1, description="who is hiring")]
    city: Annotated[str, Field(min_length=1, description="city of the workplace")]
    employment_type: Annotated[EmploymentType, Field(description="kind of employment")]
    salary_min: Annotated[Salary | None, Field(description="lowest pay, a whole number; null if not stated")]
    salary_max: Annotated[Salary | None, Field(description="highest pay, a whole number; null if not stated")]
    currency: Annotated[str | None, Field(pattern="^[A-Z]{3}$", description="currency of the pay, e.g. EUR; or null")]
    skills: Annotated[list[str], Field(max_length=30, description="each skill asked for, as written")]
    apply_by: Annotated[date | None, Field(description="last day to apply, YYYY-MM-DD; null if not stated")]
    contact_email: Annotated[str | None, Field(description="e-mail address for applications; null if not stated")]
