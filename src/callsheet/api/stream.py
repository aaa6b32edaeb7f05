"""Turns the machine's notes into the event stream of a run, without making the run wait for its reader.

In: notes from the driver, held back until the journal contains what they report. Out: events, each once, in
order. Unread events are kept as notes, which refer to the run's own values: a few for each executed step and
each attempt of a call, so the run's limits bound them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from copy import deepcopy
from typing import NamedTuple, TypedDict, assert_never

from callsheet.api.events import (
    CallInDoubt,
    CastFailed,
    PersonAnswered,
    PersonAsked,
    Replanned,
    RunEnded,
    RunEvent,
    StepDiverted,
    StepFailed,
    StepFinished,
    StepRemarked,
    StepRetrying,
    StepSkipped,
    StepStarted,
    StepTurned,
    VariableEdited,
)
from callsheet.api.result import RunResult
from callsheet.ir import Plan, word_of
from callsheet.machine.keys import parse_key
from callsheet.machine.notes import Note, NoteKind
from callsheet.sealing.masking import MaskedFields, masked

_VALUES = frozenset({"value", "error", "text", "reason", "detail"})


class _NumberedNote(NamedTuple):
    """A note with its number and the step's action at that time."""

    number: int
    note: Note
    action: str
    replayed: bool


class EventStream:
    """The events of one run: the driver puts notes in, a reader takes events out."""

    def __init__(self, run_id: str, plan: Plan | None, *, replays: bool = False) -> None:
        self._run_id = run_id
        self._actions = {} if plan is None else actions_of(plan)
        self._new_plans: dict[tuple[int, str], Plan] = {}
        """By the number of earlier re-plans and the step that asked."""
        self._generation = 0
        self._replays = replays
        self._count = 0
        self._pending_notes: list[_NumberedNote] = []
        self._ready: deque[_NumberedNote | RunEvent] = deque()
        self._is_closed = False
        self._more = asyncio.Event()
        self.hides: MaskedFields | None = None
        """The secrets that the `repr` of the events masks."""

    # ------------------------------------------------------------ the run's side

    def begin_from(self, plan: Plan, new_plans: Iterable[tuple[str, Plan]]) -> None:
        """Set the plan of a resumed run and the plans of its re-plans, by their keys."""
        self._actions = actions_of(plan)
        for key, new in new_plans:
            self.compiled(key, new)

    def compiled(self, key: str, plan: Plan) -> None:
        """Register the plan made for the re-plan with this key; it takes effect with its `REPLANNED` note."""
        parsed_key = parse_key(key)
        self._new_plans[parsed_key.generation, parsed_key.step] = plan

    def end_replay(self) -> None:
        """Stop marking events as replayed: from now on they are new."""
        self._replays = False

    def note(self, note: Note) -> None:
        """Queue a note, to be released by the next `release`."""
        if note.kind is NoteKind.SETTLED:
            return  # the end of the step is told when its result is stored
        if note.kind is NoteKind.ENDED:
            return  # `end` emits it with the result, once that is in the journal
        action = self._actions.get(note.step, "")
        self._count += 1
        self._pending_notes.append(_NumberedNote(self._count, note, action, self._replays))
        if note.kind is NoteKind.REPLANNED:
            plan = self._new_plans.get((self._generation, note.step))
            self._actions = {} if plan is None else actions_of(plan)
            self._generation += 1

    async def release(self) -> None:
        """Release the queued notes; called when the journal contains what they report."""
        self._let_through()

    def end(self, result: RunResult) -> None:
        """Emit the calls in doubt and the final event, and close the stream."""
        self._let_through()
        for call in result.in_doubt:
            self._count += 1
            doubt = CallInDoubt(
                run_id=self._run_id, number=self._count, step=call.step, action=f"@{call.tool}", call=call
            )
            self._ready.append(doubt if self.hides is None else masked(doubt, self.hides))
        self._count += 1
        self._ready.append(RunEnded(run_id=self._run_id, number=self._count, result=result))
        self.close()

    def close(self) -> None:
        """End the stream: no more events will come."""
        self._is_closed = True
        self._more.set()

    def _let_through(self) -> None:
        if self._pending_notes:
            self._ready.extend(self._pending_notes)
            self._pending_notes.clear()
            self._more.set()

    # ------------------------------------------------------------ the reader's side

    @property
    def has_unread(self) -> bool:
        """Whether released events have not been taken yet."""
        return bool(self._ready)

    async def next(self) -> RunEvent | None:
        """Wait for the next event; None when the stream is closed and all events have been taken."""
        while not self._ready:
            if self._is_closed:
                return None
            self._more.clear()
            await self._more.wait()
        taken = self._ready.popleft()
        if not isinstance(taken, _NumberedNote):
            return taken
        edited = taken.note.kind is NoteKind.EDITED
        event = _edited(self._run_id, taken) if edited else _event(self._run_id, taken)
        if self.hides is None:
            return event
        return masked(event, self.hides._replace(names=_VALUES) if taken.note.is_secret else self.hides)


