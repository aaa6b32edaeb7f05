"""Progress in lines, for logs and for programs: one for each thing that happens to a step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import time

import click

from callsheet.apps.cli.progress.before import is_replanned
from callsheet.apps.wording.values import preview, seconds
from callsheet.ir import Order, Plan
from callsheet.machine.notes import Note, NoteKind
from callsheet.views.columns import cut
from callsheet.views.describe import describe_action

WORDS: Mapping[NoteKind, str] = {
    NoteKind.EARLY: "early",
    NoteKind.STARTED: "started",
    NoteKind.SKIPPED: "skipped",
    NoteKind.FINISHED: "ok",
    NoteKind.FAILED: "failed",
    NoteKind.RETRYING: "retrying",
    NoteKind.TURN: "works",
    NoteKind.JUMPED: "goes to",
    NoteKind.CAST_FAILED: "warning",
    NoteKind.REPLANNED: "new plan",
    NoteKind.EDITED: "edited",
    NoteKind.CUT: "warning",
    NoteKind.ASKED: "asks",
    NoteKind.ANSWERED: "answer",
}
"""What a note is called on a line; others have none."""


def said_of(note: Note) -> str:
    """What a note says beside its kind: the variable and its value, or why."""
    if note.var is not None and note.kind in (NoteKind.FINISHED, NoteKind.EDITED):
        set_to = f"${note.var} = {preview(note.value)}"
        return f"{set_to}; {preview(note.detail, 160)}" if note.is_cut_off else set_to
    if note.kind is NoteKind.CAST_FAILED:
        return f"{preview(note.value, 40)} is {note.detail}"
    return preview(note.detail, 160)


def ended_steps(done: Mapping[str, Note]) -> int:
    """How many steps had come to an end."""
    ends = (NoteKind.BEFORE, NoteKind.FINISHED, NoteKind.SKIPPED, NoteKind.FAILED)
    return sum(note.kind in ends for note in done.values())


class PlainLines:
    """One line on standard error for each note: step, word, what it says, how long it took."""

    def __init__(self, plan: Plan) -> None:
        self._actions = {step.id: cut(describe_action(step.action), 80) for step in plan.steps}
        self._is_graph = plan.order is Order.DAG

    def begin(self, done: dict[str, Note]) -> None:
        """Say how much was done before, if anything was."""
        if done:
            count = ended_steps(done)
            click.echo(f"{count} step{'s' if count != 1 else ''} done before, going on", err=True)
        if is_replanned(done.values()):
            self._forget()

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Print the note."""
        word = "stopped" if note.is_cut_off else WORDS.get(note.kind)
        if word is not None:
            begins = note.kind in (NoteKind.STARTED, NoteKind.EARLY)
            said = self._actions.get(note.step, "") if begins else said_of(note)
            text = f"{note.step:<5} {word:<8} {said}".rstrip()
            click.echo(text + (f"  ({seconds(took)})" if took is not None else ""), err=True)
        if note.kind is NoteKind.REPLANNED:
            self._forget()

    def end(self) -> None:
        """Nothing is left open."""

    def _forget(self) -> None:
        """The new plan has steps of these ids that do something else; that of a graph has ids of its own."""
        if not self._is_graph:
            self._actions = {}


class JsonLines:
    """One JSON object a line on standard error: time, event, step, and what there is to say."""

    def begin(self, done: dict[str, Note]) -> None:
        """Say how many steps had ended before."""
        self._print({"event": "begin", "done_before": ended_steps(done)})

    def show(self, note: Note, took: float | None, ago: float = 0.0) -> None:
        """Print the note; a value is cut to a preview."""
        row: dict[str, object] = {"event": str(note.kind), "step": note.step}
        if note.detail:
            row["detail"] = note.detail
        if note.kind is NoteKind.FINISHED:
            row |= {"var": note.var, "preview": preview(note.value, 200)}
        if took is not None:
            row["seconds"] = round(took, 6)
        self._print(row)

    def end(self) -> None:
        """Nothing is left open."""

    def _print(self, row: dict[str, object]) -> None:
        click.echo(json.dumps({"time": round(time(), 3), **row}), err=True)
