"""The exit statuses of `callsheet`; scripts rely on them, so a number never changes."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callsheet.diagnostics import Diagnostic

_REFUSALS = frozenset(
    {"TOL020", "TOL021", "POL007", "POL010", *(f"POL{number}" for number in range(101, 121))}
)
"""What a policy says, and not the language."""


class Exit(IntEnum):
    """The exit statuses, as `docs/cli.md` documents them."""

    OK = 0
    """Done."""
    FAILED = 1
    """The plan failed, or what was asked about is not in order."""
    WRONG = 2
    """The plan, the configuration or the command line is wrong; nothing was run."""
    REFUSED = 3
    """A policy refused the plan."""
    UNDECIDED = 4
    """The run needs a person's decision before it can go on."""
    BUG = 70
    """callsheet itself is broken."""
    HUNG_UP = 129
    """SIGHUP, as Ctrl-C: the terminal was closed."""
    INTERRUPTED = 130
    """Ctrl-C; a run that was going on can be resumed."""
    TERMINATED = 143
    """SIGTERM, as Ctrl-C."""


def exit_for_diagnostics(diagnostics: Iterable[Diagnostic]) -> Exit:
    """The status for what was found: refused only if nothing else is wrong."""
    errors = {d.code for d in diagnostics if d.is_error}
    if not errors:
        return Exit.OK
    return Exit.REFUSED if errors <= _REFUSALS else Exit.WRONG
