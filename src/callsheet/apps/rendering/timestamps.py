"""Formats times, always in UTC: as ISO 8601 for programs, and for people."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(moment: float) -> str:
    """A wall time in seconds since 1970 as ISO 8601, in UTC.

    >>> iso(0.5)
    '1970-01-01T00:00:00.500+00:00'
    """
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def utc(moment: float | str) -> str:
    """A wall time in seconds since 1970, or in ISO 8601, as people read it: in UTC.

    >>> utc(0.5), utc(iso(0.5))
    ('1970-01-01 00:00:00 UTC', '1970-01-01 00:00:00 UTC')
    """
    if isinstance(moment, str):
        date = datetime.fromisoformat(moment).astimezone(UTC)
    else:
        date = datetime.fromtimestamp(moment, UTC)
    return f"{date:%Y-%m-%d %H:%M:%S} UTC"
