"""The top-level click group: loads commands on demand, and reports every error.

In: the command line. Out: an exit status. A user's mistake is printed as diagnostics, a bug as
a short message that says how to report it; a traceback is shown only with `--debug`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import click

from callsheet.apps.cli.exit_status import Exit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_EPILOG = (
    "`callsheet COMMAND --help` tells more. Exit status: 0 ok, 1 plan failed, 2 plan or usage wrong,"
    " 3 refused by policy, 4 needs a decision."
)


class CommandEntry(NamedTuple):
    """Where a command is, and what `--help` says of it without loading it."""

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
        """The names of all commands, in the order in which the help shows them."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest names where there is no such command."""
        if args and not args[0].startswith("-") and args[0] not in self._entries:
            from callsheet.apps.cli.error_report import unknown_command  # noqa: PLC0415 - as in `main`

            raise unknown_command(args[0], self._entries, ctx.command_path)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, from the table alone."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self._entries.items():
            sections.setdefault(entry.section, []).append((name, entry.summary))
        width = max(map(len, self._entries))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, without loading them, and the options."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

        commands = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def _escape_unencodable() -> None:
    """Let standard output and error escape characters that their encoding does not have, as in Latin-1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


class RootGroup(LazyCommands):
    """The group of all commands, at which a command line begins and ends."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; that a reader has gone, as `head` does, is no error."""
        from callsheet.apps.config_file import shared_store  # noqa: PLC0415 - not for --help

        try:
            with shared_store():
                return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None and ctx.invoked_subcommand:  # click's parser of options names no command
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
            # click makes an Abort of whatever signal has ended a command, which is its cause
            status = getattr(error.__cause__ or error, "status", Exit.INTERRUPTED)
        except Exception as error:
            from callsheet.apps.cli.error_report import report_error  # noqa: PLC0415 - not where all goes well

            exit_status = report_error(error, as_json="--json" in arguments_before_dashes)
            if exit_status is Exit.BUG and "--debug" in arguments_before_dashes:
                raise
            status = exit_status
        if args is None:  # the status stands: Ctrl-C could only print a traceback now
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if args is None and "asyncio" in sys.modules:
            from callsheet.apps.cli.event_loop import exit_process  # noqa: PLC0415 - only where something ran

            exit_process(status or 0)
        sys.exit(status or 0)
