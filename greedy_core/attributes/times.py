"""Moments: whole microseconds since 1970 in UTC, and their text in ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# The years 1 to 9999, which is what a date can be written in.
EARLIEST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
LATEST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})?)?", re.ASCII)


def read_time(text: str) -> int | None:
    """Return the moment that an ISO 8601 text names, None for any other text.

    A date is its first moment; a time without a zone is in UTC.
    """
    if _ISO.fullmatch(text) is None:
        return None
    try:
        return microseconds(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        return None


def write_time(moment: int) -> str:
    """Return a moment in ISO 8601, in UTC: what `read_time` reads."""
    return (EPOCH + timedelta(microseconds=moment)).isoformat().replace("+00:00", "Z")


def microseconds(moment: date) -> int:
    """Return a date or a datetime as microseconds since 1970; without a zone it is in UTC."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    elif moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // _MICROSECOND
