"""Formats times as ISO 8601 text."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(moment: float) -> str:
    """A wall time in seconds since 1970 as ISO 8601, in UTC.

    >>> iso(0.5)
    '1970-01-01T00:00:00.500+00:00'
    """
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
