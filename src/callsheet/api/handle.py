"""`RunHandle`: a run in progress, with its events, its result, and methods to cancel, pause or interrupt it.

In: the coroutine of the run, the machine's notes. Out: events as an async iterator. The run is a task of its
own and does not depend on anybody reading its events or awaiting its result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from types import TracebackType
from typing import NamedTuple, Protocol, TypedDict, assert_never

from callsheet.api import events
from callsheet.api.findings import RunInterrupted
from callsheet.api.result import RunResult, StepLog, StepResult
from callsheet.diagnostics import Diagnostic
from callsheet.ir import JSON, Plan, word_of
from callsheet.ir import Plan as Steps
from callsheet.lazy import dataclass
from callsheet.machine import Compile, Usage
from callsheet.machine.keys import parse_key
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.progress import with_own_ids
from callsheet.runtime.cancelling import PATIENCE
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver
from callsheet.sealing.masking import MaskedFields, masked
from callsheet.store import EventType, Journal, RunStatus
from callsheet.store.pauses import RunPause

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
        self._ready: deque[_NumberedNote | events.RunEvent] = deque()
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
            plan = self._new_plans.get((self._generation, note.step.rpartition("/")[2]))
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
            doubt = events.CallInDoubt(
                run_id=self._run_id, number=self._count, step=call.step, action=f"@{call.tool}", call=call
            )
            self._ready.append(doubt if self.hides is None else masked(doubt, self.hides))
        self._count += 1
        self._ready.append(events.RunEnded(run_id=self._run_id, number=self._count, result=result))
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

    async def next(self) -> events.RunEvent | None:
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


def event_of_note(run_id: str, number: int, note: Note, action: str) -> events.RunEvent | None:
    """A note from the journal as a replayed event; None for one that is about no step."""
    if note.kind in (NoteKind.ENDED, NoteKind.BEFORE, NoteKind.SETTLED):
        return None
    received = _NumberedNote(number, note, action, replayed=True)
    return _edited(run_id, received) if note.kind is NoteKind.EDITED else _event(run_id, received)


def _edited(run_id: str, received: _NumberedNote) -> events.VariableEdited:
    """The event for an edited variable."""
    number, note, _, replayed = received
    variable, value = note.var or "", deepcopy(note.value)
    return events.VariableEdited(
        run_id=run_id, number=number, replayed=replayed, variable=variable, value=value
    )


def _event(run_id: str, received: _NumberedNote) -> events.RunEvent:
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
            return events.StepStarted(**place)
        case NoteKind.SKIPPED:
            return events.StepSkipped(**place, reason=detail)
        case NoteKind.FINISHED:
            unused, stopped = (detail, "") if note.is_unused else ("", "" if note.is_failure else detail)
            return events.StepFinished(
                **place,
                variable=variable,
                value=deepcopy(value),
                failed=note.is_failure,
                unused=unused,
                stopped=stopped,
            )
        case NoteKind.FAILED | NoteKind.RETRYING:
            failed = events.StepFailed if kind is NoteKind.FAILED else events.StepRetrying
            at = note.at
            item, attempt = (None, 1) if at is None else (at.item - 1 if at.item else None, at.attempt)
            return failed(**place, error=detail, item=item, attempt=attempt)
        case NoteKind.TURN:
            return events.StepTurned(**place, text=detail)
        case NoteKind.JUMPED:
            return events.StepDiverted(**place, target=detail)
        case NoteKind.CAST_FAILED:
            return events.CastFailed(**place, reason=detail, value=deepcopy(value))
        case (
            NoteKind.CUT | NoteKind.EMPTY | NoteKind.FACT | NoteKind.EARLY | NoteKind.SAID | NoteKind.OBSERVED
        ):
            return events.StepRemarked(**place, text=detail, is_cut=kind is NoteKind.CUT)
        case NoteKind.REPLANNED:
            return events.Replanned(**place, detail=detail)
        case NoteKind.ASKED | NoteKind.ANSWERED:
            event_type = events.PersonAsked if kind is NoteKind.ASKED else events.PersonAnswered
            return event_type(**place, text=detail)
        case NoteKind.ENDED | NoteKind.BEFORE | NoteKind.EDITED | NoteKind.SETTLED:
            raise ValueError("the end of a run is told with its result, and the past by its own notes")
    assert_never(kind)


@dataclass(slots=True)
class Observers:
    """The observers of a run: its event stream and its step log, either of which may be absent.

    `diagnostics` are the warnings and hints about its plan, once it was checked.
    """

    stream: EventStream | None = None
    log: StepLog | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    def watching(self, watch: Watch) -> Watch:
        """The watch, with the step log added as an observer; the stream already is one."""
        return watch if self.log is None else self.log.watching(watch)

    def mask(self, hides: MaskedFields) -> None:
        """Mask these secrets in the `repr` of events and step results."""
        if self.stream is not None:
            self.stream.hides = hides
        if self.log is not None:
            self.log.hides = hides

    def begin_from(self, plan: Steps, new_plans: list[tuple[str, Steps]]) -> None:
        """Set the plans of a resumed run."""
        if self.stream is not None:
            self.stream.begin_from(plan, new_plans)
        if self.log is not None:
            self.log.begin_from(plan, new_plans)

    def compiled(self, command: Compile, plan: Steps) -> None:
        """Add the plan that a re-plan made."""
        if command.progress is not None:
            plan = with_own_ids(plan, command.progress.plan, command.progress.number)
        if self.stream is not None:
            self.stream.compiled(command.key, plan)
        if self.log is not None:
            self.log.compiled(plan)


def plans_of(journal: Journal, run_id: str) -> tuple[Steps, list[tuple[str, Steps]]]:
    """The plan of a run, and the later plans of its re-plans with the keys of their calls."""
    info = journal.find_run(run_id)
    if info.run_id != run_id:
        return Steps(()), []  # no run has exactly this id; resuming it reports that
    first = journal.plan_of(info.plan_hash)
    replans = [
        (row.key, journal.plan((row.body or {})["plan"])[0])
        for row in journal.events(run_id)
        if row.type is EventType.PLAN and row.key is not None
    ]
    return first, replans


class Pause(Protocol):
    """Pauses a run: by whom, why, for how many seconds calls are awaited, whom to tell that it is asked."""

    def __call__(
        self, run_id: str, by: str, reason: str, patience: float, on_asked: Callable[[], None]
    ) -> Awaitable[RunPause | None]:
        """The pause that is recorded; None if calls are still under way."""
        ...


class RunHandle(AsyncIterator[events.RunEvent]):
    """A run in progress, made by `Runtime.start` or `Runtime.start_resume`.

    Iterating yields each event once, in order; a later loop continues where an earlier one stopped. It ends
    with the run and raises what `result` raises. A slow or absent reader does not delay the run. As an async
    context manager the handle waits for the run's end; an exception in the block interrupts the run, which
    can then be resumed from its journal. Use it on the thread of its event loop only.

        async with runtime.start(plan) as run:
            async for event in run:
                print(event)
        print((await run.result()).response)
    """

    def __init__(
        self,
        run_id: str,
        observers: Observers,
        work: Callable[[Watch], Awaitable[RunResult]],
        inputs: Mapping[str, JSON],
        pause: Pause | None,
    ) -> None:
        """`pause` pauses the run in its journal; None for a run without one."""
        self.run_id = run_id
        """The run's id, also in the journal."""
        assert observers.stream is not None
        self._observers = observers
        self._stream = stream = observers.stream
        self._log = observers.log
        self._inputs = inputs
        self._pause = pause
        self._is_going = asyncio.Event()
        """Set when what the run begins with is in the journal, and at its end."""
        self._driver: LocalDriver | None = None
        self._begun = False
        self._reason: str | None = None
        self._error_is_told = False
        self._task = asyncio.create_task(self._carry_out(work), name=f"callsheet run {run_id}")
        self._task.add_done_callback(lambda _: stream.close())
        self._task.add_done_callback(lambda _: self._is_going.set())

    @property
    def is_done(self) -> bool:
        """Whether the run has ended or stopped."""
        return self._task.done()

    @property
    def has_unread(self) -> bool:
        """Whether events have happened that nobody has read yet."""
        return self._stream.has_unread

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The warnings and hints about the plan, once it was checked; empty for a resumed run."""
        return self._observers.diagnostics

    def step(self, index: str) -> StepResult | None:
        """The result of a step of a dependency plan; None until it has ended, and for other plans."""
        return None if self._log is None else self._log.get(index)

    def title(self, index: str) -> str:
        """The title of a step of a dependency plan, including those that a planner has added."""
        return "" if self._log is None else self._log.title(index)

    def calls_begun(self) -> Usage:
        """The calls of a dependency plan that have been sent so far, also after an interruption."""
        return Usage() if self._log is None else self._log.calls_begun()

    def when_done(self, tell: Callable[[], object]) -> None:
        """Call `tell` when the run has ended or stopped."""
        self._task.add_done_callback(lambda _: tell())

    async def result(self) -> RunResult:
        """Wait for the result; may be awaited more than once.

        Cancelling this call does not affect the run. Raises PlanError for a plan with errors,
        CallsheetError for tools or a journal that cannot be used, RunInterrupted for a run that was
        interrupted.
        """
        await asyncio.wait({self._task})
        if not self._task.cancelled() and self._task.exception() is None:
            return self._task.result()
        self._error_is_told = True
        if self._task.cancelled():
            raise RunInterrupted(self.run_id, is_recorded=self._pause is not None)
        return self._task.result()

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run for good: its status becomes `cancelled`, calls in progress are abandoned.

        The first call counts; a run that has ended is not changed.
        """
        if self._reason is not None or self.is_done:
            return
        self._reason = reason
        if self._driver is not None:
            self._driver.cancel(reason)
        elif self._begun:
            self._task.cancel()

    async def pause(self, *, by: str = "", reason: str = "", patience: float = PATIENCE) -> RunPause | None:
        """Send no further call until a person resumes the run; calls under way end, and are kept.

        They are waited for up to `patience` seconds; None if some are still under way then. `result` gives
        the status `paused`. Raises CallsheetError (JRN032) for a run that has ended, ValueError for one
        without a journal.
        """
        if self._pause is None:
            raise ValueError("a run without a journal cannot be paused: give the runtime a journal")
        await self._is_going.wait()
        return await self._pause(self.run_id, by, reason, patience, self._look)

    def _look(self) -> None:
        """Let the run see at once that it is asked to pause."""
        if self._driver is not None and self._driver.on_asked is not None:
            self._driver.on_asked()

    async def interrupt(self) -> None:
        """Stop the run without ending it, and wait until it has stopped.

        The journal keeps what has happened; `Runtime.resume` continues the run.
        """
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _carry_out(self, work: Callable[[Watch], Awaitable[RunResult]]) -> RunResult:
        self._begun = True
        watch = Watch(self._stream.note, self._release, self._on_driver)
        try:
            result = self._stopped() if self._reason is not None else await work(watch)
        except asyncio.CancelledError:
            if self._reason is None or self._driver is not None:
                raise
            result = self._stopped()
        self._stream.end(result)
        return result

    async def _release(self) -> None:
        self._is_going.set()
        await self._stream.release()

    def _on_driver(self, driver: LocalDriver) -> None:
        self._driver = driver
        self._stream.end_replay()
        if self._reason is not None:
            driver.cancel(self._reason)

    def _stopped(self) -> RunResult:
        """The result of a run that was cancelled before its driver started."""
        return RunResult(self.run_id, RunStatus.CANCELLED, variables=dict(self._inputs), error=self._reason)

    def __aiter__(self) -> RunHandle:
        return self

    async def __anext__(self) -> events.RunEvent:
        event = await self._stream.next()
        if event is None:
            await self.result()
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> RunHandle:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            if not self._error_is_told:
                await self._finish()
            return
        await self.interrupt()
        if not self._task.cancelled():
            self._task.exception()  # mark it as retrieved: the exception of the block is the one to raise

    async def _finish(self) -> None:
        """Wait for the end of the run; if this is cancelled meanwhile, interrupt the run too."""
        try:
            await self.result()
        except asyncio.CancelledError:
            await self.interrupt()
            raise

    def __repr__(self) -> str:
        return f"<RunHandle {self.run_id}, {'ended' if self.is_done else 'under way'}>"
