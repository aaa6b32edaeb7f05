"""The marks that show a step's progress at the beginning of its line."""

from __future__ import annotations

from enum import StrEnum


class StepStatus(StrEnum):
    """The progress of a step."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


_MARKS = {
    StepStatus.PENDING: ("○", ""),
    StepStatus.RUNNING: ("◉", "36"),
    StepStatus.DONE: ("●", "32"),
    StepStatus.FAILED: ("✗", "31"),
    StepStatus.SKIPPED: ("–", "2"),
}
_STATUSES = frozenset(str(status) for status in StepStatus)


def mark_of(status: str, ansi: bool) -> str:
    """Returns the mark of a status, coloured if `ansi`; an unknown status has the mark of a pending step."""
    mark, colour = _MARKS[StepStatus(status) if status in _STATUSES else StepStatus.PENDING]
    return f"\x1b[{colour}m{mark}\x1b[0m" if ansi and colour else mark
