"""Random histories of journals: exactly the committed events are read back."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.ir import Plan, Respond, Step
from callsheet.machine.keys import name_in_key
from callsheet.store import Durability, EventType, Journal, RunStatus, RunWriter

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
_event = st.tuples(
    st.sampled_from(EventType),
    st.fixed_dictionaries(
        {},
        optional={
            "place": st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 2**31), st.integers(1, 99)),
            "body": st.dictionaries(st.text(max_size=5), _json, max_size=3)
            | st.builds(lambda n: {"v": "y" * n}, st.sampled_from([65_000, 66_000, 1_100_000])),
        },
    ),
)
_intent = st.tuples(st.integers(0, 9), st.none() | st.text(max_size=5), st.integers(1, 300))
_act = st.one_of(
    _event, _intent, st.sampled_from(["commit", "flush", "claim again", "reopen", "lose", "status"])
)


class _History:
    """A run under test and the expected content of the journal."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.db"
        self.journal = Journal.open(self.path, Durability.OFF)
        self.writer: RunWriter = self.journal.create_run("r", _PLAN, "", {"inputs": {}})
        self.durable: list[tuple[Any, ...]] = []
        self.pending: list[tuple[Any, ...]] = [(EventType.START, None, None, None, None, {"inputs": {}})]

    def append(self, kind: EventType, fields: dict[str, Any]) -> None:
        body, place = fields.get("body"), fields.get("place", (None, None, None))
        step, item, attempt = place
        key = None if step is None else f"{name_in_key(step)}.{item}.{attempt}"
        self.writer.append(kind, key=key, body=body)
        self.pending.append((kind, key, *place, body))

    def intend(self, item: int, tool: str | None, times: int) -> None:
        body = None if tool is None else {"tool": tool}
        for attempt in range(1, times + 1):
            key = f"S1@2.{item}.{attempt}"
            self.writer.intend(key, tool)
            self.pending.append((EventType.INTENT, key, "S1", item, attempt, body))

    def commit(self, *, flush: bool = False) -> None:
        if flush:
            asyncio.run(self.writer.flush())
        else:
            self.writer.commit()
        self.durable += self.pending
        self.pending = []

    def begin_again(self, *, reopen: bool) -> None:
        self.writer.close()
        if reopen:
            self.journal.close()
            self.journal = Journal.open(self.path, Durability.OFF)
        if self.durable:
            self.writer = self.journal.claim("r")
            self.pending = []
        else:
            self.writer = self.journal.create_run("r", _PLAN, "", {"inputs": {}})
            self.pending = self.pending[:1]

    def check(self) -> None:
        if not self.durable:
            assert self.journal.runs() == []
            return
        events = list(self.journal.events("r"))
        assert [event.seq for event in events] == list(range(1, len(self.durable) + 1))
        said = [(e.type, e.key, e.step, e.index, e.attempt, e.body) for e in events]
        assert repr(said) == repr([tuple(row) for row in self.durable])
        assert self.journal.verify("r") is None


@settings(max_examples=40, deadline=None)
@given(acts=st.lists(_act, max_size=25))
def test_exactly_committed_events_are_read_back(acts: list[Any]) -> None:
    """For every history of appends, commits, losses and reopenings: events read = events committed."""
    with tempfile.TemporaryDirectory() as folder:
        history = _History(Path(folder))
        try:
            for act in acts:
                match act:
                    case "commit":
                        history.commit()
                    case "flush":
                        history.commit(flush=True)
                    case "status":
                        history.writer.set_status(RunStatus.WAITING)
                    case "claim again" | "lose":
                        history.begin_again(reopen=False)
                    case "reopen":
                        history.begin_again(reopen=True)
                    case (int() as item, tool, int() as times):
                        history.intend(item, tool, times)
                    case (EventType() as kind, dict() as fields):
                        history.append(kind, fields)
            history.check()
        finally:
            history.writer.close()
            history.journal.close()
