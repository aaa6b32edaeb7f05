"""The exit statuses of `callsheet`. Scripts rely on them, so their numbers never change."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.diagnostics import Diagnostic

_REFUSALS = frozenset(
    {"TOL020", "TOL021", "POL007", "POL010", *(f"POL{number}" for number in range(101, 122))}
)
"""The codes of refusals by a policy or by trust, which are not errors of the plan."""


class Exit(IntEnum):
    """The exit statuses, documented in `docs/cli.md`."""

    OK = 0
    """Success."""
    FAILED = 1
    """The plan failed, or the check found a problem."""
    WRONG = 2
    """The plan, the configuration or the command line is invalid; nothing was executed."""
    REFUSED = 3
    """A policy refused the plan."""
    UNDECIDED = 4
    """The run needs a decision of a person before it can continue."""
    BUG = 70
    """An internal error of callsheet."""
    HUNG_UP = 129
    """SIGHUP: the terminal was closed; handled like Ctrl-C."""
    INTERRUPTED = 130
    """Ctrl-C; an interrupted run can be resumed."""
    TERMINATED = 143
    """SIGTERM; handled like Ctrl-C."""


def exit_for_diagnostics(diagnostics: Iterable[Diagnostic]) -> Exit:
    """The exit status for diagnostics: `REFUSED` only if there is no other error."""
    errors = {d.code for d in diagnostics if d.is_error}
    if not errors:
        return Exit.OK
    return Exit.REFUSED if errors <= _REFUSALS else Exit.WRONG
