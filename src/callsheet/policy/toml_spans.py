"""Finds the spans of keys in a TOML text, so that diagnostics can point to them.

In: a TOML text. Out: the span of a key by its path, or of the nearest key above it. tomllib does not report
positions; this module only locates keys and never interprets values.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from callsheet.diagnostics import Span

Path: TypeAlias = "tuple[str | int, ...]"

_KEY = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = re.compile(rf"^[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]\]?", re.MULTILINE)
_ENTRY = re.compile(rf"^[ \t]*({_DOTTED})[ \t]*=", re.MULTILINE)
_PART = re.compile(_KEY)


def key_spans(text: str) -> dict[Path, Span]:
    """The span of every key and table header at the start of a line.

    >>> key_spans("a = 1\\n[b.c]\\n'd' = 2\\n")[("b", "c", "d")]
    Span(start=12, end=15)
    """
    spans: dict[Path, Span] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    marks = sorted([*_HEADER.finditer(text), *_ENTRY.finditer(text)], key=lambda match: match.start())
    for match in marks:
        if match.re is _HEADER:
            table = _parts(match[2])
            if match[1] == "[[":
                number = counts.get(table, 0)
                counts[table] = number + 1
                table = (*table, number)
            spans.setdefault(table, Span(match.start(2), match.end(2)))
        else:
            spans.setdefault((*table, *_parts(match[1])), Span(match.start(1), match.end(1)))
    return spans


def place_of(text: str, spans: dict[Path, Span], path: Path) -> Span | None:
    """The span of the key at the path, or of the nearest key above it; keys in inline tables are searched
    for.
    """
    for length in range(len(path), 0, -1):
        span = spans.get(path[:length])
        if span is None:
            below = (found for known, found in spans.items() if known[:length] == path)
            span = next(below, None) if length == len(path) else None
        if span is None:
            continue
        return span if length == len(path) else _within(text, span, str(path[-1]))
    return None


def _within(text: str, span: Span, key: str) -> Span:
    """The span of a key in the inline table after another key; the other key's span if it is not found."""
    following = re.search(r"\n[ \t]*(?:\[|[^\s\[\]{},#=]+[ \t]*=)", text[span.end :])
    end = len(text) if following is None else span.end + following.start()
    match = re.compile(rf"[\"']?{re.escape(key)}[\"']?(?=[ \t]*[=\]\",'}}])").search(text, span.end, end)
    return span if match is None else Span(match.start(), match.end())


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
