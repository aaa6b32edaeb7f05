"""Records a run in its journal while it is driven: intents, outcomes, snapshots, the end.

If the journal cannot be written, nothing is lost: events stay in memory and writing is retried for a while;
nothing new is launched meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from callsheet.ir import JSON
from callsheet.ir.labels import Label, read_label
from callsheet.lazy import deferred
from callsheet.machine import (
    Answered,
    Approval,
    Ask,
    CallTool,
    Cancelled,
    Decided,
    Doubted,
    Event,
    Failed,
    Machine,
    PlanCompiled,
    Probe,
    Result,
    Sleep,
    Status,
    Succeeded,
)
from callsheet.machine.commands import Awaited
from callsheet.machine.doubt import next_about, with_limit
from callsheet.machine.machine import Observer
from callsheet.machine.notes import Note
from callsheet.runtime.asking import People
from callsheet.sealing.sealer import LABEL, Path
from callsheet.store import (
    Durability,
    EventType,
    JournalWriteFailed,
    NotStorable,
    RunWriter,
)
from callsheet.store.folded import Folded
from callsheet.store.records import event_record, late_record, result_body
from callsheet.store.replay import Place, note_event
from callsheet.store.snapshots import SideRecord, SnapshotIntervals, body_of

if TYPE_CHECKING:
    from callsheet.frontends import spelling
    from callsheet.machine.monitor.monitor import Monitor
    from callsheet.runtime.doubt import Resolution
else:
    spelling = deferred("callsheet.frontends.spelling")

_NONE: Mapping[Path, str] = {}
_OUTCOME = ("value", "error", "remarks", "reason")
_QUESTION = ("prompt", "options", "schema", "default")


class Secrecy:
    """The labels of one run under a policy, as its recorder needs them."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def of(self, event: Event) -> Mapping[Path, str]:
        """The secret parts of the body of an event that has not been fed to the machine yet."""
        match event:
            case Succeeded(key=key, label=label):
                return _OUTCOMES if self._gives_secrets(key, label) else _NONE
            case Failed(key=key) | Doubted(key=key):
                return _OUTCOMES if self._gives_secrets(key) else _NONE
            case Decided(key=key) | Answered(key=key) | PlanCompiled(key=key):
                return _ANSWERS if self._gives_secrets(key) else _NONE
            case _:
                return _NONE

    def of_late(self) -> Mapping[Path, str]:
        """The secret parts of an outcome whose call is closed."""
        return _OUTCOMES

    def of_talk(self, key: str) -> Mapping[Path, str]:
        """The secret parts of what a server asks during a call, and of what it is answered."""
        return _TALK if self._takes_secrets(key) or self._gives_secrets(key) else _NONE

    def of_question(self, ask: Ask) -> Mapping[Path, str]:
        """The secret parts of a question or an approval."""
        if not isinstance(ask.asked, Approval):
            return _QUESTIONS if self._takes_secrets(ask.key) else _NONE
        labels: dict[Path, str] = {}
        for name, label_data in ask.asked.labels.items():
            label = (
                cast("Mapping[str, Any]", label_data).get("label") if isinstance(label_data, dict) else None
            )
            if label is not None and read_label(str(label)).is_secret:
                labels[("args", name) if name in ask.asked.args else ("inputs",)] = LABEL
        if ask.asked.answer and self._gives_secrets(ask.key):
            labels[("answer",)] = LABEL
        return labels | {("why",): LABEL} if labels else labels

    def of_end(self, result: Result, *, has_sealed: bool) -> Mapping[Path, str]:
        """The secret parts of the `end` event: an answer has been judged by the policy, an error has not.

        `has_sealed` means that something in the run was secret, so its error may be.
        """
        if not has_sealed:
            return _NONE
        labels: dict[Path, str] = {} if result.error is None else {("error",): LABEL}
        if result.status is not Status.DONE:
            labels[("response",)] = LABEL
        if result.objection is not None:
            labels |= {("objection", name): LABEL for name in ("message", "help")}
        return labels

    def _gives_secrets(self, key: str, label: Label | None = None) -> bool:
        admitted = self._monitor.open_calls.calls.get(key)
        if label is not None and label.is_secret:
            return True
        talk = self._monitor.open_calls.talks.get(key)
        if talk is not None and talk[0].is_secret:
            return True
        return admitted is not None and (admitted.result.is_secret or admitted.sent.is_secret)

    def _takes_secrets(self, key: str) -> bool:
        admitted = self._monitor.open_calls.calls.get(key)
        return admitted is not None and admitted.sent.is_secret


