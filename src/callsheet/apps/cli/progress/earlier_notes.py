"""Keeps the last note of each step from before a run is watched, for displays that start in the middle.

Pure. A new plan may reuse the ids of the old one for other steps, so its notes come after the old ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from callsheet.machine.notes import Note, NoteKind

NEW_PLAN = ""
"""The key of the note that tells of a new plan; those behind it are of its steps."""


def record_note(notes: dict[str, Note], note: Note) -> None:
    """Take a note in: the last one of each step stays, in the order in which they came.

    >>> notes = [("S1", "finished"), ("S2", "started"), ("S2", "replanned"), ("S1", "finished")]
    >>> kept: dict[str, Note] = {}
    >>> for step, kind in notes:
    ...     record_note(kept, Note(NoteKind(kind), step))
    >>> [*kept], has_new_plan(kept.values())
    (['', 'S1'], True)
    """
    if note.kind in (NoteKind.CUT, NoteKind.FACT):
        return
    notes.pop(note.step, None)
    if note.kind is NoteKind.REPLANNED:
        notes.pop(NEW_PLAN, None)
        notes[NEW_PLAN] = note
    elif note.step:
        notes[note.step] = note


def has_new_plan(notes: Iterable[Note]) -> bool:
    """Whether another plan has taken the place of the first one."""
    return any(note.kind is NoteKind.REPLANNED for note in notes)
