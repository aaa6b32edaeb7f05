"""The heading of a live display: the run, its progress and its running time.

Input: the notes of a run. Output: one line of text, no wider than the screen.
"""

from __future__ import annotations

from collections import Counter
from time import monotonic

from rich.text import Text

from callsheet.apps.cli.progress.open_calls import is_of_item
from callsheet.apps.rendering.values import format_seconds
from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind, StepOutcome
from callsheet.views.columns import cut, printable

_RUNNING = frozenset({NoteKind.EARLY, NoteKind.STARTED, NoteKind.RETRYING, NoteKind.TURN, NoteKind.ANSWERED})
_STATES = {
    **dict.fromkeys(_RUNNING, "running"),
    NoteKind.BEFORE: "done",
    NoteKind.SETTLED: "done",
    NoteKind.ASKED: "waiting for people",
}
_ENDS = {
    StepOutcome.OK: "done",
    StepOutcome.FAILED: "failed",
    StepOutcome.STOPPED: "stopped",
    StepOutcome.SKIPPED: "skipped",
}
_SHOWN = ("done", "running", "waiting for people", "failed", "stopped", "skipped")
_CALLS = frozenset({NoteKind.STARTED, NoteKind.RETRYING})


class Heading:
    """Counts the steps of a run by state."""

    def __init__(self, plan: Plan, run: str = "") -> None:
        self._run = run
        self._states = dict.fromkeys((step.id for step in plan.steps), "")
        self._began: float | None = None
        self._ended: float | None = None
        self._tries = 0
        self._status = ""

    def apply(self, note: Note, ago: float = 0.0) -> None:
        """Count a note that is `ago` seconds old."""
        now = monotonic() - ago
        self._began = now if self._began is None else self._began
        self._tries += note.kind in _CALLS
        if note.kind is NoteKind.ENDED:
            self._ended, self._status = now, note.detail
            running = [step for step, word in self._states.items() if word == "running"]
            self._states.update(dict.fromkeys(running, "stopped"))
        if is_of_item(note):
            return
        state = _ENDS.get(note.outcome) if note.outcome is not None else _STATES.get(note.kind)
        if state is not None and note.step:
            self._states[note.step] = state

    def line(self, columns: int) -> Text:
        """The current heading."""
        counts = Counter([*self._states.values()])
        texts = [f"{counts[word]} {word}" for word in _SHOWN if counts[word]]
        steps = f"{len(self._states)} step{'' if len(self._states) == 1 else 's'}"
        parts = [f"run {printable(self._run)}" if self._run else "", self._status]
        parts.append(f"{steps}: {', '.join(texts)}" if texts else steps)
        if self._began is not None:
            until = monotonic() if self._ended is None else self._ended
            parts.append(format_seconds(max(0.0, until - self._began)))
        return Text(cut(" · ".join(filter(None, parts)), columns), "bold", no_wrap=True, overflow="crop")