def secrecy_of(machine: Machine) -> Secrecy | None:
    """The secrecy of a run; None for one without a policy."""
    return None if machine.monitor is None else Secrecy(machine.monitor)


_OUTCOMES: Mapping[Path, str] = {(name,): LABEL for name in _OUTCOME}
_ANSWERS: Mapping[Path, str] = {(name,): LABEL for name in ("value", "note", "remarks")}
_TALK: Mapping[Path, str] = {(name,): LABEL for name in (*_QUESTION, "params", "result")}
_QUESTIONS: Mapping[Path, str] = {(name,): LABEL for name in _QUESTION}


INTERVALS = SnapshotIntervals()
"""When runs get snapshots."""
NEVER = sys.maxsize
CANCEL = "cancel"
"""Topic and id of the message that asks a run's owner to cancel it; no call has such a key."""
_SECRET_PLAN = "the new plan contains a secret; it may name the variable with the secret instead"
_PAUSE = 0.5
_LONG_ANSWER = 1_000
"""Length in characters from which on the `end` event refers to the event with the answer, if there is one."""
_STRUCTURED = ("{", "[")
_UNSEEN = 0.05
"""Seconds after which other processes see a commit at the latest, if the loop is free."""


class JournalRecorder:
    """The recorder of one run.

    `patience` is how many seconds a failing write is retried before the failure is raised; `on_blocked` hears
    of the first failure. With `folded`, the run's state, snapshots are written as `policy` says.
    """

    def __init__(
        self,
        writer: RunWriter,
        durability: Durability,
        patience: float = 5.0,
        on_blocked: Callable[[JournalWriteFailed], None] | None = None,
        folded: Folded | None = None,
        intervals: SnapshotIntervals | None = None,
        people: People | None = None,
    ) -> None:
        self._writer = writer
        self._synced = durability is Durability.FULL
        self._patience = patience
        self._on_blocked = on_blocked
        self._people = people or People(writer.run_id)
        self._folded = folded
        self._intervals = intervals or INTERVALS
        self._should_prune = False
        self._secrecy = None if folded is None else secrecy_of(folded.machine)
        self._settling: asyncio.TimerHandle | None = None
        self.seconds: Callable[[], float] = lambda: 0.0 if folded is None else folded.seconds
        """The seconds that processes have spent on the run, as its driver knows."""
        self.verdict: Resolution | None = None
        """The decision on calls that were in doubt in an earlier run, if no probe or policy makes one."""
        self._next_snapshot = NEVER if folded is None else self._intervals.next_after(writer.last_seq, 0)

    def intent(self, command: Awaited) -> None:
        """Record that a call is about to leave, or until when a wait lasts."""
        key, side_record = command[0], None if self._folded is None else self._folded.side_record
        if type(command) is CallTool:
            self._leave(key, command[2], side_record)
        elif type(command) is Sleep:
            due = time.time() + command.seconds
            self._writer.append(EventType.TIMER, key=key, body={"due": due})
            if side_record is not None:
                side_record.due[key] = due
        elif type(command) is Ask:
            self._pose(command)
        elif type(command) is not Probe:  # a probe has no effect; its call has the intent
            self._leave(key, None, side_record)

    def _leave(self, key: str, tool: str | None, side_record: SideRecord | None) -> None:
        """Record the intent of a call; `tool` is None for calls of models and agents."""
        self._writer.intend(key, tool)
        if side_record is not None:
            side_record.call_issued(key, self._writer.last_ts)
            if side_record.asked:
                side_record.asked.pop(key, None)

    def _pose(self, ask: Ask) -> None:
        """Record a question to a person and its time limit, once."""
        if ask.asked.digest not in self._people.posed:
            posed = self._people.pose(ask)
            secret = None if self._secrecy is None else self._secrecy.of_question(ask)
            body = self._people.recorded(ask.asked, posed)
            self._writer.append(EventType.ASK, key=ask.key, body=body, secret=secret)
            if self._folded is not None:
                noted = posed._replace(since=self._writer.last_ts)
                self._folded.side_record.posed[ask.asked.digest] = noted

    def event(self, event: Event) -> Event:
        """Record an event; returns the event to feed to the machine.

        A result that no journal can store (NaN, endless nesting) becomes a failure of its call; such a
        finding of a probe leaves its call in doubt.
        """
        if type(event) is PlanCompiled and self._writer.knows_in(spelling.text_of(event.plan)):
            event = Failed(event.key, _SECRET_PLAN, spent=event.spent)
        try:
            if type(event) is Succeeded:  # as most are
                self._note_value(event)
            else:
                if type(event) is Decided and self._folded is not None:
                    event = with_limit(event, self._folded.machine.call(event.key))
                self._note(event)
                if type(event) is Doubted and self.verdict is not None and self._asks_about(event):
                    event = Decided(event.key, self.verdict)
                    self._note(event)
        except NotStorable as error:
            if isinstance(event, Succeeded):
                event = Failed(event.key, f"the result is not JSON data: {error}", spent=event.spent)
            elif isinstance(event, Decided) and event.by:
                event = Doubted(event.key, f"the probe failed: its value is not JSON data: {error}")
            else:
                raise
            self._note(event)
        return event

    def _asks_about(self, event: Doubted) -> bool:
        """Whether only a person can decide about a call that was in doubt in an earlier run."""
        from callsheet.store.kept_calls import doubt_in  # noqa: PLC0415 - only for runs that keep calls

        attempt = None if self._folded is None else self._folded.machine.call(event.key)
        return bool(doubt_in(event.reason)) and attempt is not None and next_about(attempt) is None

    def _note_value(self, event: Succeeded) -> None:
        """As `_note`, for the result of a call."""
        folded, key, value = self._folded, event[0], event[1]
        if folded is not None and not folded.machine.awaits(key):
            self._append_late(event)
            return
        kind, _, body = event_record(event)
        secret = None if self._secrecy is None else self._secrecy.of(event)
        self._writer.append(kind, key=key, body=body, secret=secret)
        if folded is not None:
            folded.side_record.close(key)
            if type(value) is not int:
                place = self._writer.last_seq, *self._writer.last_body
                self._should_prune |= folded.side_record.values.saw(value, *place)

    def _note(self, event: Event) -> None:
        if type(event) is PlanCompiled:
            self._writer.add_plan(event.plan, spelling.text_of(event.plan))
        if isinstance(event, Failed) and self._is_closed(event.key):
            self._append_late(event)
            return
        kind, key, body = event_record(event)
        secret = None if self._secrecy is None else self._secrecy.of(event)
        self._writer.append(kind, key=key, body=body, secret=secret)
        if type(event) is Answered and event.msg_id:
            self._writer.take_message(event.msg_id)
        elif type(event) is Cancelled:
            self._writer.take_message(CANCEL)
        if self._folded is not None:
            place = Place(self._writer.last_seq, *self._writer.last_body)
            self._should_prune |= note_event(self._folded.side_record, event, place)
            if type(event) is Doubted:
                self._folded.side_record.asked[event.key] = event.reason

    def moved(self, places: Mapping[str, JSON]) -> None:
        """Record where the tools of the run are from now on; `places` is as `Start.at_places` takes it."""
        self._writer.append(EventType.MOVED, body=dict(places))
        if self._folded is not None:
            self._folded.side_record.moved.update(places)

    def _is_closed(self, key: str) -> bool:
        """Whether an outcome for this key would be a duplicate or late."""
        return self._folded is not None and not self._folded.machine.awaits(key)

    def late(self, event: Succeeded | Failed) -> None:
        """Record an outcome that arrived after its call was given up; durable with the next commit."""
        try:
            self._append_late(event)
        except NotStorable as error:
            self._append_late(Failed(event.key, f"the result is not JSON data: {error}", spent=event.spent))

    def beside(self, kind: EventType, key: str, body: dict[str, Any], msg_id: str = "") -> None:
        """Record something about a call that the machine does not take; durable with the next commit.

        `msg_id` is the message that it answers. Raises NotStorable for what is not JSON data.
        """
        secret = None if self._secrecy is None else self._secrecy.of_talk(key)
        self._writer.append(kind, key=key, body=body, secret=secret)
        if msg_id:
            self._writer.take_message(msg_id)

    def became_task(self, key: str, task: str) -> None:
        """Record the task of its server that a call has become."""
        self._writer.append(EventType.SERVER_TASK, key=key, body={"task": task})
        if self._folded is not None:
            self._folded.side_record.tasks[key] = task

    def _append_late(self, event: Succeeded | Failed) -> None:
        secret = None if self._secrecy is None else self._secrecy.of_late()
        self._writer.append(EventType.LATE, key=event.key, body=late_record(event), secret=secret)

    def _take_snapshot(self, folded: Folded) -> None:
        """Record a snapshot of the machine, unless its state cannot be captured at this event."""
        body = body_of(folded.machine, folded.side_record, self.seconds())
        if body is None:
            self._next_snapshot += 1
            return
        try:
            seq = self._writer.append(EventType.SNAPSHOT, body=body)
        except NotStorable:  # a variable is a number of 5,000 digits: the run can be replayed from its start
            self._next_snapshot = self._intervals.next_after(self._writer.last_seq, 0)
            return
        self._next_snapshot = self._intervals.next_after(seq, self._writer.last_body[1])

    def end(self, result: Result) -> None:
        """Record how the run ended."""
        secret = (
            None
            if self._secrecy is None
            else self._secrecy.of_end(result, has_sealed=self._writer.has_sealed)
        )
        body = result_body(result)
        seq = None if secret else self._answered_by(result)
        if seq is not None:
            body["response"] = {"event": seq}
        self._writer.append(EventType.END, body=body, secret=secret)
        self._writer.set_outcome(result.outcome, body)

    def _answered_by(self, result: Result) -> int | None:
        """The number of the event that contains a long answer, None if there is none."""
        answer = result.response
        if self._folded is None or result.error is not None or len(answer) < _LONG_ANSWER:
            return None
        values = self._folded.side_record.values
        place = values.place_of(answer)
        if isinstance(place, int):
            return place
        return values.holder_of(answer) if answer.startswith(_STRUCTURED) else None

    def commit(self, is_idle: bool = True) -> Awaitable[None] | None:
        """Make the records durable: at once (None), or once the returned awaitable has completed.

        A disk sync is awaited in place if no call of this run (`is_idle`) and no other run of the process
        could go on meanwhile, since a thread costs more. Raises JournalWriteFailed, now or when awaited, if
        the journal stays unwritable.
        """
        folded = self._folded
        if folded is not None:
            if self._writer.last_seq >= self._next_snapshot:
                self._take_snapshot(folded)
                self._should_prune = False
            elif self._should_prune:
                folded.side_record.values.prune(folded.machine)
                self._should_prune = False
        if self._synced and not (is_idle and self._writer.is_alone):
            return self._insist(None)
        try:
            is_unseen = self._writer.commit()
        except JournalWriteFailed as failure:
            return self._insist(failure)
        if is_unseen is (self._settling is None):
            self._settle_later(is_unseen)
        return None

    def _settle_later(self, is_unseen: bool) -> None:
        """Schedule that a commit becomes visible to other processes soon, or cancel that if it already is."""
        if is_unseen:
            self._settling = asyncio.get_running_loop().call_later(_UNSEEN, self._settle)
        elif self._settling is not None:
            self._settling.cancel()
            self._settling = None

    def _settle(self) -> None:
        """Make commits visible to other processes."""
        self._settling = None
        self._writer.settle()

    async def _insist(self, failure: JournalWriteFailed | None) -> None:
        """Retry writing until it succeeds or the patience is exhausted."""
        deadline: float | None = None
        while True:
            if failure is not None:
                now = time.monotonic()
                if deadline is None:
                    deadline = now + self._patience
                    if self._on_blocked is not None:
                        self._on_blocked(failure)
                if now >= deadline:
                    raise failure
                await asyncio.sleep(_PAUSE)
            try:
                if self._synced:
                    await self._writer.flush()
                else:
                    self._writer.commit()
            except JournalWriteFailed as again:
                failure = again
            else:
                return


