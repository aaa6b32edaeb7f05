"""The conditions that a killed and resumed run must meet, checked from its journal's events alone.

Written without the code that resumes runs, so that both would have to be wrong in the same way. A call is
identified by its key. It is *open* from its intent to its outcome (`ok`, `err`, or a decision to skip or fail
it). An open call that must not be repeated without a decision is *in doubt*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from callsheet.ir import Effect
from callsheet.store import Event, EventType, Journal
from callsheet.store.errors import JournalError

_MAY_RERUN = frozenset({Effect.PURE, Effect.READ, Effect.LLM, Effect.IDEMPOTENT, Effect.KEYED})


class Call(NamedTuple):
    """A call, from its intent."""

    key: str
    tool: str
    step: str
    item: int


class History:
    """The events of a run so far, and the state of its calls."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events: Sequence[Event] = tuple(events)
        self.open: dict[str, Call] = {}
        """The calls without an outcome, by key."""
        self.finished: set[str] = set()
        self.skipped: dict[str, Call] = {}
        """The calls that were decided to be skipped."""
        self.intents: dict[str, int] = {}
        """How often each call was made."""
        self.repeated = 0
        """How many calls were made that had been made before."""
        self.finished_again = 0
        """How many of them, or of the outcomes, were of a call that had finished."""
        self.in_flight: set[str] = set()
        """The calls that some process left without an outcome."""
        self.retried: set[str] = set()
        """The calls in doubt of which it was decided that they be made again."""
        self.problems: list[str] = []
        self._epoch = 0
        self._tool_of: dict[str, str] = {}
        self._epoch_of: dict[str, int] = {}
        self._retried: set[str] = set()
        self._fired: set[str] = set()
        self._due: dict[str, float] = {}
        self._safe = self._safe_tools()
        for event in self.events:
            self._take(event)
        self._check_order()

    @property
    def in_doubt(self) -> dict[str, Call]:
        """The open calls that must not be repeated without a decision."""
        return {key: call for key, call in self.open.items() if not self._is_safe(call)}

    @property
    def writes(self) -> tuple[int, ...]:
        """The sequence numbers of the intents of calls that must not be repeated without a decision."""
        return tuple(
            event.seq
            for event in self.events
            if event.type is EventType.INTENT
            and event.body is not None
            and event.body["tool"] not in self._safe
        )

    @property
    def has_ended(self) -> bool:
        """Whether the run's end is in the journal."""
        return bool(self.events) and self.events[-1].type is EventType.END

    def tool_of(self, key: str) -> str:
        """The tool of a call that has been made."""
        return self._tool_of[key]

    def continues(self, earlier: History) -> list[str]:
        """The problem if these events do not begin with all earlier ones."""
        before = [event.hash for event in earlier.events]
        after = [event.hash for event in self.events[: len(before)]]
        return [] if before == after else [f"of {len(before)} events some are gone or changed"]

    def _safe_tools(self) -> set[str]:
        if not self.events or self.events[0].body is None:
            return set()
        facts = self.events[0].body["facts"]
        return {tool for tool, (effect, *_) in facts.items() if Effect(effect) in _MAY_RERUN}

    def is_write(self, key: str) -> bool:
        """Whether a call that has been made must not be repeated without a decision."""
        return self._tool_of[key] not in self._safe

    def _is_safe(self, call: Call) -> bool:
        return call.tool in self._safe

    def _take(self, event: Event) -> None:
        key = event.key or ""
        if event.epoch != self._epoch:
            self._epoch = event.epoch
            self.in_flight |= self.open.keys()
        match event.type:
            case EventType.INTENT:
                self._take_intent(event, key)
            case EventType.OK | EventType.ERR:
                self._finish(event, key)
            case EventType.DECIDED:
                self._take_decision(event, key)
            case EventType.IN_DOUBT:
                if key not in self.in_doubt:
                    self._wrong(event, "is said to be in doubt, and is not")
            case EventType.TIMER:
                assert event.body is not None
                self._due.setdefault(key, event.body["due"])
            case EventType.FIRED:
                self._take_fired(event, key)
            case _:
                pass

    def _take_intent(self, event: Event, key: str) -> None:
        assert event.body is not None
        call = Call(key, event.body["tool"], event.step or "", event.index or 0)
        self.intents[key] = self.intents.get(key, 0) + 1
        if key in self.finished:
            self.finished_again += 1
            self._wrong(event, "is made again after its outcome")
        if self.intents[key] > 1:
            self.repeated += 1
            if self._epoch_of[key] == event.epoch:
                self._wrong(event, "is made twice by one process")
            if not self._is_safe(call) and key not in self._retried:
                self._wrong(event, "is a write that is made again unasked")
        self._tool_of[key] = call.tool
        self._epoch_of[key] = event.epoch
        self._retried.discard(key)
        self.open[key] = call

    def _take_decision(self, event: Event, key: str) -> None:
        assert event.body is not None
        if key not in self.in_doubt:
            self._wrong(event, "is decided without being in doubt")
        elif event.body["decision"] == "retry":
            self._retried.add(key)
            self.retried.add(key)
        else:
            self.skipped[key] = self.open[key]
            self._finish(event, key)

    def _finish(self, event: Event, key: str) -> None:
        if key in self.finished:
            self.finished_again += 1
            self._wrong(event, "has a second outcome")
        elif key not in self.open:
            self._wrong(event, "has an outcome without having been made")
        self.finished.add(key)
        self.open.pop(key, None)

    def _take_fired(self, event: Event, key: str) -> None:
        if key in self._fired:
            self._wrong(event, "has been waited for twice")
        if event.ts < self._due.get(key, event.ts) - 0.05:
            self._wrong(event, "was not waited for long enough")
        self._fired.add(key)

    def _check_order(self) -> None:
        if [event.seq for event in self.events] != list(range(1, len(self.events) + 1)):
            self.problems.append("there is a gap in the sequence numbers")
        epochs = [event.epoch for event in self.events]
        if epochs != sorted(epochs):
            self.problems.append("an earlier owner wrote after a later one")
        ends = [event.seq for event in self.events if event.type is EventType.END]
        if ends not in ([], [len(self.events)]):
            self.problems.append(f"the end stands at {ends} of {len(self.events)}")

    def _wrong(self, event: Event, what: str) -> None:
        self.problems.append(f"event {event.seq} ({event.type}): the call {event.key} {what}")


def read_history(journal: Journal, run_id: str) -> History:
    """The journal's events of a run, none for an unknown run; a broken chain is a problem."""
    try:
        bad = journal.verify(run_id)
    except JournalError as error:
        if error.diagnostics[0].code == "JRN002":
            return History(())
        raise
    history = History(journal.events(run_id))
    if bad is not None:
        history.problems.append(f"the chain is broken: {bad}")
    return history
