"""Text for people: printable, measured in columns, truncated; which rows a screen shows; labels of charts."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from callsheet import lazy

if TYPE_CHECKING:
    import re

CUT = "…"
_AMBIGUOUS_WIDTH = lazy.pattern(
    "[\u200c\u200d\ufe00-\ufe0f\U000e0020-\U000e007f\U000e0100-\U000e01ef]|(?<=\\S)[\U0001f3fb-\U0001f3ff]"
)
"""Joiners, variation selectors, tags and skin tones: terminals disagree on their width."""
_NOT_ASCII = lazy.pattern(r"[^\x00-\x7f]")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def json_head(value: object, most: int, *, compact: bool = False) -> str:
    """Returns the beginning of a value as JSON, without encoding all of a large value.

    The result has at least `most` characters if the whole JSON text does. It may be longer: encoding stops
    at a part boundary, and a string inside a list or an object is one part. `compact` leaves out the spaces
    after `,` and `:`. Values that JSON does not have are converted with `str`.

    >>> json_head([1, {"a": 2}], 99), len(json_head(["text"] * 10_000, 99)) < 200
    ('[1, {"a": 2}]', True)
    """
    if isinstance(value, str):
        value = value[:most]
    separators = (",", ":") if compact else None
    if not isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=separators, default=str)
    parts: list[str] = []
    length = 0
    encoder = json.JSONEncoder(ensure_ascii=False, separators=separators, default=str)
    for part in encoder.iterencode(value):
        parts.append(part)
        length += len(part)
        if length >= most:
            break
    return "".join(parts)


def printable_lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines made printable, each with its indentation."""
    for line in lines:
        said = line.lstrip(" ")
        yield " " * (len(line) - len(said)) + printable(said)


def printable(text: str) -> str:
    """Returns the text on one line without control characters, so that data cannot control a terminal.

    White space becomes a space, any other unprintable character U+FFFD. Joiners, variation selectors and skin
    tones are removed, since terminals disagree on their width.

    >>> printable("a\\n\\tb\\x1b[1m")
    'a  b\\ufffd[1m'
    """
    if text.isascii() and text.isprintable():
        return text
    text = _AMBIGUOUS_WIDTH.sub("", text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else _REPLACEMENT for c in text)


def escaped(text: str) -> str:
    r"""Returns the text with all unprintable characters escaped, newlines included.

    Unlike `printable`, it gives different results for different texts (backslashes in the text itself are
    not escaped).

    >>> print(escaped("a\n\x1b[1m\u202eb"))
    a\n\u001b[1m\u202eb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _ESCAPES.get(c) or _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """Returns the number of terminal columns of a text: wide characters take two, combining marks none.

    >>> width("abc"), width("日本")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    others = _NOT_ASCII.findall(text)
    return len(text) - len(others) + sum(map(_width_of, others))


@lru_cache(1_000)
def _width_of(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    if "\u1160" <= char <= "\u11ff":  # later parts of a Korean syllable add no column
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, most: int) -> str:
    """Returns the text in at most `most` columns, its end replaced by `…` if it is longer.

    >>> cut("abcdef", 4), cut("abc", 4)
    ('abc…', 'abc')
    """
    length = len(text)
    if length <= most and (text.isascii() or length * 2 <= most):
        return text
    if length < most * 8 and width(text) <= most:
        return text
    if text.isascii():
        return text[: most - 1] + CUT
    pieces: list[str] = []
    room = most - 1
    for char in text:
        room -= _width_of(char)
        if room < 0:
            break
        pieces.append(char)
    return "".join(pieces) + CUT


def fitted(text: str, most: int) -> str:
    """Returns `cut(printable(text), most)`.

    >>> fitted("a\\nbcdef", 5)
    'a bc…'
    """
    if len(text) <= most and text.isascii() and text.isprintable():
        return text
    return cut(printable(text), most)


def pad(text: str, columns: int) -> str:
    """Returns the text followed by spaces, `columns` wide; a wider text is unchanged.

    >>> pad("日", 4) + "|"
    '日  |'
    """
    return text + " " * (columns - width(text))


class Gap(NamedTuple):
    """A number of consecutive rows that are not shown."""

    rows: int


def shown_rows(count: int, room: int, focus: Sequence[int]) -> list[int | Gap]:
    """Returns rows (from 0) and gaps in order, in at most `room` lines (at least 3); a gap takes a line.

    Rows of `focus` are preferred, the first ones most; then those near them.

    >>> shown_rows(9, 5, [4])
    [Gap(rows=3), 3, 4, 5, Gap(rows=3)]
    """
    room = max(room, 3)
    if count <= room:
        return list(range(count))
    chosen: set[int] = set()
    lines = 1  # one gap with all rows
    for row in _by_importance(count, focus, room):
        if row in chosen:
            continue
        beside = (row - 1 in chosen or row == 0) + (row + 1 in chosen or row == count - 1)
        more = 2 - beside  # lines added if it splits a gap (2), narrows it (1) or closes it (0)
        if lines + more <= room:
            lines += more
            chosen.add(row)
    return list(_with_gaps(count, sorted(chosen)))


def _by_importance(count: int, focus: Sequence[int], room: int) -> Iterator[int]:
    """Yields the rows in focus, then those after and before them, nearest first."""
    centres = [row for row in dict.fromkeys(focus) if 0 <= row < count][:room] or [0]
    yield from centres
    for distance in range(1, room + 1):
        for row in centres:
            if row + distance < count:
                yield row + distance
            if row >= distance:
                yield row - distance


def _with_gaps(count: int, chosen: Iterable[int]) -> Iterator[int | Gap]:
    following = 0
    for row in chosen:
        if row > following:
            yield Gap(row - following)
        yield row
        following = row + 1
    if following < count:
        yield Gap(count - following)


# ---------------------------------------------------------------- labels of Mermaid charts

MOST_LABEL = 120
"""The most columns of a label."""
_OF_LABELS = (("#", "#35;"), ('"', "'"), ("`", "#96;"), ("&", "#amp;"), ("\\", "#92;"))
"""Characters that are not allowed in a label, and their replacements; `#` first, since others contain it."""
_TAG_OR_COMMENT = lazy.pattern(r"<(?![ =])|%(?=%)")


def escape_label(text: str) -> str:
    """Returns the text escaped for a quoted label, cut to 120 columns.

    A double quote becomes a single one.

    >>> escape_label('say "a" & <b>')
    "say 'a' #amp; #lt;b>"
    """
    return escape_labels(fitted(text[: MOST_LABEL * 4], MOST_LABEL))


def escape_labels(labels: str) -> str:
    """Returns printable text, of one label or of several on lines of their own, escaped for quoted labels."""
    for special, escape in _OF_LABELS:
        labels = labels.replace(special, escape)
    return _TAG_OR_COMMENT.sub(_escaped_in_label, labels) if "<" in labels or "%" in labels else labels


def _escaped_in_label(match: re.Match[str]) -> str:
    return "#lt;" if match.group() == "<" else "#37;"