def actions_of(plan: Plan) -> dict[str, str]:
    """The action word of each step; of two steps with one id the first counts."""
    return {step.id: word_of(step.action) for step in reversed(plan.steps)}


class _StepFields(TypedDict):
    """The fields common to all events of a step."""

    run_id: str
    number: int
    replayed: bool
    step: str
    action: str


def event_of_note(run_id: str, number: int, note: Note, action: str) -> RunEvent | None:
    """A note from the journal as a replayed event; None for one that is about no step."""
    if note.kind in (NoteKind.ENDED, NoteKind.BEFORE, NoteKind.SETTLED):
        return None
    received = _NumberedNote(number, note, action, replayed=True)
    return _edited(run_id, received) if note.kind is NoteKind.EDITED else _event(run_id, received)


def _edited(run_id: str, received: _NumberedNote) -> VariableEdited:
    """The event for an edited variable."""
    number, note, _, replayed = received
    variable, value = note.var or "", deepcopy(note.value)
    return VariableEdited(run_id=run_id, number=number, replayed=replayed, variable=variable, value=value)


def _event(run_id: str, received: _NumberedNote) -> RunEvent:
    """The event for a note; values are copied only here, so that an unread event costs nothing."""
    number, note, action, replayed = received
    kind, step, detail, variable, value, *_ = note
    place: _StepFields = {
        "run_id": run_id,
        "number": number,
        "replayed": replayed,
        "step": step,
        "action": action,
    }
    match kind:
        case NoteKind.STARTED:
            return StepStarted(**place)
        case NoteKind.SKIPPED:
            return StepSkipped(**place, reason=detail)
        case NoteKind.FINISHED:
            failed = note.is_failure
            return StepFinished(**place, variable=variable, value=deepcopy(value), failed=failed)
        case NoteKind.FAILED | NoteKind.RETRYING:
            failed = StepFailed if kind is NoteKind.FAILED else StepRetrying
            at = note.at
            item, attempt = (None, 1) if at is None else (at.item - 1 if at.item else None, at.attempt)
            return failed(**place, error=detail, item=item, attempt=attempt)
        case NoteKind.TURN:
            return StepTurned(**place, text=detail)
        case NoteKind.JUMPED:
            return StepDiverted(**place, target=detail)
        case NoteKind.CAST_FAILED:
            return CastFailed(**place, reason=detail, value=deepcopy(value))
        case NoteKind.CUT | NoteKind.EMPTY | NoteKind.FACT | NoteKind.EARLY:
            return StepRemarked(**place, text=detail, is_cut=kind is NoteKind.CUT)
        case NoteKind.REPLANNED:
            return Replanned(**place, detail=detail)
        case NoteKind.ASKED | NoteKind.ANSWERED:
            event_type = PersonAsked if kind is NoteKind.ASKED else PersonAnswered
            return event_type(**place, text=detail)
        case NoteKind.ENDED | NoteKind.BEFORE | NoteKind.EDITED | NoteKind.SETTLED:
            raise ValueError("the end of a run is told with its result, and the past by its own notes")
    assert_never(kind)
