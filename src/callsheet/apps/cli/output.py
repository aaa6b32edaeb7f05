"""What all commands print alike: diagnostics, JSON, times and short values.

Results go to standard output, everything said about them to standard error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, render_all, to_json


def print_json(value: object) -> None:
    """One JSON value on standard output."""
    click.echo(
        json.dumps(value, ensure_ascii=False, indent=2, default=str).encode("utf-8", "backslashreplace")
    )


def print_error(error: CallsheetError, *, as_json: bool) -> None:
    """What ended a command: text on standard error, or a JSON object on standard output."""
    if as_json:
        print_json({"ok": False, "diagnostics": to_json(error.diagnostics, error.source)})
    else:
        click.echo(render_all(error.diagnostics, error.source), err=True)


def print_diagnostics(diagnostics: Sequence[Diagnostic], source: Source | None) -> None:
    """Findings as text on standard error."""
    if diagnostics:
        click.echo(render_all(diagnostics, source), err=True)


def count_of(diagnostics: Sequence[Diagnostic]) -> str:
    """How many findings of each severity, in words.

    >>> count_of([Diagnostic("CHK001", Severity.WARNING, "x")])
    '1 warning'
    """
    counts = [(severity, sum(d.severity is severity for d in diagnostics)) for severity in Severity]
    said = [f"{n} {severity}{'s' if n != 1 else ''}" for severity, n in counts if n]
    return ", ".join(said)


def json_rows(diagnostics: Sequence[Diagnostic], source: Source) -> list[dict[str, Any]]:
    """The findings as JSON objects, each with the name of its text."""
    return [{"source": source.name, **row} for row in to_json(diagnostics, source)]


def preview(value: object, limit: int = 60) -> str:
    """A value on one line, cut to `limit` characters; what a terminal could obey is left out.

    >>> preview({"a": [1, 2]}), preview("two\\nlines")
    ('{"a":[1,2]}', 'two lines')
    """
    if isinstance(value, str):
        text = value[: 4 * limit]
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def seconds(duration: float) -> str:
    """A duration for people.

    >>> seconds(0.0034), seconds(2.5), seconds(75), seconds(4000)
    ('3 ms', '2.5 s', '1:15 min', '1:06 h')
    """
    if duration < 1:
        return f"{duration * 1000:.0f} ms"
    if duration < 60:
        return f"{duration:.1f} s"
    if duration < 3600:
        return f"{int(duration // 60)}:{int(duration % 60):02} min"
    return f"{int(duration // 3600)}:{int(duration % 3600 // 60):02} h"
