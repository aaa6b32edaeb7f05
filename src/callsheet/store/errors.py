"""The errors of the journal, each with a diagnostic code whose page explains it."""

from __future__ import annotations

from pathlib import Path

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity


class JournalError(CallsheetError):
    """A journal or a run that cannot be used as asked; its diagnostic has a JRN code."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__([Diagnostic(code, Severity.ERROR, message, help=hint)])


class JournalWriteFailed(JournalError):
    """A commit did not reach the disk; its events are kept in memory and a later commit may succeed.

    `reason` is what the operating system or SQLite said.
    """

    def __init__(self, run_id: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            "JRN006",
            f"the journal of run {run_id} could not be written: {reason}",
            hint="free space or repair the disk; nothing is lost while this process lives",
        )


class Fenced(JournalError):
    """Another process has taken over the run; this one must not write it any more."""

    def __init__(self, run_id: str, epoch: int, current: int | None) -> None:
        now = "it is no longer in the journal" if current is None else f"its epoch is {current}"
        super().__init__(
            "JRN005",
            f"run {run_id} was taken over while this process held epoch {epoch}; {now}",
            hint="stop this process; the other one continues the run",
        )


class JournalDisplaced(JournalError):
    """The file of an open journal was removed, renamed or replaced; what is written there would be lost.

    `saved` is a copy of the journal with all events of this process; None if it could not be made, for the
    `reason`. `run_id` is the run that noticed it, `is_replaced` whether another file is at `path` now.
    """

    def __init__(
        self, path: Path, run_id: str, saved: Path | None, reason: str = "", *, is_replaced: bool
    ) -> None:
        what = "was replaced by another file" if is_replaced else "was removed or renamed"
        kept = f"it was saved as {saved}" if saved is not None else f"it could not be saved: {reason}"
        again = f"callsheet resume {run_id} --journal"
        super().__init__(
            "JRN019",
            f"the journal {path} {what} while run {run_id} was going on; {kept}",
            hint="end this process; what the journal had is lost with it"
            if saved is None
            else f"continue with the copy: {again} {saved}"
            if is_replaced
            else f"move it back: mv {saved} {path}; then: {again} {path}",
        )


class NotStorable(JournalError):
    """An event's body is not JSON data (NaN, an infinity, an object, too deep); nothing was appended."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(
            "JRN007",
            f"the {what} event cannot be written to the journal: {reason}",
            hint="pass JSON data: null, true, false, finite numbers, text, lists and objects",
        )


class WrongProcess(JournalError):
    """A handle was used in a process that forked from the one which opened it."""

    def __init__(self, opened_by: int) -> None:
        super().__init__(
            "JRN013",
            f"this journal handle belongs to process {opened_by}; a forked process cannot use it",
            hint="open the journal in the new process",
        )


def closed(path: Path) -> ValueError:
    """The error for using a closed journal; a ValueError, as for Python's files."""
    return ValueError(f"the journal {path} is closed: open it again")


def run_exists(run_id: str) -> JournalError:
    """The error for a second run with the same id."""
    return JournalError(
        "JRN003",
        f"the run {run_id} already exists",
        hint="omit the id to get a new one, or resume that run",
    )


def require_event(seq: int, events: int) -> None:
    """Raise JournalError (JRN041) for an event that a run with so many events does not have."""
    if not 1 <= seq <= events:
        message = f"the run has no event {seq}"
        raise JournalError("JRN041", message, hint=f"its events have the numbers 1 to {events}")


def reason_of(error: Exception) -> str:
    """The message of the operating system or SQLite for a failure."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    name = getattr(error, "sqlite_errorname", None)
    return f"{error} ({name})" if name else str(error)


def damaged(what: str) -> JournalError:
    """The error for a journal that does not contain what was written."""
    return JournalError(
        "JRN012",
        f"the journal is damaged: {what}",
        hint="restore it from a copy, or save its intact part (`callsheet runs salvage`); "
        "for another journal: --journal PATH",
    )
