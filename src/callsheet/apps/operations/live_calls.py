"""What is told of a run while it goes: its events, reports of its tools on open calls, how far its loops are.

In: events; news of calls, from any thread. Out: rows; the latest reports by call, a number that changes with
them, and a file with them beside the lock of the run, which goes when the process has done with the run.
Reports are not recorded. For lists, words about runs of any process: a look reads only what is new; how many
items a loop has is asked of a replay, once for each that is shown.
"""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock, Timer
from time import monotonic, time
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

from callsheet.apps.operations.runs import OutcomeWord
from callsheet.apps.operations.schema import Count, Ordinal, Time
from callsheet.apps.rendering.loops import LoopCount, items_around
from callsheet.apps.rendering.values import finite, format_seconds, iso, preview
from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan
from callsheet.machine.keys import is_of_tree, parse_key, place_in_tree, step_of, visit_of
from callsheet.machine.notes import Note, NoteKind
from callsheet.ports.calls import CallListener, CallProgress
from callsheet.sealing.sealer import shown
from callsheet.store.events import Event, EventType
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import progress_of
from callsheet.store.replay import fold
from callsheet.store.runs import RunInfo


class EventRow(TypedDict):
    """An event of the journal of a run."""

    seq: Ordinal
    time: Time
    type: str
    key: str | None
    step: str | None
    epoch: Count
    body: Any
    hash: str


def event_row(event: Event) -> EventRow:
    """An event as an object, with its whole body."""
    return {
        "seq": event.seq,
        "time": iso(event.ts),
        "type": str(event.type),
        "key": event.key,
        "step": event.step,
        "epoch": event.epoch,
        "body": shown(event.body),
        "hash": event.hash.hex(),
    }


class NoteRow(TypedDict):
    """What a run did at an event, a line each."""

    seq: Ordinal
    time: Time
    at: Annotated[float, "the seconds since the start of the run"]
    event: Annotated[str, "what happened, such as started or finished"]
    step: str | None
    detail: NotRequired[str]
    item: NotRequired[Annotated[Count, "the item of a loop, from 0"]]
    items: NotRequired[Annotated[Count, "the number of items"]]
    attempt: NotRequired[Ordinal]
    attempts: NotRequired[Ordinal]
    outcome: NotRequired[Annotated[str | None, "how a step ended"]]
    var: NotRequired[str | None]
    preview: NotRequired[Annotated[str, "the beginning of its value"]]
    seconds: NotRequired[Annotated[float, "how long the step took"]]
    done: NotRequired[Annotated[float | None, "of progress: in a unit of the tool's choice"]]
    total: NotRequired[float | None]
    message: NotRequired[str]
    waits: NotRequired[Annotated[str, "what a call waits for that has not left yet"]]


class OpenRun(TypedDict):
    """A run that has not ended, a line each."""

    run_id: str
    status: OutcomeWord
    plan: Annotated[str, "the name of the plan"]
    seconds: float
    calls: Annotated[Count, "the calls that were made"]
    under_way: Annotated[str, "the steps whose calls are open, or what the run waits for"]


class CallProgressRow(TypedDict):
    """How far an open call is, as its tool says; it is not recorded."""

    key: str
    done: Annotated[float | None, "in a unit of the tool's choice; null if it only writes to its log"]
    total: float | None
    message: str
    waits: Annotated[bool, "whether the call has not left yet; the message is what it waits for"]
    lines: Annotated[list[str], "the last messages of the tool, the newest last"]


class ProgressRow(TypedDict):
    """What tools report about the open calls of a run; it replaces what they reported before."""

    calls: list[CallProgressRow]


_MOST_CALLS = 50
_MOST_LINES = 10
_BETWEEN_WRITES = 0.5
_MOST_TEXT = 2_000
"""The characters of a message that other processes see."""
BETWEEN_LINES = 2.0
"""Seconds between two lines about the progress of one call, where it is told in lines."""
_PERCENT = (1.0, 100.0)
"""Totals of tools that report a fraction."""