class JournaledNotes:
    """Wraps an observer and a callback after each batch, either of which may be None.

    Notes pass through until `hold`; after that they are held until their batch is written.
    """

    def __init__(
        self, observer: Observer | None, after_batch: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._listener = observer
        self._after_batch = after_batch
        self._notes: list[Note] | None = None
        self.observer: Observer | None = None if observer is None else self._note
        """The observer to give to the machine."""
        self.after_batch = after_batch if observer is None else self._deliver
        """To be awaited after a batch is written."""

    def call_after_batch(self, after_batch: Callable[[], Awaitable[None]] | None) -> None:
        """Set the callback after each batch."""
        self._after_batch = after_batch
        self.after_batch = after_batch if self._listener is None else self._deliver

    def hold(self) -> None:
        """From now on hold notes until they are written."""
        self._notes = []

    def release(self) -> None:
        """Deliver the held notes; they have been written."""
        listener, notes = self._listener, self._notes
        if notes and listener is not None:
            self._notes = []
            for note in notes:
                listener(note)

    def _note(self, note: Note) -> None:
        if self._notes is not None:
            self._notes.append(note)
        elif self._listener is not None:
            self._listener(note)

    async def _deliver(self) -> None:
        self.release()
        if self._after_batch is not None:
            await self._after_batch()
