"""Progress as lines for logs and programs: one line per event of a step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from time import monotonic, time

import click

from callsheet import lazy
from callsheet.apps.cli.progress.call_news import CallNews, LineThrottle, line_text, news_data
from callsheet.apps.rendering.values import format_seconds, preview
from callsheet.ir import Order, Plan
from callsheet.machine.notes import CallPlace, Note, NoteKind, StepOutcome
from callsheet.machine.result import Status
from callsheet.views.describe import LTP, ActionTexts, Wording

_APPROVAL = lazy.pattern(r"^(may (?:the answer of )?)@([A-Z]\w*)(?= be )")
"""How a note about a question whether a call may be made begins."""
_KEPT = "kept: "
"""How the fact about a call begins that was not made, as an earlier run has made it (`kept_calls.REMARK`)."""
NEW_PLAN = ""
"""The key of the note about a new plan; later notes belong to its steps."""


def record_note(notes: dict[str, Note], note: Note) -> None:
    """Record a note: the last one of each step is kept, in order of arrival.

    >>> notes = [("S1", "finished"), ("S2", "started"), ("S2", "replanned"), ("S1", "finished")]
    >>> last: dict[str, Note] = {}
    >>> for step, kind in notes:
    ...     record_note(last, Note(NoteKind(kind), step))
    >>> [*last], has_new_plan(last.values())
    (['', 'S1'], True)
    """
    if note.kind.is_remark:
        return
    notes.pop(note.step, None)
    if note.kind is NoteKind.REPLANNED:
        notes.pop(NEW_PLAN, None)
        notes[NEW_PLAN] = note
    elif note.step:
        notes[note.step] = note


def has_new_plan(notes: Iterable[Note]) -> bool:
    """Whether a new plan has replaced the first one."""
    return any(note.kind is NoteKind.REPLANNED for note in notes)


def label_of(note: Note) -> str | None:
    """The label of a note on a line; None if the note is not shown.

    >>> label_of(Note(NoteKind.FINISHED, "S1")), label_of(Note(NoteKind.FACT, "S1"))
    ('ok', None)
    """
    return (note.kind.label or None) if note.outcome is None else str(note.outcome)


def message_of(note: Note, words: Wording = LTP) -> str:
    """The message of a note: which call it is about, and the variable and its value, or the reason."""
    return ": ".join(filter(None, (note.at.describe() if note.at is not None else "", _said(note, words))))


def action_of(note: Note, action: str) -> str:
    """The action of a step that starts, with the number of its items."""
    return action if note.at is None else f"{action}, {note.at.describe() or '0 items'}"


def place_data(note: Note) -> dict[str, int]:
    """Which call of its step a note is about, as JSON data, the item from 0; empty if there is only one."""
    at = note.at
    if at is None:
        return {}
    items = {"items": at.items} if at.items else {}
    if at.item == 0 and at.items:
        return {**items}
    item = {"item": at.item - 1} if at.item else {}
    return {**item, **items, "attempt": at.attempt, "attempts": at.attempts}


def _said(note: Note, words: Wording) -> str:
    if note.var is not None and note.kind in (NoteKind.FINISHED, NoteKind.EDITED):
        set_to = f"{words.variable(note.var)} = {preview(note.value)}"
        is_stopped = note.outcome is StepOutcome.STOPPED  # the reason of a failure was printed for its item
        return f"{set_to}; {preview(note.detail, 160)}" if is_stopped else set_to
    if note.kind is NoteKind.ASKED and words is not LTP:
        return preview(_APPROVAL.sub(lambda asked: asked[1] + words.tool(asked[2]), note.detail), 160)
    if note.kind is NoteKind.CAST_FAILED:
        return f"{preview(note.value, 40)} is {note.detail}"
    return preview(note.detail, 160)


def ended_steps(done: Mapping[str, Note]) -> int:
    """The number of steps that had ended."""
    return sum(note.kind is NoteKind.BEFORE or note.outcome is not None for note in done.values())


def running_steps(done: Mapping[str, Note]) -> list[str]:
    """The steps that had started and not ended, in the order of their last notes."""
    return [step for step, note in done.items() if step and _is_open(note)]


def _is_open(note: Note) -> bool:
    return note.state is not None and note.state.is_open


def _earlier_progress(done: Mapping[str, Note]) -> str:
    """The progress before the run was resumed."""
    count = ended_steps(done)
    return f"resuming, {count or 'no'} step{'s' if count != 1 else ''} completed"


class PlainLines:
    """Prints a line on standard error for each note: step, label, message, duration."""

    def __init__(self, plan: Plan) -> None:
        self._actions = ActionTexts(plan)
        self._is_graph = plan.order is Order.DAG
        self._throttle = LineThrottle()
        self._since: dict[str, float] = {}
        """The start of each running step, in seconds of the monotonic clock."""
        self._kept: dict[str, str] = {}
        """Which calls the next outcomes are of, by step, where they were not made."""

    def begin(self, done: dict[str, Note]) -> None:
        """Print the earlier progress, if any, and the running steps as started."""
        now = monotonic()
        self._since = dict.fromkeys(running_steps(done), now)
        if done:
            click.echo(_earlier_progress(done), err=True)
        if has_new_plan(done.values()):
            self._forget()
        for step in self._since:
            at = done[step].at
            started = Note(NoteKind.STARTED, step, at=CallPlace(items=at.items) if at and at.items else None)
            action = action_of(started, self._actions.of(step))
            self._print(step, NoteKind.STARTED.label, action, None)

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Print the note."""
        self._follow(note, ago)
        if note.kind is NoteKind.FACT and note.detail.startswith(_KEPT):
            self._kept[note.step] = note.detail
        word = label_of(note)
        if word is not None:
            begins = note.kind in (NoteKind.STARTED, NoteKind.EARLY)
            of = self._actions
            said = action_of(note, of.of(note.step)) if begins else message_of(note, of.words)
            kept = None if begins else self._kept.pop(note.step, None)
            if kept is not None:
                said, took = f"{said}  ({kept})", None
            self._print(note.step, word, said, took)
        if note.kind is NoteKind.REPLANNED:
            self._forget()

    def restart(self) -> None:
        """Do nothing: lines are not drawn again."""

    def call(self, news: CallNews) -> None:
        """Print the news if they are worth a line."""
        if self._throttle.passes(news):
            word, text = line_text(news)
            self._print(news.step, word, text, None)

    def end(self) -> None:
        """Nothing to do."""

    def _follow(self, note: Note, ago: float) -> None:
        """Track the running steps, and print those that the end of the run has stopped.

        A limit that refuses the only call of a step ends the run, and there is no note for the step.
        """
        if note.kind is NoteKind.STARTED:
            self._since.setdefault(note.step, monotonic() - ago)
        elif note.kind.ends_visit:
            self._since.pop(note.step, None)
        elif note.kind is NoteKind.ENDED and note.detail != Status.DONE:
            now = monotonic() - ago
            for step, began in self._since.items():
                self._print(step, "stopped", "", now - began)
            self._since.clear()

    def _print(self, step: str, word: str, message: str, took: float | None) -> None:
        text = f"{step:<5} {word:<8} {message}".rstrip()
        click.echo(text + (f"  ({format_seconds(took)})" if took is not None else ""), err=True)

    def _forget(self) -> None:
        """Steps of the new plan may have the same ids and other actions; those of a graph have new ids."""
        if not self._is_graph:
            self._actions.forget()


class JsonLines:
    """Prints a JSON object per line on standard error: time, event, step and details."""

    def __init__(self) -> None:
        self._throttle = LineThrottle()

    def begin(self, done: dict[str, Note]) -> None:
        """Print the number of steps that had ended, and the running steps."""
        running = running_steps(done)
        self._print({"event": "begin", "done_before": ended_steps(done), "under_way": running})

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Print the note; a value is shortened to a preview."""
        row: dict[str, object] = {"event": str(note.kind), "step": note.step}
        if note.detail:
            row["detail"] = note.detail
        row |= place_data(note)
        if note.kind is NoteKind.FINISHED:
            row |= {"outcome": note.outcome, "var": note.var, "preview": preview(note.value, 200)}
        if took is not None:
            row["seconds"] = round(took, 6)
        self._print(row)

    def restart(self) -> None:
        """Do nothing: lines are not drawn again."""

    def call(self, news: CallNews) -> None:
        """Print the news if they are worth a line."""
        if self._throttle.passes(news):
            self._print(news_data(news))

    def end(self) -> None:
        """Nothing to do."""

    def _print(self, row: dict[str, object]) -> None:
        click.echo(json.dumps({"time": round(time(), 3), **row}), err=True)
