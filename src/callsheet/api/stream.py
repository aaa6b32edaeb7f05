"""From a machine's notes to the events that a reader takes when it likes.

In: notes, as the driver's observer; they are let through when what they tell of is in the
journal. Out: events, each once, in order. The run never waits for a reader. What is not read yet
is kept as the note it came as, which refers to the run's own values: a few notes for each
executed step and each attempt of a call, which the run's limits bound.
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
from callsheet.sealing.veiled import Hides, veil

_VALUES = frozenset({"value", "error", "text", "reason", "detail"})


class _Heard(NamedTuple):
    """A note as it came: with its number and with what the step did then."""

    number: int
    note: Note
    action: str
    replayed: bool


class EventStream:
    """The events of one run; notes go in on one side, a reader takes events on the other."""

    def __init__(self, run_id: str, plan: Plan | None, *, replays: bool = False) -> None:
        self._run_id = run_id
        self._actions = {} if plan is None else actions_of(plan)
        self._new_plans: dict[tuple[int, str], Plan] = {}
        """By how many re-plans there were before and the step that asked."""
        self._generation = 0
        self._replays = replays
        self._count = 0
        self._held: list[_Heard] = []
        self._ready: deque[_Heard | RunEvent] = deque()
        self._is_closed = False
        self._more = asyncio.Event()
        self.hides: Hides | None = None
        """What `repr` of the events masks."""

    # ------------------------------------------------------------ the run's side

    def begin_from(self, plan: Plan, new_plans: Iterable[tuple[str, Plan]]) -> None:
        """Tell of a run that is taken up: its plan, and those that RE-PLANs got, by their keys."""
        self._actions = actions_of(plan)
        for key, new in new_plans:
            self.compiled(key, new)

    def compiled(self, key: str, plan: Plan) -> None:
        """Note the plan that the RE-PLAN of this key got; it counts once the run goes on with it."""
        asked = parse_key(key)
        self._new_plans[asked.generation, asked.step] = plan

    def goes_on(self) -> None:
        """From now on notes tell of what happens, not of what has happened."""
        self._replays = False

    def note(self, note: Note) -> None:
        """Hold a note back until the next `release`."""
        if note.kind is NoteKind.ENDED:
            return  # the end is told with its result, when that is in the journal
        action = self._actions.get(note.step, "")
        self._count += 1
        self._held.append(_Heard(self._count, note, action, self._replays))
        if note.kind is NoteKind.REPLANNED:
            plan = self._new_plans.get((self._generation, note.step))
            self._actions = {} if plan is None else actions_of(plan)
            self._generation += 1

    async def release(self) -> None:
        """Let through what was noted; called when the journal holds it."""
        self._let_through()

    def end(self, result: RunResult) -> None:
        """Tell of the end, or of the calls in doubt."""
        self._let_through()
        for call in result.in_doubt:
            self._count += 1
            doubt = CallInDoubt(
                run_id=self._run_id, number=self._count, step=call.step, action=f"@{call.tool}", call=call
            )
            self._ready.append(doubt if self.hides is None else veil(doubt, self.hides))
        self._count += 1
        self._ready.append(RunEnded(run_id=self._run_id, number=self._count, result=result))
        self.close()

    def close(self) -> None:
        """Nothing more comes."""
        self._is_closed = True
        self._more.set()

    def _let_through(self) -> None:
        if self._held:
            self._ready.extend(self._held)
            self._held.clear()
            self._more.set()

    # ------------------------------------------------------------ the reader's side

    async def next(self) -> RunEvent | None:
        """The next event, as soon as there is one; None when all have been taken and none comes."""
        while not self._ready:
            if self._is_closed:
                return None
            self._more.clear()
            await self._more.wait()
        taken = self._ready.popleft()
        if not isinstance(taken, _Heard):
            return taken
        edited = taken.note.kind is NoteKind.EDITED
        event = _edited(self._run_id, taken) if edited else _event(self._run_id, taken)
        if self.hides is None:
            return event
        return veil(event, self.hides._replace(names=_VALUES) if taken.note.is_secret else self.hides)


def actions_of(plan: Plan) -> dict[str, str]:
    """What each step does; of two steps with one id the first counts."""
    return {step.id: word_of(step.action) for step in reversed(plan.steps)}


class _Place(TypedDict):
    """What all events of a step have."""

    run_id: str
    number: int
    replayed: bool
    step: str
    action: str


def event_of_note(run_id: str, number: int, note: Note, action: str) -> RunEvent | None:
    """What a note of the past tells, as an event; None for one that tells of no step."""
    if note.kind in (NoteKind.ENDED, NoteKind.BEFORE):
        return None
    heard = _Heard(number, note, action, replayed=True)
    return _edited(run_id, heard) if note.kind is NoteKind.EDITED else _event(run_id, heard)


def _edited(run_id: str, heard: _Heard) -> VariableEdited:
    """The event of a variable that was set by hand."""
    number, note, _, replayed = heard
    said, value = note.var or "", deepcopy(note.value)
    return VariableEdited(run_id=run_id, number=number, replayed=replayed, variable=said, value=value)


def _event(run_id: str, heard: _Heard) -> RunEvent:
    """The event of a note; values are copied only here, so that an unread event costs nothing."""
    number, note, action, replayed = heard
    kind, step, detail, variable, value, _ = note
    place: _Place = {
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
            return StepFinished(**place, variable=variable, value=deepcopy(value))
        case NoteKind.FAILED | NoteKind.RETRYING:
            failed = StepFailed if kind is NoteKind.FAILED else StepRetrying
            return failed(**place, error=detail)
        case NoteKind.TURN:
            return StepTurned(**place, text=detail)
        case NoteKind.JUMPED:
            return StepDiverted(**place, target=detail)
        case NoteKind.CAST_FAILED:
            return CastFailed(**place, reason=detail, value=deepcopy(value))
        case NoteKind.CUT | NoteKind.FACT | NoteKind.EARLY:
            return StepRemarked(**place, text=detail, is_cut=kind is NoteKind.CUT)
        case NoteKind.REPLANNED:
            return Replanned(**place, detail=detail)
        case NoteKind.ASKED | NoteKind.ANSWERED:
            told = PersonAsked if kind is NoteKind.ASKED else PersonAnswered
            return told(**place, text=detail)
        case NoteKind.ENDED | NoteKind.BEFORE | NoteKind.EDITED:
            raise ValueError("the end of a run is told with its result, and the past by its own notes")
    assert_never(kind)