class CallReport(NamedTuple):
    """How far an open call is, and the last messages of its tool, the newest last."""

    key: str
    progress: CallProgress
    lines: tuple[str, ...] = ()


class LiveCalls:
    """A `CallListener` that keeps the latest report of each open call; `version` counts the changes."""

    def __init__(self) -> None:
        self.version = 0
        self.changed: Callable[[], None] = lambda: None
        """Called after each change, from any thread."""
        self.replaces = False
        """Whether the first call counts as a change: it replaces what a process left behind that died."""
        self._mutex = Lock()
        self._open: set[str] = set()
        self._latest: dict[str, CallProgress] = {}
        self._lines: dict[str, deque[str]] = {}

    def began(self, key: str) -> None:
        """A call is sent; what it waited for is over."""
        self._open.add(key)
        if key in self._latest:
            self._forget(key)
        elif self.replaces:
            self.replaces = False
            self.changed()

    def queued(self, key: str) -> None:
        """A call waits for others of its tool."""
        self.progressed(key, CallProgress(0, None, "waiting for other calls of its tool", waits=True))

    def ended(self, key: str, *, succeeded: bool) -> None:
        """A call has an outcome."""
        self._open.discard(key)
        if key in self._latest:
            self._forget(key)

    def progressed(self, key: str, progress: CallProgress) -> None:
        """The tool has reported progress; a report that comes after the outcome is dropped."""
        with self._mutex:
            if key not in self._open or (key not in self._latest and len(self._latest) >= _MOST_CALLS):
                return
            before = self._latest.get(key)
            if progress.done is None and before is not None and not before.waits:
                self._latest[key] = before._replace(message=progress.message)
            else:
                self._latest[key] = progress
            lines = self._lines.setdefault(key, deque(maxlen=_MOST_LINES))
            if progress.message and not progress.waits and (not lines or lines[-1] != progress.message):
                lines.append(progress.message)
            self.version += 1
        self.changed()

    def reports(self) -> list[CallReport]:
        """The latest reports, of the calls that reported first."""
        with self._mutex:
            return [CallReport(key, each, tuple(self._lines[key])) for key, each in self._latest.items()]

    def _forget(self, key: str) -> None:
        with self._mutex:
            self._latest.pop(key, None)
            self._lines.pop(key, None)
            self.version += 1
        self.changed()


class BothListeners:
    """A `CallListener` that tells two others."""

    def __init__(self, first: CallListener, second: CallListener) -> None:
        self._both = first, second

    def began(self, key: str) -> None:
        """A call is sent."""
        for each in self._both:
            each.began(key)

    def queued(self, key: str) -> None:
        """A call waits for others of its tool."""
        for each in self._both:
            each.queued(key)

    def ended(self, key: str, *, succeeded: bool) -> None:
        """A call has an outcome."""
        for each in self._both:
            each.ended(key, succeeded=succeeded)

    def progressed(self, key: str, progress: CallProgress) -> None:
        """The tool has reported progress."""
        for each in self._both:
            each.progressed(key, progress)


def progress_row(call: CallReport) -> CallProgressRow:
    """A report as data."""
    done, total, message, waits = call.progress
    return {
        "key": call.key,
        "done": finite(done),
        "total": finite(total),
        "message": message,
        "waits": waits,
        "lines": list(call.lines),
    }


def progress_text(progress: CallProgress) -> str:
    """Progress in words.

    >>> [progress_text(CallProgress(*said)) for said in ((3, 10, "pages"), (0.4, 1), (7,))]
    ['3 of 10, pages', '40%', '7']
    """
    done, total, message, waits = progress
    if waits:
        return preview(message, 100)
    if done is None:
        count = ""
    elif total in _PERCENT and 0 <= done <= total:
        count = f"{done / total:.0%}"
    else:
        count = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return ", ".join(filter(None, (count, preview(message, 100) if message else "")))


