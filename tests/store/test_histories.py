"""Random commands to a journal and its inbox, compared with a simple model of both."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.laws import examples

from callsheet.ir import Plan, Respond, Step
from callsheet.machine.keys import name_in_key
from callsheet.store import Durability, EventType, Journal, JournalError, RunStatus, RunWriter
from callsheet.store.mailbox import Message

_PLAN = Plan((Step("S1", Respond(())),))

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_bodies = st.dictionaries(st.text(max_size=5), _json, max_size=3)
_LARGE = st.sampled_from([{"v": "y" * size} for size in (65_000, 66_000, 1_100_000)])
_places = st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 2**31), st.integers(1, 99))
_runs = st.sampled_from(["r", "r2", "other"])
_topics = st.text(max_size=5)
_letters = st.sampled_from(["m1", "m2", "m3", "m4"])


@dataclass
class _Run:
    """A run as it should be."""

    durable: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    pending: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    writer: RunWriter | None = None
    status: RunStatus = RunStatus.RUNNING
    next_status: RunStatus | None = None
    unread: list[Message] = field(default_factory=list[Message])
    """In the order of their arrival."""
    ids: set[str] = field(default_factory=set[str])
    """Of all messages that it was ever sent."""
    taking: set[str] = field(default_factory=set[str])

    def commit(self) -> None:
        self.durable += self.pending
        self.unread = [letter for letter in self.unread if letter.msg_id not in self.taking]
        self.status = self.next_status or self.status
        self.lose()

    def lose(self) -> None:
        self.pending, self.taking, self.next_status = [], set(), None


class Histories(RuleBasedStateMachine):
    """One process that owns runs, and another that writes to them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.ticks = count(1)
        self.journal, self.other = self._opened(), self._opened()
        self.runs = {name: _Run() for name in ("r", "r2", "other")}

    def _opened(self) -> Journal:
        clock: Callable[[], float] = lambda: float(next(self.ticks))  # noqa: E731
        return Journal.open(self.folder / "journal.db", Durability.OFF, clock=clock)

    def teardown(self) -> None:
        for run_id in self.runs:
            self.events_are_those_committed(run_id)
            self.leave(run_id)
        self.journal.close()
        self.other.close()
        shutil.rmtree(self.folder)

    @rule(run_id=_runs)
    def begin(self, run_id: str) -> None:
        run = self.runs[run_id]
        if run.writer is not None or run.durable:
            expected = "JRN004" if run.writer is not None else "JRN003"
            assert _code(lambda: self.journal.create_run(run_id, _PLAN, "", {"inputs": {}})) == expected
            return
        run.writer = self.journal.create_run(run_id, _PLAN, "", {"inputs": {}})
        run.pending = [(EventType.START, None, None, None, None, {"inputs": {}})]

    @rule(run_id=_runs)
    def claim(self, run_id: str) -> None:
        run = self.runs[run_id]
        if not run.durable:
            assert _code(lambda: self.journal.claim(run_id)) == "JRN002"
        elif run.writer is not None:
            for journal in (self.journal, self.other):
                assert _code(lambda journal=journal: journal.claim(run_id)) == "JRN004"
        else:
            run.writer = self.journal.claim(run_id)

    @rule(run_id=_runs)
    def leave(self, run_id: str) -> None:
        """Without a commit, what was appended, taken and set is lost."""
        run = self.runs[run_id]
        if run.writer is not None:
            run.writer.close()
            run.writer = None
            run.lose()

    @rule()
    def reopen(self) -> None:
        for run_id in self.runs:
            self.leave(run_id)
        self.journal.close()
        self.journal = self._opened()

    @rule(
        run_id=_runs,
        kind=st.sampled_from(EventType),
        place=st.none() | _places,
        body=st.none() | _bodies | _LARGE,
    )
    def append(
        self, run_id: str, kind: EventType, place: tuple[str, int, int] | None, body: dict[str, Any] | None
    ) -> None:
        run = self.runs[run_id]
        if run.writer is not None:
            step, item, attempt = place or (None, None, None)
            key = None if step is None else f"{name_in_key(step)}.{item}.{attempt}"
            run.writer.append(kind, key=key, body=body)
            run.pending.append((kind, key, step, item, attempt, body))

    @rule(
        run_id=_runs, item=st.integers(0, 9), tool=st.none() | st.text(max_size=5), times=st.integers(1, 300)
    )
    def intend(self, run_id: str, item: int, tool: str | None, times: int) -> None:
        run = self.runs[run_id]
        if run.writer is not None:
            body = None if tool is None else {"tool": tool}
            for attempt in range(1, times + 1):
                key = f"S1@2.{item}.{attempt}"
                run.writer.intend(key, tool)
                run.pending.append((EventType.INTENT, key, "S1", item, attempt, body))

    @rule(run_id=_runs, status=st.sampled_from(RunStatus))
    def set_status(self, run_id: str, status: RunStatus) -> None:
        run = self.runs[run_id]
        if run.writer is not None:
            run.writer.set_status(status)
            run.next_status = status

    @rule(run_id=_runs, msg_id=_letters, topic=_topics, payload=_bodies, by_other=st.booleans())
    def post(self, run_id: str, msg_id: str, topic: str, payload: dict[str, Any], *, by_other: bool) -> None:
        """A message with an id that the run was sent before is ignored, also when that one was taken."""
        run, mailbox = self.runs[run_id], (self.other if by_other else self.journal).mailbox
        topic = topic.encode("utf-8", "replace").decode()
        if not run.durable:
            assert _code(lambda: mailbox.post(run_id, topic, msg_id, payload)) == "JRN002"
            return
        assert mailbox.post(run_id, topic, msg_id, payload) == (msg_id not in run.ids)
        if msg_id not in run.ids:
            run.ids.add(msg_id)
            run.unread.append(Message(topic, msg_id, payload, 0.0))

    @rule(run_id=_runs, msg_id=_letters)
    def take(self, run_id: str, msg_id: str) -> None:
        """A message is gone with the event that was appended last, and not before."""
        run = self.runs[run_id]
        if run.writer is not None and run.pending:
            run.writer.take_message(msg_id)
            if msg_id in {letter.msg_id for letter in run.unread}:
                run.taking.add(msg_id)

    @rule(run_id=_runs, flushes=st.booleans())
    def commit(self, run_id: str, *, flushes: bool) -> None:
        run = self.runs[run_id]
        if run.writer is not None:
            asyncio.run(run.writer.flush()) if flushes else run.writer.commit()
            run.commit()

    @invariant()
    def runs_and_messages_are_those_committed(self) -> None:
        durable = {name: run for name, run in self.runs.items() if run.durable}
        for journal in (self.journal, self.other):
            found = {info.run_id: info.status for info in journal.runs()}
            assert found == {name: run.status for name, run in durable.items()}
            for name, run in durable.items():
                letters = [letter._replace(ts=0.0) for letter in journal.mailbox.unread(name)]
                assert repr(letters) == repr(run.unread)

    @rule(run_id=_runs)
    def events_are_those_committed(self, run_id: str) -> None:
        run = self.runs[run_id]
        if not run.durable:
            return
        events = list(self.journal.events(run_id))
        assert [event.seq for event in events] == list(range(1, len(run.durable) + 1))
        said = [(e.type, e.key, e.step, e.index, e.attempt, e.body) for e in events]
        assert repr(said) == repr(run.durable)
        bad = self.journal.verify(run_id)
        if run.status.is_final and EventType.END not in {kind for kind, *_ in run.durable}:
            assert bad is not None
            assert "without an end event" in bad.why
        else:
            assert bad is None


def _code(work: Callable[[], object]) -> str:
    try:
        work()
    except JournalError as error:
        return str(error.diagnostics[0].code)
    return ""


def test_journal_and_inbox_are_as_their_model() -> None:
    asked = examples(40, settings.get_current_profile_name())
    run_state_machine_as_test(
        Histories, settings=settings(max_examples=asked, stateful_step_count=25, deadline=None)
    )
