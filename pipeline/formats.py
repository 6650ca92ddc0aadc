"""Checks for the string formats that JSON Schema does not define or leaves loose."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

_LOCAL_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?", re.ASCII)
_LOCAL_DATE_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T(.+)", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}", re.ASCII)
_DURATION = re.compile(r"[-+]?P(?=.)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.ASCII)


def is_time_local(text: str) -> bool:
    """``hh:mm:ss`` with an optional fraction and no zone."""
    return _LOCAL_TIME.fullmatch(text) is not None


def is_date_time_local(text: str) -> bool:
    """``YYYY-MM-DDThh:mm:ss`` without a zone, on a day that exists."""
    match = _LOCAL_DATE_TIME.fullmatch(text)
    if match is None or not is_time_local(match[2]):
        return False
    try:
        datetime.date.fromisoformat(match[1])
    except ValueError:
        return False
    return True


def is_iso_duration(text: str) -> bool:
    """An ISO 8601 duration with an optional sign and an optional fraction of a second, as ``-P1DT2H0.5S``."""
    return _DURATION.fullmatch(text) is not None


def is_base64(text: str) -> bool:
    """Base64 in either alphabet, with its padding or without."""
    bare = text.rstrip("=")
    return _BASE64.fullmatch(text) is not None and len(bare) % 4 != 1


EXTRA_FORMATS: dict[str, Callable[[str], bool]] = {
    "time-local": is_time_local,
    "date-time-local": is_date_time_local,
    "iso-duration": is_iso_duration,
}
FORMAT_EXAMPLES = {
    "date": "a date that exists, as 2024-02-29",
    "date-time": "a date and time with zone, as 2024-02-29T13:45:00Z",
    "date-time-local": "a date and time without zone, as 2024-02-29T13:45:00",
    "time": "a time with zone, as 13:45:00Z",
    "time-local": "a time, as 13:45:00",
    "uuid": "a UUID, as 123e4567-e89b-12d3-a456-426614174000",
    "email": "an e-mail address",
    "uri": "an absolute URI, as https://example.org/x",
    "duration": "an ISO 8601 duration, as P1DT2H",
    "iso-duration": "an ISO 8601 duration, as P1DT2H or PT0.5S",
}
