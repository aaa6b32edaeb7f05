"""Formats values and durations for people: on one line, exact or cut, without control characters."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

from callsheet import lazy
from callsheet.views.columns import json_head

_TERMINAL_UNSAFE = lazy.pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u2028\u2029\u2800\u3164\ufeff\uffa0"
    "\U000e0000-\U000e0fff]"
)
"""Characters that a terminal or a form may misrender: controls but tabs and ends of lines, bidirectional
controls, separators of lines, and invisible characters.
"""


def escape_terminal_text(text: str) -> str:
    """JSON text with control, bidirectional and invisible characters escaped.

    >>> escape_terminal_text('"\u202e"')
    '"\\\\u202e"'
    """
    return _TERMINAL_UNSAFE.sub(lambda match: _escaped(match[0]), text)


def _escaped(sign: str) -> str:
    units = sign.encode("utf-16-be").hex()  # as in JSON: a surrogate pair for characters beyond 16 bits
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def exact_json(value: object) -> str:
    """A value as complete JSON on one line, with control and invisible characters escaped.

    >>> exact_json({"to": "a\\x1b[2K", "x": "\\u202e"}), exact_json("\\u200b\\U000e0041")
    ('{"to": "a\\\\u001b[2K", "x": "\\\\u202e"}', '"\\\\u200b\\\\udb40\\\\udc41"')
    """
    return escape_terminal_text(json.dumps(value, ensure_ascii=False, default=str))


_CONTROL_SEQUENCES = lazy.pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # a control sequence, such as a colour
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # a string, such as a title
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # and bidirectional ones
)


def without_controls(text: str) -> str:
    """The text without escape sequences, control and bidirectional characters; keeps newlines and tabs.

    >>> without_controls("\\x1b[31mred\\x1b[0m\\r\\n\\x1b]0;title\\x07end\\x08")
    'red\\nend'
    """
    return _CONTROL_SEQUENCES.sub("", text)


def preview(value: object, limit: int = 60) -> str:
    """A value on one line, cut to `limit` characters, with unprintable characters replaced.

    >>> preview({"a": [1, 2]}), preview("two\\nlines")
    ('{"a":[1,2]}', 'two lines')
    """
    if isinstance(value, str):
        text = value[: 4 * limit]
    else:
        text = json_head(value, 16 * limit, compact=True)[: 16 * limit]
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def format_seconds(duration: float) -> str:
    """A duration in seconds as text.

    >>> format_seconds(0.0034), format_seconds(2.5), format_seconds(75), format_seconds(4000)
    ('3 ms', '2.5 s', '1:15 min', '1:06 h')
    """
    if duration < 1:
        return f"{duration * 1000:.0f} ms"
    if duration < 60:
        return f"{duration:.1f} s"
    if duration < 3600:
        return f"{int(duration // 60)}:{int(duration % 60):02} min"
    return f"{int(duration // 3600)}:{int(duration % 3600 // 60):02} h"


def finite(number: float | None) -> float | None:
    """A number that JSON can write; None for the others."""
    return number if number is not None and math.isfinite(number) else None


def format_bytes(number: int) -> str:
    """A number of bytes as text with a unit.

    >>> format_bytes(0), format_bytes(999), format_bytes(4_619), format_bytes(12_345_678)
    ('0 bytes', '999 bytes', '4.6 kB', '12.3 MB')
    """
    if number < 1_000:
        return f"{number} byte{'s' * (number != 1)}"
    return f"{number / 1e3:.1f} kB" if number < 1_000_000 else f"{number / 1e6:,.1f} MB"


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