@contextmanager
def shared(calls: LiveCalls, journal: Path, run_id: str) -> Generator[None]:
    """Let other processes read the reports of a run during the context.

    What cannot be written is not shown there: nothing in the run depends on it.
    """
    path = progress_of(journal, run_id)
    file = _ReportFile(path, calls)
    calls.changed, calls.replaces = file.changed, path.exists()
    try:
        yield
    finally:
        calls.changed = lambda: None
        file.close()


class _ReportFile:
    """The file of the reports of a run, written when they have changed, and not too often."""

    def __init__(self, path: Path, calls: LiveCalls) -> None:
        self._path = path
        self._calls = calls
        self._mutex = Lock()
        self._written = float("-inf")
        self._timer: Timer | None = None
        self._is_closed = False

    def changed(self) -> None:
        """Write the reports, now or soon."""
        with self._mutex:
            if self._timer is not None or self._is_closed:
                return
            wait = self._written + _BETWEEN_WRITES - monotonic()
            if wait > 0:
                self._timer = Timer(wait, self._late)
                self._timer.daemon = True
                self._timer.start()
                return
            self._write()

    def close(self) -> None:
        """Remove the file, unless it is that of another process, which executes the run."""
        with self._mutex:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
            if self._written > float("-inf"):
                with suppress(OSError):
                    self._path.unlink()

    def _late(self) -> None:
        with self._mutex:
            self._timer = None
            if not self._is_closed:
                self._write()

    def _write(self) -> None:
        rows = [progress_row(_cut(call)) for call in self._calls.reports()]
        place = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(rows, file)
            place.replace(self._path)
        self._written = monotonic()


def _cut(call: CallReport) -> CallReport:
    message = call.progress.message[:_MOST_TEXT]
    return CallReport(
        call.key, call.progress._replace(message=message), tuple(line[:_MOST_TEXT] for line in call.lines)
    )


