"""Parses and formats dates; English names whatever the locale, results as ISO 8601."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone

from callsheet.ir import JSON
from callsheet.ports.transforms.work import Fault, Work

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LONGEST = 100
_SECONDS = 86_400


def _any_of(names: tuple[str, ...]) -> str:
    return "|".join(sorted((n for name in names for n in (name, name[:3])), key=len, reverse=True))


_READ = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "[0-9]{1,2}",
    "d": "[0-9]{1,2}",
    "H": "[0-9]{1,2}",
    "I": "[0-9]{1,2}",
    "M": "[0-9]{1,2}",
    "S": "[0-9]{1,2}",
    "f": "[0-9]{1,6}",
    "p": "AM|PM",
    "B": _any_of(_MONTHS),
    "b": _any_of(_MONTHS),
    "A": _any_of(_DAYS),
    "a": _any_of(_DAYS),
    "z": r"Z|[+-][0-9]{2}:?[0-9]{2}",
}
_WRITE: dict[str, Callable[[datetime], str]] = {
    "Y": lambda t: f"{t.year:04}",
    "y": lambda t: f"{t.year % 100:02}",
    "m": lambda t: f"{t.month:02}",
    "d": lambda t: f"{t.day:02}",
    "H": lambda t: f"{t.hour:02}",
    "I": lambda t: f"{(t.hour - 1) % 12 + 1:02}",
    "M": lambda t: f"{t.minute:02}",
    "S": lambda t: f"{t.second:02}",
    "f": lambda t: f"{t.microsecond:06}",
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "B": lambda t: _MONTHS[t.month - 1],
    "b": lambda t: _MONTHS[t.month - 1][:3],
    "A": lambda t: _DAYS[t.weekday()],
    "a": lambda t: _DAYS[t.weekday()][:3],
    "z": lambda t: t.strftime("%z"),
    "j": lambda t: f"{t.timetuple().tm_yday:03}",
    "u": lambda t: str(t.isoweekday()),
    "V": lambda t: f"{t.isocalendar().week:02}",
}


def parts_of(pattern: str) -> list[tuple[str, str]]:
    """A format as pairs of a directive (empty for none) and literal text; raises Fault."""
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        if pattern[at] != "%":
            end = pattern.find("%", at)
            end = len(pattern) if end == -1 else end
            parts.append(("", pattern[at:end]))
            at = end
            continue
        letter = pattern[at + 1 : at + 2]
        if letter == "%":
            parts.append(("", "%"))
        elif letter in _WRITE:
            parts.append((letter, ""))
        else:
            known = " ".join(f"%{name}" for name in _WRITE)
            raise Fault(f"a date format has no %{letter}; there are {known}")
        at += 2
    return parts


def _fields(text: str, pattern: str) -> dict[str, str] | None:
    """The text at each directive of a format; None if the text does not match."""
    fields: dict[str, str] = {}
    at = 0
    for letter, literal in parts_of(pattern):
        if not letter:
            if not text.startswith(literal, at):
                return None
            at += len(literal)
            continue
        if letter not in _READ:
            raise Fault(f"%{letter} is only for writing dates")
        match = re.compile(_READ[letter], re.IGNORECASE | re.ASCII).match(text, at)
        if match is None:
            return None
        fields[letter] = match.group()
        at = match.end()
    return fields if at == len(text) else None


def _month(fields: dict[str, str]) -> int:
    name = fields.get("B", fields.get("b"))
    if name is None:
        return int(fields.get("m", "1"))
    return next(i for i, month in enumerate(_MONTHS, 1) if month.lower().startswith(name.lower()))


def _hour(fields: dict[str, str]) -> int:
    if "I" not in fields:
        return int(fields.get("H", "0"))
    hour = int(fields["I"])
    if not 1 <= hour <= 12:
        raise ValueError(hour)
    return hour % 12 + (12 if fields.get("p", "").upper() == "PM" else 0)


def _zone(fields: dict[str, str]) -> timezone | None:
    zone_text = fields.get("z")
    if zone_text is None or zone_text in ("Z", "z"):
        return None if zone_text is None else UTC
    digits = zone_text.replace(":", "")
    offset = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:5]))
    return timezone(-offset if zone_text[0] == "-" else offset)


def _read_by(text: str, pattern: str) -> date | None:
    fields = _fields(text, pattern)
    if fields is None:
        return None
    year = int(fields["Y"]) if "Y" in fields else int(fields.get("y", "0"))
    if "Y" not in fields:
        year += 2000 if year < 69 else 1900
    day = date(year, _month(fields), int(fields.get("d", "1")))
    if not fields.keys() & set("HIMSfz"):
        return day
    fraction = int(fields.get("f", "0").ljust(6, "0"))
    minute, second = int(fields.get("M", "0")), int(fields.get("S", "0"))
    return datetime(day.year, day.month, day.day, _hour(fields), minute, second, fraction, _zone(fields))


def _read_iso(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text)


def read_date(value: JSON, pattern: str | None = None) -> date | None:
    """The date or datetime in a text (or in seconds since 1970); None if there is none."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC) if math.isfinite(value) else None
        text = value.strip() if isinstance(value, str) and len(value) <= _LONGEST else ""
        return _read_iso(text) if pattern is None else _read_by(text, pattern)
    except (ValueError, OverflowError, OSError):
        return None


def parse_date(work: Work, value: JSON, pattern: str | None = None) -> JSON:
    """A date as ISO 8601 text, null if it cannot be parsed."""
    work.charge_text(len(pattern or ""))
    parsed = read_date(value, pattern)
    return None if parsed is None else parsed.isoformat()


def format_date(work: Work, value: JSON, pattern: str) -> JSON:
    """A date in another format, null if it cannot be parsed."""
    work.charge_text(len(pattern) * 4)
    parts = parts_of(pattern)
    parsed = read_date(value)
    if parsed is None:
        return None
    moment = parsed if isinstance(parsed, datetime) else datetime(parsed.year, parsed.month, parsed.day)
    return "".join(literal or _WRITE[letter](moment) for letter, literal in parts)


def days_between(work: Work, first: JSON, second: JSON) -> JSON:
    """The days from the first date to the second, with fraction; null unless both are dates."""
    work.charge(1)
    start, end = read_date(first), read_date(second)
    if start is None or end is None:
        return None
    between = _moment(end) - _moment(start)
    return between.days if not between.seconds | between.microseconds else between.total_seconds() / _SECONDS


def add_days(work: Work, value: JSON, days: float) -> JSON:
    """The date `days` later, null if it cannot be parsed."""
    work.charge(1)
    start = read_date(value)
    if start is None:
        return None
    if not isinstance(start, datetime) and days != int(days):
        raise Fault("a date without a time moves by whole days")
    try:
        return (start + timedelta(days=days)).isoformat()
    except OverflowError:
        raise Fault("that is a date outside the years 1 to 9999") from None


def _moment(value: date) -> datetime:
    """The moment in UTC; a date means midnight, a time without a zone is taken as UTC."""
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise Fault("that is a date outside the years 1 to 9999") from None
