"""Keeps the last note of each step before a display starts, for displays that start in the middle of a run.

Pure. A new plan may reuse step ids of the old one, so its notes follow the old ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from callsheet.machine.notes import Note, NoteKind

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
    if note.kind in (NoteKind.CUT, NoteKind.EMPTY, NoteKind.FACT):
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