def shared_reports(journal: Path, run_id: str) -> list[CallReport]:
    """What the tools of a run report that a living process executes; [] if they report nothing."""
    try:
        rows: list[CallProgressRow] = json.loads(progress_of(journal, run_id).read_bytes())
        return [
            CallReport(
                row["key"],
                CallProgress(row["done"], row["total"], row["message"], row["waits"]),
                tuple(row["lines"]),
            )
            for row in rows
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return []


_MOST = 200
"""The runs that are remembered; which of more is looked at again is read from its first event."""


@dataclass(slots=True)
class Followed:
    """The calls of a run of a plan up to an event, and the outermost loops that they belong to."""

    plan: Plan
    seq: int = 0
    calls: int = 0
    ended: int = 0
    open: dict[str, float] = field(default_factory=dict[str, float])
    """When each open call was sent, by key."""
    loops: dict[str, LoopCount] = field(default_factory=dict[str, LoopCount])
    uncounted: dict[str, Event] = field(default_factory=dict[str, Event])
    """The loops whose number of items was not asked for, with the event that sent their first call."""

    def read(self, journal: Journal, run_id: str) -> None:
        """Read on to the last event."""
        for event in journal.events(run_id, self.seq, lenient=True):
            self.seq = event.seq
            if event.key is None or not (
                event.type.opens or event.type.answers or event.type is EventType.FIRED
            ):
                continue
            if event.type.opens:
                self.calls += 1
                self.open[event.key] = event.ts
            else:
                self.ended += 1
                self.open.pop(event.key, None)
            found = _place_in_loop(event.key, self.plan)
            if found is not None:
                self._count(event, *found)

    def _count(self, event: Event, name: str, item: int) -> None:
        if name not in self.loops:
            self.loops[name] = LoopCount(0, event.ts)
            self.uncounted[name] = event
        if event.type.opens:
            self.loops[name].begin(item)
        else:
            self.loops[name].end(item, event.ts)

    def text(self, now: float, reports: dict[str, str], items_of: Callable[[str, Event], int]) -> str:
        """The steps whose calls are open: how many, since when, and in brackets how far they are.

        `items_of` says how many items a loop has whose first call was sent by an event, 0 if unknown.
        """
        steps = Counter(step_of(key) for key in self.open)
        first = {step_of(key): key for key in reversed(self.open)}
        return ", ".join(
            f"{step}{f' ×{count}' if count > 1 else ''} "
            f"{format_seconds(max(0.0, now - self.open[first[step]]))}"
            + self._beside(step, now, first[step], reports, items_of)
            for step, count in steps.items()
        )

    def _beside(
        self,
        step: str,
        now: float,
        key: str,
        reports: dict[str, str],
        items_of: Callable[[str, Event], int],
    ) -> str:
        """How far the loop of a step is, and what the tool of its oldest call with a report says."""
        said: list[str] = []
        found = _place_in_loop(key, self.plan)
        if found is not None:
            name, _ = found
            if name in self.uncounted:
                self.loops[name].items = items_of(name, self.uncounted.pop(name))
            if text := self.loops[name].text(now):
                said.append(text if name == step else f"{name}: {text}")
        if reports.get(step):
            said.append(reports[step])
        return f" ({'; '.join(said)})" if said else ""


class Doing(NamedTuple):
    """What a run does, in words, and the number of calls that it has made."""

    text: str
    calls: int
    ended: int
    """How many of them have ended."""


class UnderWay:
    """What the running runs of a journal do; may be asked from several threads."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._followed: dict[tuple[str, float], Followed] = {}
        """By the name and the time of its beginning: a run of that name may have been deleted."""
        self._mutex = Lock()

    def look(self, info: RunInfo, last: int | None = None) -> Doing:
        """What a run does now, whose `last` event has this number if it is known.

        Of one that cannot be read, nothing.
        """
        from callsheet.store.pauses import PAUSE  # noqa: PLC0415 - not to show a run

        with self._mutex, suppress(CallsheetError):
            run_id, key = info.run_id, (info.run_id, info.created)
            followed = self._followed.pop(key, None) or Followed(self._journal.plan_of(info.plan_hash))
            if last != followed.seq:
                followed.read(self._journal, run_id)
            self._followed[key] = followed  # the one looked at last is forgotten last
            if len(self._followed) > _MOST:
                del self._followed[next(iter(self._followed))]
            told = {
                step_of(each.key): progress_text(each.progress)
                for each in reversed(shared_reports(self._journal.path, run_id))
            }
            text = followed.text(time(), told, partial(_items_of, self._journal, run_id, followed.plan))
            from callsheet.store.pauses import PAUSE  # noqa: PLC0415 - only for runs under way

            if any(message.topic == PAUSE for message in self._journal.mailbox.unread(run_id)):
                text = f"is paused once these have ended: {text}"
            return Doing(text, followed.calls, followed.ended)
        return Doing("", 0, 0)


def _place_in_loop(key: str, plan: Plan) -> tuple[str, int] | None:
    """The visit of the outermost loop that a call stands in, and its item; None outside of loops."""
    if is_of_tree(key):
        return next(items_around(place_in_tree(key)), None)
    parsed = parse_key(key)
    if not parsed.turn and any(step.id == parsed.step and step.foreach is not None for step in plan.steps):
        return visit_of(key), parsed.index
    return None


def _items_of(journal: Journal, run_id: str, plan: Plan, name: str, first: Event) -> int:
    """How many items a loop has whose first call is sent by an event, 0 if unknown."""
    found = 0

    def note(note: Note) -> None:
        nonlocal found
        if note.kind is NoteKind.STARTED and note.step in (name, step_of(first.key or "")):
            found = note.at.items if note.at is not None and not note.at.item and note.at.items else found

    with suppress(CallsheetError):
        until = (event for event in journal.events(run_id, lenient=True) if event.seq < first.seq)
        fold(plan, until, journal.plan_of, note)
    return found
