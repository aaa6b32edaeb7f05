"""The marks that show a step's progress at the beginning of its line."""

from __future__ import annotations

from enum import StrEnum


class StepStatus(StrEnum):
    """How far a step is."""

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
    """The mark of a status, coloured if `ansi`; that of a pending step for a word that is none."""
    mark, colour = _MARKS[StepStatus(status) if status in _STATUSES else StepStatus.PENDING]
    return f"\x1b[{colour}m{mark}\x1b[0m" if ansi and colour else mark
