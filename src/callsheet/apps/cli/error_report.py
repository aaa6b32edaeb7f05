"""Reports an exception of a command: user errors as diagnostics, internal errors with instructions.

Input: the exception. Output: the exit status, after printing. Imported only if there is an error.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
from collections.abc import Callable, Iterable
from contextlib import suppress

import click

from callsheet.apps.cli.exit_status import Exit, exit_for_diagnostics
from callsheet.apps.cli.output import (
    discard_output,
    ignoring_broken_pipe,
    print_error,
    raised_while_printing,
    to_stderr,
)
from callsheet.diagnostics import CallsheetError, meant
from callsheet.views.columns import printable_lines

_JOURNAL_CODES = frozenset(
    {"JRN004", "JRN005", "JRN006", "JRN007", "JRN010", "JRN012", "JRN013", "JRN014", "JRN020"}
)
"""Errors that do not come from the command line: the disk, the journal or another process."""
_COLLECTOR_CODES = frozenset({"TRC001", "TRC002"})
_SYSTEM_CODES = frozenset({"CFG022"})
_CANTOPEN = 14
"""SQLITE_CANTOPEN: the file cannot be opened, for any reason."""
_FILES_OF_A_DATABASE = 12
"""The maximum number of files that opening a journal needs."""


def report_error(error: Exception, shape: str) -> Exit:
    """Print an error in a `--format` and return the exit status; `Exit.BUG` for an unexpected exception."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        to_stderr(error.format_message())
        return Exit.WRONG
    if isinstance(error, click.UsageError):
        error = _usage(error)
    if isinstance(error, FileNotFoundError) and _is_working_directory_missing():
        error = CallsheetError.single(
            "CFG021", "the working folder has been deleted", help="change to an existing folder: cd"
        )
    if _is_out_of_files(error):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        message = f"too many open files: no more than {limit} may be open at once"
        error = CallsheetError.single("CFG022", message, help="raise the limit: ulimit -n 1024")
    if isinstance(error, CallsheetError):
        try:
            with ignoring_broken_pipe():
                print_error(error, shape)
        except OSError as unwritten:
            print_error(error)
            return _report_write_failure(unwritten)
        if error.diagnostics[0].code in _JOURNAL_CODES | _COLLECTOR_CODES | _SYSTEM_CODES:
            return Exit.FAILED
        return exit_for_diagnostics(error.diagnostics) or Exit.WRONG
    if isinstance(error, OSError) and raised_while_printing(error):
        return _report_write_failure(error)
    text = " ".join(str(error).split())[:300]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    to_stderr(
        f"internal error: {message}\n"
        "  help: this is a bug in callsheet. Report it with the output of `callsheet doctor` and of this"
        " command as `callsheet --debug …`; an interrupted run can be resumed"
    )
    return Exit.BUG


def _is_out_of_files(error: BaseException | None) -> bool:
    """Whether the error, or its cause, is that no more files can be opened.

    A failed import has this only in its text. SQLite reports that it cannot open a file, and has closed other
    files by then, so the number of files that can still be opened decides.
    """
    if error is None:
        return False
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return True
    if isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error):
        return True
    if getattr(error, "sqlite_errorcode", None) == _CANTOPEN and not _can_open(_FILES_OF_A_DATABASE):
        return True
    return _is_out_of_files(error.__cause__ or error.__context__)


def _can_open(count: int) -> bool:
    """Whether `count` more files can be opened."""
    opened: list[int] = []
    try:
        for _ in range(count):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True


def _is_working_directory_missing() -> bool:
    """Whether the working folder was deleted, so that using it raises FileNotFoundError."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _report_write_failure(error: OSError) -> Exit:
    """Report on standard error that standard output could not be written (CFG018)."""
    discard_output()
    reason = error.strerror or str(error)
    unwritten = CallsheetError.single(
        "CFG018",
        f"the result cannot be written: {reason}",
        help="free space or redirect it; `callsheet show` prints it again, `callsheet runs` has the id",
    )
    print_error(unwritten)
    return Exit.FAILED


def unknown_command(name: str, known: Iterable[str], group: str) -> CallsheetError:
    """An error for an unknown command of a group, with the nearest names."""
    help_text = meant(name, known, f"`{group} --help` lists the commands")
    return CallsheetError.single("CFG010", f"unknown command {name[:40]!r}", help=help_text)


def _usage(error: click.UsageError) -> CallsheetError:
    path = error.ctx.command_path if error.ctx is not None else "callsheet"
    message = error.format_message().rstrip(".")
    return CallsheetError.single("CFG010", message[:1].lower() + message[1:], help=f"see `{path} --help`")


class _ToStderr(logging.Handler):
    """Writes what is logged to standard error, as the command's own messages are."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, made printable line by line."""
        with suppress(Exception):
            for line in printable_lines(record.getMessage().splitlines()):
                click.echo(line, err=True)


def log_tools() -> Callable[[], None]:
    """Print the tracebacks of exceptions in tools to standard error; returns what ends that."""
    logger, handler = logging.getLogger("callsheet.tools"), _ToStderr()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)

    def end() -> None:
        logger.removeHandler(handler)
        logger.setLevel(level)

    return end
