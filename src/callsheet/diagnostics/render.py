"""Diagnostics as text for people and as data for machines."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from callsheet import lazy
from callsheet.diagnostics.diagnostic import Diagnostic, Source

_MAX_SHOWN = 160
_PLAIN = lazy.pattern(r"[ -~\n]*")


def _width(text: str) -> int:
    """Columns that a terminal needs for `text` (wide characters need two, marks none)."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _printable(text: str) -> str:
    """The text without control characters, so that a hostile line cannot drive a terminal."""
    if text.isprintable():
        return text
    unknown = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c == " " else " " if c == "\t" else unknown for c in text)


def _excerpt(source: Source, diagnostic: Diagnostic) -> list[str]:
    span = diagnostic.span
    if span is None:
        return []
    line, column = source.position(span.start)
    start, end = source.line_span(line)  # not the line itself: one of megabytes may have thousands of errors
    length = max(1, min(span.end - span.start, end - start - column + 1))
    offset = 0
    if end - start > _MAX_SHOWN:
        offset = max(0, min(column - 1 - _MAX_SHOWN // 3, end - start - _MAX_SHOWN))
        end = start + offset + _MAX_SHOWN
    text = source.text[start + offset : end]
    before = _printable(text[: column - 1 - offset])
    marked = _printable(text[column - 1 - offset : column - 1 - offset + length])
    gutter = str(line)
    return [
        f"  {gutter} | {_printable(text)}",
        f"  {' ' * len(gutter)} | {' ' * _width(before)}{'^' * max(1, _width(marked))}",
    ]


def render(diagnostic: Diagnostic, source: Source | None = None) -> str:
    """One diagnostic as plain text: place, message, source line with caret, help.

    >>> from callsheet.diagnostics import Diagnostic, Severity, Source, Span
    >>> text = Source("p.ltp", "S1: @READ_FILE (path=)")
    >>> print(render(Diagnostic("LTP002", Severity.ERROR, "a value is missing", Span(21, 22)), text))
    p.ltp:1:22: error LTP002: a value is missing
      1 | S1: @READ_FILE (path=)
        |                      ^
    """
    place = ""
    lines: list[str] = []
    if source is not None and diagnostic.span is not None:
        line, column = source.position(diagnostic.span.start)
        place = f"{source.name}:{line}:{column}: "
        lines = _excerpt(source, diagnostic)
    elif diagnostic.step is not None:
        place = f"[{diagnostic.step}] "
    head = f"{place}{diagnostic.severity} {diagnostic.code}: {diagnostic.message}"
    if diagnostic.help:
        help_text = diagnostic.help.replace("\n", "\n    ")
        lines.append(f"  help: {help_text}")
    text = "\n".join([head, *lines])
    return text if text.isascii() and _PLAIN.fullmatch(text) else "\n".join(map(_printable, text.split("\n")))


def render_all(diagnostics: Iterable[Diagnostic], source: Source | None = None) -> str:
    """All diagnostics, in the order of their places, as plain text."""
    ordered = sorted(diagnostics, key=lambda d: d.span.start if d.span else -1)
    return "\n".join(render(d, source) for d in ordered)


def to_json(diagnostics: Sequence[Diagnostic], source: Source | None = None) -> list[dict[str, object]]:
    """The diagnostics as JSON objects, with lines and columns from 1 where there is a source."""
    rows: list[dict[str, object]] = []
    for d in diagnostics:
        row: dict[str, object] = {"code": d.code, "severity": str(d.severity), "message": d.message}
        if d.help:
            row["help"] = d.help
        if d.step:
            row["step"] = d.step
        if d.span is not None and source is not None:
            start, end = source.position(d.span.start), source.position(d.span.end)
            row["source"] = source.name
            row["line"], row["column"] = start
            row["end_line"], row["end_column"] = end
        if d.fix is not None:
            row["fix"] = {
                "title": d.fix.title,
                "edits": [{"start": e.span.start, "end": e.span.end, "text": e.text} for e in d.fix.edits],
            }
        rows.append(row)
    return rows
