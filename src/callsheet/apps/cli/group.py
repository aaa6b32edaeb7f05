"""The top-level click group: loads commands on demand and reports their errors.

Input: the command line. Output: an exit status. A user's mistake is printed as diagnostics. An internal error
is printed as a short message that says how to report it; its traceback is shown only with `--debug`.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import click

from callsheet.apps.cli.exit_status import Exit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_EPILOG = (
    "Run `callsheet COMMAND --help` for details of a command. Exit status: 0 success, 1 failure,"
    " 2 invalid plan or usage, 3 refused by a policy, 4 decision needed."
)


class CommandEntry(NamedTuple):
    """The location of a command, and the summary that `--help` shows without importing it."""

    target: str
    """`module:attribute`."""
    summary: str
    section: str


class LazyCommands(click.Group):
    """A click group whose commands are imported when they are invoked, not before."""

    def __init__(self, *args: Any, entries: Mapping[str, CommandEntry], **options: Any) -> None:
        super().__init__(*args, **{"epilog": _EPILOG, **options})
        self._entries = dict(entries)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now; None if there is none."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click; an unknown command is reported with the nearest names."""
        if args and not args[0].startswith("-") and args[0] not in self._entries:
            from callsheet.apps.cli.error_report import unknown_command  # noqa: PLC0415 - as in `main`

            raise unknown_command(args[0], self._entries, ctx.command_path)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, without importing them."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self._entries.items():
            sections.setdefault(entry.section, []).append((name, entry.summary))
        width = max(map(len, self._entries))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands with this prefix, without importing them, and the options."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

        commands = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def _escape_unencodable() -> None:
    """Escape characters that the encoding of standard output or error lacks, such as Latin-1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _discard_unwritable_stderr() -> None:
    """Drop what a closed or full standard error did not take: Python 3.14 exits with 120 if it remains."""
    with suppress(ValueError, AttributeError):  # there is none, or it is closed
        try:
            sys.stderr.flush()
        except OSError:
            from callsheet.apps.cli import output  # noqa: PLC0415 - not for --help

            output.discard_output(sys.stderr)


class RootGroup(LazyCommands):
    """The group of all commands, where the command line is parsed and errors are reported."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A closed pipe, as behind `head`, is not an error."""
        from callsheet.apps.config_file import store_from_config  # noqa: PLC0415 - not for --help

        try:
            with store_from_config():
                return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None and ctx.invoked_subcommand:  # the option parser of click sets no command
                error.ctx = click.Context(self, parent=ctx, info_name=ctx.invoked_subcommand)
            raise
        except BrokenPipeError as error:
            from callsheet.apps.cli import output  # noqa: PLC0415 - as in `main`

            if not output.raised_while_printing(error):
                raise
            output.discard_output()
            return Exit.OK

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command line and end the process with its exit status."""
        if args is None and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        line = list(sys.argv[1:] if args is None else args)
        _escape_unencodable()
        arguments_before_dashes = line[: line.index("--")] if "--" in line else line
        try:
            status = super().main(
                line, prog_name or "callsheet", complete_var, standalone_mode=False, **extra
            )
        except (click.Abort, KeyboardInterrupt) as error:
            # click raises Abort from the signal's exception, which has the status
            status = getattr(error.__cause__ or error, "status", Exit.INTERRUPTED)
        except Exception as error:
            from callsheet.apps.cli.error_report import report_error  # noqa: PLC0415 - only for errors

            exit_status = report_error(error, _format_in(arguments_before_dashes))
            if exit_status is Exit.BUG and "--debug" in arguments_before_dashes:
                raise
            status = exit_status
        if args is None:  # the status is known: Ctrl-C would only print a traceback
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _discard_unwritable_stderr()
        if args is None and "asyncio" in sys.modules:
            from callsheet.apps.cli.event_loop import exit_process  # noqa: PLC0415 - only where something ran

            exit_process(status or 0)
        sys.exit(status or 0)


def _format_in(arguments: list[str]) -> str:
    """The format in which a command line wants its errors: text, unless it names one that has errors."""
    if "--json" in arguments:
        return "json"
    from callsheet.apps.rendering.annotations import Format  # noqa: PLC0415 - only for errors

    line = "\0".join(("", *arguments, ""))
    found = re.search(rf".*\0--format[=\0]({'|'.join(Format)})\0", line, re.DOTALL)
    return found[1] if found else "text"
