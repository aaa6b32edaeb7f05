"""The output of all commands: texts, JSON and diagnostics, and the width and colours of the terminal.

For a pipe, a fixed width and no colours are used, the same for all commands.

Results go to standard output, messages about them to standard error.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import click

from callsheet.apps.rendering.values import escape_terminal_text, without_controls
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, render_all, to_json

_PIPED_COLUMNS = 100


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; None is a stream that was closed before the start."""
    return stream is not None and stream.isatty()


def can_redraw(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal on which lines can be drawn again: not one that `TERM` calls dumb."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def reserve_stdin() -> int:
    """Return a descriptor of standard input for the protocol; other code, such as a tool, finds it empty."""
    own, nowhere = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    return own


def reserve_stdout() -> BinaryIO:
    """Return standard output as a stream for the protocol, and redirect it for all other code.

    Other output, such as that of a tool, goes to standard error.
    """
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


def columns(piped: int = _PIPED_COLUMNS) -> int:
    """The width of the terminal, or `piped` for a pipe or a file."""
    if not is_terminal(sys.stdout):
        return piped
    import shutil  # noqa: PLC0415 - costs more than most modules

    return shutil.get_terminal_size().columns


def is_coloured() -> bool:
    """Whether to use colours: on a terminal, unless NO_COLOR is set."""
    return is_terminal(sys.stdout) and "NO_COLOR" not in os.environ


def output_format(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for the options `--format` and `--json`, given to a command as its argument `shape`."""
    from callsheet.apps.rendering.annotations import Format  # noqa: PLC0415 - few commands have the option

    @functools.wraps(command)
    def with_format(*, shape: str, as_json: bool, **values: Any) -> Any:
        if as_json and shape not in (Format.TEXT, Format.JSON):
            raise click.UsageError(f"--json and --format {shape} cannot both be given")
        return command(shape=Format.JSON if as_json else Format(shape), **values)

    decorated = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")(
        with_format
    )
    return click.option(
        "--format",
        "shape",
        type=click.Choice([str(shape) for shape in Format]),
        default=str(Format.TEXT),
        show_default=True,
        help="text for people, json for programs; the others for CI services.",
    )(decorated)


def print_json(value: object) -> None:
    """Print a JSON value on standard output; terminal control characters are escaped."""
    click.echo(escape_terminal_text(_format_json(value)).encode("utf-8", "backslashreplace"))


def _format_json(value: object, margin: str = "") -> str:
    """A value as indented JSON; a long list has one line per item, and so has a long part inside of parts.

    Indenting is a hundred times as slow as writing a line, and a deep value would be mostly its indentation.
    """
    line = _on_a_line(value)
    if len(line) <= _LONG:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str).replace("\n", f"\n{margin}")
    inner = f"{margin}  "
    if isinstance(value, list):
        items = [_on_a_line(item) for item in cast("list[object]", value)]
        return f"[\n{inner}" + f",\n{inner}".join(items) + f"\n{margin}]"
    if isinstance(value, dict) and len(inner) <= _DEEPEST:
        named = cast("dict[str, object]", value)
        members = [f"{_on_a_line(str(name))}: {_format_json(item, inner)}" for name, item in named.items()]
        return f"{{\n{inner}" + f",\n{inner}".join(members) + f"\n{margin}}}"
    return line


MAX_SHOWN = 100
"""The maximum number of printed diagnostics of one text."""
_on_a_line = json.JSONEncoder(ensure_ascii=False, default=str).encode
_LONG = 20_000
"""The number of characters above which a value is not indented as a whole."""
_DEEPEST = 6
"""The margin of the members of an object beyond which a long one is on one line."""


def print_text(text: str, *, nl: bool = True) -> None:
    """Print a text on standard output; on a terminal, control characters are removed."""
    printed = without_controls(text) if is_terminal(sys.stdout) else text
    click.echo(printed.encode("utf-8", "backslashreplace"), nl=nl)


def to_stderr(text: str) -> None:
    """Print a text on standard error; a closed or full stream is ignored."""
    with suppress(OSError):
        click.echo(text, err=True)


def print_report(text: str) -> None:
    """Print a report for a CI service; an empty one is no line."""
    if text:
        print_text(text)


@contextmanager
def ignoring_broken_pipe() -> Generator[None]:
    """Ignore that the reader has closed the pipe, as `head` does; the remaining output is dropped."""
    try:
        yield
    except BrokenPipeError:
        discard_output()


@contextmanager
def writing(path: Path, way_out: str | None = "name a file that can be written") -> Generator[None]:
    """Make of an error in writing a file, or a folder, the diagnostic CFG014 with this way out."""
    try:
        yield
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise CallsheetError.single("CFG014", message, help=way_out) from error


def discard_output(stream: TextIO | None = None) -> None:
    """Redirect a stream, by default standard output, to the null device: flushing it at exit cannot fail."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (stream or sys.stdout).fileno())
        os.close(nowhere)


def raised_while_printing(error: OSError) -> bool:
    """Whether an error was raised while printing."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is click.echo.__code__:
            return True
        trace = trace.tb_next
    return False


def print_error(error: CallsheetError, shape: str = "text") -> None:
    """Print the error that ended a command, in its `--format`: text on standard error, others on output."""
    if shape == "text":
        to_stderr(format_diagnostics(error.diagnostics, error.source))
    elif shape == "json":
        print_json({"ok": False, "diagnostics": to_json(error.diagnostics, error.source)})
    else:
        from callsheet.apps.rendering.annotations import Format, rendered, texts_checked  # noqa: PLC0415 - rare

        found = (error.diagnostics, error.source or Source("-", ""), 0.0)
        print_report(rendered(Format(shape), texts_checked("callsheet", [found])))


def print_diagnostics(diagnostics: Sequence[Diagnostic], source: Source | None) -> None:
    """Print diagnostics as text on standard error."""
    if diagnostics:
        to_stderr(format_diagnostics(diagnostics, source))


def format_diagnostics(diagnostics: Sequence[Diagnostic], source: Source | None) -> str:
    """Diagnostics as text: the `MAX_SHOWN` most severe ones, and the number of the others."""
    order = list(Severity)
    worst = sorted(diagnostics, key=lambda d: (order.index(d.severity), d.span.start if d.span else -1))
    text = render_all(worst[:MAX_SHOWN], source)
    return "\n".join(filter(None, [text, omitted_line(worst[MAX_SHOWN:])]))


def omitted_line(diagnostics: Sequence[Diagnostic]) -> str:
    """The line about diagnostics that are not printed; empty if there are none."""
    return f"… and {count_by_severity(diagnostics)} more; --json lists all" if diagnostics else ""


def count_by_severity(diagnostics: Sequence[Diagnostic]) -> str:
    """The number of diagnostics of each severity, in words.

    >>> count_by_severity([Diagnostic("CHK001", Severity.WARNING, "x")])
    '1 warning'
    """
    counts = [(severity, sum(d.severity is severity for d in diagnostics)) for severity in Severity]
    parts = [f"{n} {severity}{'s' if n != 1 else ''}" for severity, n in counts if n]
    return ", ".join(parts)
