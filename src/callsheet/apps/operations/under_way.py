"""What runs that go on are doing: how far their loops are, which calls are open, what their tools report.

In: the journals that any processes write. Out: words, for lists of runs on a terminal and in a browser.
Each look reads only what is new; how many items a loop has is asked of a replay, once for each that is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from time import time
from typing import NamedTuple

from callsheet.apps.operations.live_calls import progress_text, shared_reports
from callsheet.apps.rendering.loops import LoopCount, items_around
from callsheet.apps.rendering.values import format_seconds
from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan
from callsheet.machine.keys import is_of_tree, parse_key, place_in_tree, step_of, visit_of
from callsheet.machine.notes import Note, NoteKind
from callsheet.runtime.pausing import PAUSE
from callsheet.store.events import Event, EventType
from callsheet.store.journal import Journal
from callsheet.store.replay import fold
from callsheet.store.runs import RunInfo

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
