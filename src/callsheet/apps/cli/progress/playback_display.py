"""Displays the moments of a recorded run, live as `run` does, or as lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from callsheet.apps.cli.output import print_text, to_stderr
from callsheet.apps.rendering.timestamps import iso
from callsheet.apps.rendering.values import format_seconds, preview

if TYPE_CHECKING:
    from callsheet.apps.cli.progress.progress import Display
    from callsheet.ir import Plan
    from callsheet.machine.notes import Note
    from callsheet.trace.replay import Moment, PlayedNote


class LivePlayback:
    """The live display of `run`, fed from a recording."""

    def __init__(self, plan: Plan, run: str) -> None:
        from callsheet.apps.cli.progress.progress import display_for  # noqa: PLC0415 - not for --help
        from callsheet.apps.cli.progress_mode import ProgressMode  # noqa: PLC0415 - as above

        self._display: Display = display_for(ProgressMode.LIVE, plan, run)
        self._before: dict[str, Note] = {}
        self._answer = ""

    def before(self, moment: Moment) -> None:
        """Record a moment before the first event that is shown."""
        from callsheet.apps.cli.progress.earlier_notes import record_note  # noqa: PLC0415 - not for --help

        for played in moment.notes:
            record_note(self._before, played.note)

    def begin(self) -> None:
        """Start drawing."""
        self._display.begin(self._before)

    def show(self, moment: Moment, _at: float, ago: float = 0.0) -> None:
        """Display a moment that is `ago` seconds old."""
        for played in moment.notes:
            self._display.show(played.note, played.took, ago)
            if played.note.kind == "ended":
                self._answer = _ended(moment)

    def end(self) -> None:
        """Release the terminal, and print how the run ended."""
        self._display.end()
        if self._answer:
            to_stderr(self._answer)


class LinePlayback:
    """Prints a line for each note, with the time since the start of the run."""

    def __init__(self, plan: Plan, *, as_json: bool) -> None:
        from callsheet.ir import Order  # noqa: PLC0415 - not for --help
        from callsheet.views.describe import describe_action  # noqa: PLC0415 - as above

        self._as_json = as_json
        self._actions = {step.id: describe_action(step.action) for step in plan.steps}
        self._is_graph = plan.order is Order.DAG

    def before(self, moment: Moment) -> None:
        """Earlier moments are not shown."""

    def begin(self) -> None:
        """Nothing to do."""

    def show(self, moment: Moment, at: float, _ago: float = 0.0) -> None:
        """Print a moment, `at` seconds after the start of the run."""
        for played in moment.notes:
            if self._as_json:
                print_text(json.dumps(_json(moment, played, at), ensure_ascii=True))
                continue
            line = _line(moment, played, self._actions.get(played.note.step, ""))
            if played.note.kind == "replanned" and not self._is_graph:
                self._actions = {}  # steps of the new plan may have the same ids and other actions
            if line:
                print_text(f"{moment.event.seq:>6}  +{format_seconds(max(0.0, at)):<9}  {line}")

    def end(self) -> None:
        """Nothing to do."""


def _line(moment: Moment, played: PlayedNote, action: str) -> str:
    from callsheet.apps.cli.progress.lines import action_of, label_of, message_of  # noqa: PLC0415 - not for --help

    note = played.note
    if note.kind == "ended":
        return _ended(moment)
    word = label_of(note)
    if word is None:
        return ""
    took = "" if played.took is None else f"  ({format_seconds(played.took)})"
    begins = note.kind in ("started", "early")
    message = action_of(note, preview(action, 100)) if begins else message_of(note)
    return f"{note.step:<5} {word:<8} {message}".rstrip() + took


def _ended(moment: Moment) -> str:
    note = next(played.note for played in moment.notes if played.note.kind == "ended")
    return f"ended: {note.detail}" + (f" at {note.step}" if note.step else "")


def _json(moment: Moment, played: PlayedNote, at: float) -> dict[str, Any]:
    from callsheet.apps.cli.progress.lines import place_data  # noqa: PLC0415 - not for --help

    note, took = played
    row: dict[str, Any] = {
        "seq": moment.event.seq,
        "time": iso(moment.event.ts),
        "at": round(at, 6),
        "event": str(note.kind),
        "step": note.step or None,
    }
    if note.detail:
        row["detail"] = note.detail
    row |= place_data(note)
    if note.kind == "finished":
        row["outcome"] = note.outcome
    if note.var is not None or note.kind == "finished":
        row |= {"var": note.var, "preview": preview(note.value, 200)}
    if took is not None:
        row["seconds"] = round(took, 6)
    return row
