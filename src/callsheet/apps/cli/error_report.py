"""Reports an exception: a user's mistake as diagnostics, a bug with how to report it.

In: whatever a command raised. Out: the exit status, after it has been told. Loaded only then.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable

import click

from callsheet.apps.cli.exit_status import Exit, exit_for_diagnostics
from callsheet.apps.cli.output import (
    discard_output,
    ignoring_broken_pipe,
    print_error,
    raised_while_printing,
    to_stderr,
)
from callsheet.diagnostics import CallsheetError, did_you_mean

_OF_THE_JOURNAL = frozenset(
    {"JRN004", "JRN005", "JRN006", "JRN007", "JRN010", "JRN012", "JRN013", "JRN014", "JRN020"}
)
"""Errors that are not the command line's fault: the disk, the journal or another process."""
_OF_A_COLLECTOR = frozenset({"TRC001", "TRC002"})
_OF_THE_SYSTEM = frozenset({"CFG022"})
_CANTOPEN = 14
"""The code of SQLite for a file that it cannot open, whatever the reason."""
_OF_A_DATABASE = 8
"""How many files the connections to a journal open at most while it is prepared."""


def report_error(error: Exception, *, as_json: bool) -> Exit:
    """Print an error and give the exit status; `Exit.BUG` for what nobody foresaw."""
    if isinstance(error, click.UsageError):
        error = _usage(error)
    if isinstance(error, FileNotFoundError) and _is_working_directory_missing():
        error = CallsheetError.single(
            "CFG021", "the working folder is gone", help="go to a folder that is there: cd"
        )
    if _is_out_of_files(error):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        message = f"too many open files: no more than {limit} may be open at once"
        error = CallsheetError.single("CFG022", message, help="raise the limit: ulimit -n 1024")
    if isinstance(error, CallsheetError):
        try:
            with ignoring_broken_pipe():
                print_error(error, as_json=as_json)
        except OSError as unwritten:
            print_error(error, as_json=False)
            return _report_write_failure(unwritten)
        if error.diagnostics[0].code in _OF_THE_JOURNAL | _OF_A_COLLECTOR | _OF_THE_SYSTEM:
            return Exit.FAILED
        return exit_for_diagnostics(error.diagnostics) or Exit.WRONG
    if isinstance(error, OSError) and raised_while_printing(error):
        return _report_write_failure(error)
    text = " ".join(str(error).split())[:300]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    to_stderr(
        f"callsheet has a bug: {message}\n"
        "  help: report it with what `callsheet doctor` prints and what this command prints after"
        " `callsheet --debug …`; a run that was going on can be resumed"
    )
    return Exit.BUG


def _is_out_of_files(error: BaseException | None) -> bool:
    """Whether an error, or the one that caused it, is that no more files could be opened.

    A failed import says so only in its text. SQLite says that it cannot open a file, and has closed others
    by now, so the count of those that may still be opened decides.
    """
    if error is None:
        return False
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return True
    if isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error):
        return True
    if getattr(error, "sqlite_errorcode", None) == _CANTOPEN and not _can_open(_OF_A_DATABASE):
        return True
    return _is_out_of_files(error.__cause__ or error.__context__)


def _can_open(count: int) -> bool:
    """Whether so many more files may be opened."""
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
    """Whether the working folder has been removed: whatever asks for it raises FileNotFoundError then."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _report_write_failure(error: OSError) -> Exit:
    """Say on standard error that the result could not be written to standard output (CFG018)."""
    discard_output()
    reason = error.strerror or str(error)
    unwritten = CallsheetError.single(
        "CFG018",
        f"the result cannot be written: {reason}",
        help="free space or print to another place; `callsheet show RUN` tells the answer of a run again",
    )
    print_error(unwritten, as_json=False)
    return Exit.FAILED


def unknown_command(name: str, known: Iterable[str], group: str) -> CallsheetError:
    """That there is no such command in the group, with the nearest ones."""
    suggestions = did_you_mean(name, known)
    help_text = (
        f"did you mean {' or '.join(suggestions)}?" if suggestions else f"`{group} --help` lists the commands"
    )
    return CallsheetError.single("CFG010", f"there is no command {name[:40]!r}", help=help_text)


def _usage(error: click.UsageError) -> CallsheetError:
    path = error.ctx.command_path if error.ctx is not None else "callsheet"
    message = error.format_message().rstrip(".")
    return CallsheetError.single(
        "CFG010", message[:1].lower() + message[1:], help=f"`{path} --help` tells how it is used"
    )
