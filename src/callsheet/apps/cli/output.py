"""What all commands print alike: diagnostics, JSON, times and short values.

Results go to standard output, everything said about them to standard error.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import click

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, render_all, to_json
from callsheet.views.columns import json_head


def print_json(value: object) -> None:
    """One JSON value on standard output; characters that a terminal would obey are escaped in it."""
    text = _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", _laid_out(value))
    click.echo(text.encode("utf-8", "backslashreplace"))


def _laid_out(value: object) -> str:
    """A value as JSON of many lines; the items of an object's long lists have one each, which is faster."""
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    many = {name: items for name, item in fields.items() if len(items := _items(item)) > _MANY}
    if not many:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    said: list[str] = []
    for name, item in fields.items():
        if name in many:
            lines = ",\n    ".join([_on_a_line(each) for each in many[name]])
            text = f"[\n    {lines}\n  ]"
        else:
            text = json.dumps(item, ensure_ascii=False, indent=2, default=str).replace("\n", "\n  ")
        said.append(f"  {json.dumps(name, ensure_ascii=False)}: {text}")
    return "{\n" + ",\n".join(said) + "\n}"


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


_on_a_line = json.JSONEncoder(ensure_ascii=False, default=str).encode
_MANY = 1_000
"""Items of a list from which on each has a line."""
_OBEYED = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What JSON leaves as it is, and a terminal may not: C1 controls, and what turns the order of text."""


def exact(value: object) -> str:
    """A value as JSON on one line, whole; what a terminal would obey is escaped.

    >>> exact({"to": "a\\x1b[2K", "x": "\\u202e"})
    '{"to": "a\\\\u001b[2K", "x": "\\\\u202e"}'
    """
    text = json.dumps(value, ensure_ascii=False, default=str)
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_text(text: str) -> None:
    """A text on standard output as it is; what a terminal would obey is left out where one shows it."""
    shown = without_controls(text) if sys.stdout is not None and sys.stdout.isatty() else text
    click.echo(shown.encode("utf-8", "backslashreplace"))


_CONTROLS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # a command, such as a colour
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # one with a text
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # the last ones turn the order of text
)


def without_controls(text: str) -> str:
    """The text without escape sequences, control characters and what turns its order; lines and tabs stay.

    >>> without_controls("\\x1b[31mred\\x1b[0m\\r\\n\\x1b]0;title\\x07end\\x08")
    'red\\nend'
    """
    return _CONTROLS.sub("", text)


def say(text: str) -> None:
    """A text on standard error; nothing depends on whether anybody can read it."""
    with suppress(OSError):
        click.echo(text, err=True)


@contextmanager
def may_stay_unread() -> Generator[None]:
    """Print what a reader may leave unread, as `head` does; the rest is then left out."""
    try:
        yield
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Send to nowhere what standard output still holds, so that the end of the process does not fail."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def was_printing(error: OSError) -> bool:
    """Whether an error came about while something was printed."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is click.echo.__code__:
            return True
        trace = trace.tb_next
    return False


def print_error(error: CallsheetError, *, as_json: bool) -> None:
    """What ended a command: text on standard error, or a JSON object on standard output."""
    if as_json:
        print_json({"ok": False, "diagnostics": to_json(error.diagnostics, error.source)})
    else:
        say(render_all(error.diagnostics, error.source))


def print_diagnostics(diagnostics: Sequence[Diagnostic], source: Source | None) -> None:
    """Findings as text on standard error."""
    if diagnostics:
        say(render_all(diagnostics, source))


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
        text = json_head(value, 16 * limit, compact=True)[: 16 * limit]
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
