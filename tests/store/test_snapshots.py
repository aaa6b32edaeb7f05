"""A run restored from a snapshot has the same state as one replayed from its start."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, plan_of, plan_texts
from tests.runtime.test_drivers_agree import ports_of, simulation

from callsheet.frontends.dag import parse_dag
from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, Effect, Plan
from callsheet.machine import CallTool, Decision, Limits, Status, ToolFacts, compiling
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime import recording
from callsheet.runtime.answers import Answer
from callsheet.runtime.doubt import decide_calls
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.inbox import answer_run
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.store import Durability, EventType, Journal
from callsheet.store.chain import BadEvent
from callsheet.store.folded import Folded
from callsheet.store.replay import current_state, fold, fold_on, restored, start_from
from callsheet.store.snapshots import SnapshotIntervals, StoredParts, UnusableSnapshot
from callsheet.store.start import Start
from callsheet.trace.replay import state_at_event

LIMITS = Limits(max_steps=25, window=3, retry_delay=0.0)
SEEDS = st.integers(0, 2**32 - 1)
LONG = "a value that is long enough not to be written again and again, " * 4


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots at every possible point."""
    monkeypatch.setattr(recording, "INTERVALS", SnapshotIntervals(first=1, every=1, event_bytes=1 << 60))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.db", Durability.OFF) as opened:
        yield opened


def facts_of(folded: Folded) -> dict[str, Any]:
    """The complete result of a fold, for comparison."""
    book, machine = folded.side_record, folded.machine
    keys = folded.waiting.keys()
    return {
        "waiting": folded.waiting,
        "variables": repr(machine.variables()),
        "steps": machine.steps_executed,
        "open": sorted(machine.open_keys()),
        "result": machine.result,
        "facts": book.facts,
        "launched": {key: at for key, at in book.launched.items() if key in keys},
        "due": {key: at for key, at in book.due.items() if key in keys},
        "asked": {key for key in book.asked if key in keys},
        "doubts": folded.in_doubt(),
        "decided": folded.decided.keys(),
        "moved": book.moved,
        "posed": {d: book.posed[d] for d in (a.digest for _, a in machine.asking.open()) if d in book.posed},
        "ended": folded.ended,
    }


@pytest.fixture(params=[0, 1_000], ids=["on demand", "in advance"])
def programs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs whose steps are compiled on demand, as in long plans, or in advance."""
    monkeypatch.setattr(compiling, "_WORTH", request.param)


@given(plan_texts(), SEEDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_snapshot_plus_later_events_equals_full_replay(
    always: None, journal: Journal, programs: None, text: str, world: int
) -> None:
    """For every snapshot and every later event: the same state, open calls, times and doubts."""
    plan = plan_of(text)
    run_id = f"run-{len(journal.runs())}"
    launch = Launch(facts=FACTS, inputs={**INPUTS, "long": [LONG]}, limits=LIMITS, source=text)
    ended = asyncio.run(start_run(plan, ports_of(world), launch, journal, run_id)).result
    rows = list(journal.events(run_id))

    def plan_by(name: str) -> Plan:
        return journal.plan_of(name)

    start = start_from(rows[0].type, rows[0].body)
    from_start = [facts_of(fold(plan, rows[:upto], plan_by)) for upto in range(1, len(rows) + 1)]
    for at, row in enumerate(rows):
        if row.type is not EventType.SNAPSHOT:
            continue

        def again(body: dict[str, Any] = row.body or {}) -> Folded:
            return restored(
                plan, start, body, StoredParts(lambda seqs: journal.bodies(run_id, seqs), plan_by)
            )

        from_it = again()
        for one, expected in zip(rows[at:], from_start[at:], strict=True):
            assert facts_of(fold_on(from_it, [one], plan_by)) == expected
        assert facts_of(fold_on(again(), rows[at:], plan_by)) == from_start[-1]
        machine = again().machine
        assert simulation(machine, world).go_on(list(again().waiting.values())) == ended
    assert journal.verify(run_id) is None
    state = current_state(journal, run_id, plan)
    assert isinstance(state, Folded)
    assert state.machine.result == ended


ASKING = """
@PARALLEL {
  S1: @READ ("x") > $a
  S2: @WRITE ("y") > $b
  S3: @ASK_HUMAN ("well?", timeout="3d") > $c
  S4: @KEEP ("z") > $d
}
S5: ?FOREACH ($i IN [1, 2]) THEN @WRITE ($i) > $e
S6: @RESPOND ("$a $b $c $d")
"""
GRAPH = {
    "title": "g",
    "steps": [
        {
            "index": "1",
            "title": "x",
            "tool": "read",
            "args": {"x": 1},
            "depends_on": [],
            "result_variable": "a",
        },
        {
            "index": "2",
            "title": "x",
            "tool": "write",
            "args": {"x": 2},
            "depends_on": [],
            "result_variable": "b",
        },
        {"index": "3", "title": "x", "tool": "write", "args": {"x": "${a}"}, "depends_on": ["1"]},
        {"index": "4", "title": "x", "tool": "keep", "args": {"x": "${b}"}, "depends_on": ["2"]},
        {"index": "5", "title": "x", "tool": "read", "args": {"x": 5}, "depends_on": ["3", "4"]},
    ],
}


@pytest.mark.parametrize(
    "plan", [plan_of(ASKING), parse_dag(json.dumps(GRAPH)).require()], ids=["text", "graph"]
)
async def test_run_with_questions_and_doubts_resumes_from_last_snapshot(
    always: None, journal: Journal, monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    """Each answer and decision in a separate process: no earlier event is read."""
    lost: set[str] = set()

    def route(name: str) -> Route:
        async def call(args: dict[str, Any], context: CallContext) -> JSON:
            if name == "WRITE" and context.key not in lost:
                lost.add(context.key)
                raise ToolFailed("no answer", in_doubt=True)
            return [LONG, context.key]

        return Route(call)

    @asynccontextmanager
    async def ports_for(start: Start, plan: Plan) -> AsyncIterator[Ports]:
        assert start.launch["setup"] == {"workspace": "new"}
        yield Ports(route)

    def stood() -> Folded:
        whole = fold(plan, journal.events("r"), journal.plan_of)
        state = current_state(journal, "r", plan)
        assert isinstance(state, Folded)
        assert facts_of(state) == facts_of(whole)
        return state

    note = {"setup": {"workspace": "old"}}
    launch = Launch(facts=FACTS, inputs={"long": LONG}, limits=LIMITS, approve=("WRITE",), note=note)
    outcome = await start_run(plan, Ports(route), launch, journal, "r")
    rounds = 0
    while outcome.result is None:
        rounds += 1
        whole_events = [event.type for event in journal.events("r")]
        assert EventType.SNAPSHOT in whole_events
        state = stood()
        assert len(state.in_doubt()) == len(outcome.in_doubt)
        for ask in outcome.waiting:
            answer_run(
                journal, "r", Answer.approve() if ask.kind == "approval" else Answer.of("fine"), ask.key
            )
        if outcome.in_doubt:
            decide_calls(journal, "r", [outcome.in_doubt[0].key], Decision.RETRY)
            stood()
        moved = Amendments(places={"workspace": "new"} if rounds == 1 else {})
        outcome = await resume_run(journal, "r", ports_for, moved, Watch(hears_all=False))
        assert rounds < 20
    assert outcome.result.status is Status.DONE
    assert rounds > 3
    assert journal.verify("r") is None


TEXT = """
S1: @READ ("x") > $a
S2: ?FOREACH ($i IN [1, 2, 3]) THEN @READ ($i) > $b
S3: @READ ($a) > $c
S4: @WRITE ("$c") > $d
S5: @RESPOND ("$a $b $d")
"""


async def interrupted_at_write(journal: Journal, run_id: str = "r") -> Plan:
    """A run whose process ends during its write."""
    plan = plan_of(TEXT)
    under_way = asyncio.Event()

    def route(name: str) -> Route:
        async def call(args: dict[str, Any], context: CallContext) -> JSON:
            if name == "WRITE":
                under_way.set()
                await asyncio.sleep(3600)
            return [LONG, context.key]

        return Route(call)

    launch = Launch(facts=FACTS, inputs={"long": LONG}, limits=LIMITS)
    running = asyncio.create_task(start_run(plan, Ports(route), launch, journal, run_id))
    await under_way.wait()
    running.cancel()
    await asyncio.wait([running])
    return plan


def snapshots(journal: Journal, run_id: str = "r") -> list[Any]:
    return [event for event in journal.events(run_id) if event.type is EventType.SNAPSHOT]


async def test_value_is_stored_once(always: None, journal: Journal) -> None:
    await interrupted_at_write(journal)
    *_, last = snapshots(journal)
    assert LONG not in json.dumps(last.body)
    assert last.size < 1_500


async def test_run_resumes_from_last_snapshot(
    always: None, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await interrupted_at_write(journal)
    whole = fold(plan, journal.events("r"), journal.plan_of)
    read: list[int] = []
    last = snapshots(journal)[-1].seq
    events = Journal.events
    monkeypatch.setattr(
        Journal, "events", lambda self, run, after=0: read.append(after) or events(self, run, after)
    )
    state = current_state(journal, "r", plan)
    assert isinstance(state, Folded)
    assert facts_of(state) == facts_of(whole)
    (command,) = state.in_doubt().values()
    assert isinstance(command, CallTool)
    assert LONG in command.args["x"]
    assert read == [last - 1]


def change(journal: Journal, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(journal.path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


async def test_modified_value_is_never_used(always: None, journal: Journal) -> None:
    """The snapshot refers to the event of the value; if that was changed, the first bad event is reported."""
    plan = await interrupted_at_write(journal)
    change(
        journal,
        "UPDATE events SET body = CAST(replace(CAST(body AS TEXT), 'again', 'AGAIN') AS BLOB)"
        " WHERE key = 'S1.0.1' AND type = 'ok'",
    )
    bad = current_state(journal, "r", plan)
    assert isinstance(bad, BadEvent)
    assert bad == journal.verify("r")


async def test_edited_snapshot_is_detected(always: None, journal: Journal) -> None:
    plan = await interrupted_at_write(journal)
    last = snapshots(journal)[-1]
    change(
        journal,
        """UPDATE events SET body = replace(CAST(body AS TEXT), '"steps_executed":', '"steps_executed":1')
           WHERE id & 0xffffffff = ?""",
        last.seq,
    )
    bad = current_state(journal, "r", plan)
    assert isinstance(bad, BadEvent)
    assert bad.seq == last.seq


@pytest.mark.parametrize("fault", ["format", "state", "values", "seqs"])
async def test_mismatched_snapshot_is_skipped(
    always: None, journal: Journal, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example one of another version: a full replay gives the same."""
    body_of = recording.body_of

    def other(*given: Any) -> dict[str, Any] | None:
        body = body_of(*given)
        return (
            None
            if body is None
            else {**body, fault: {"format": 9, "state": {}, "values": "", "seqs": [3]}[fault]}
        )

    monkeypatch.setattr(recording, "body_of", other)
    plan = await interrupted_at_write(journal)
    assert snapshots(journal)
    start = start_from("start", next(journal.events("r")).body)
    body = snapshots(journal)[-1].body
    with pytest.raises(UnusableSnapshot):
        restored(plan, start, body, StoredParts(lambda seqs: journal.bodies("r", seqs), lambda name: plan))
    state = current_state(journal, "r", plan)
    whole = fold(plan, journal.events("r"), journal.plan_of)
    assert isinstance(state, Folded)
    assert facts_of(state) == facts_of(whole)


def test_snapshots_stay_fraction_of_journal() -> None:
    """The larger a snapshot, the longer until the next: together at most a byte for 25 bytes of events."""
    intervals = SnapshotIntervals()
    assert intervals.next_after(0, 0) == 8_000
    assert intervals.next_after(8_001, 500) == 9_001
    assert intervals.next_after(8_001, 1_000_000) == 48_001


async def test_short_run_has_no_snapshot(journal: Journal) -> None:
    await interrupted_at_write(journal)
    assert snapshots(journal) == []


async def test_unneeded_values_are_dropped(
    always: None, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that updates one variable keeps only its last result in memory."""
    from callsheet.store import snapshots as module

    monkeypatch.setattr(module, "_PRUNE_BYTES", 10_000)
    monkeypatch.setattr(recording, "INTERVALS", SnapshotIntervals(first=10**9))
    sizes: list[int] = []
    saw = module.Values.saw

    def watched(self: Any, *given: Any) -> bool:
        answer = saw(self, *given)
        sizes.append(len(self._known))
        return answer

    monkeypatch.setattr(module.Values, "saw", watched)

    async def long(args: dict[str, Any], context: CallContext) -> JSON:
        return f"{context.key} {LONG}"

    plan = plan_of("S1: @READ (1) > $a\nS2: GOTO S1")
    launch = Launch(facts={"READ": ToolFacts(Effect.READ)}, limits=Limits(max_steps=2_000))
    outcome = await start_run(plan, Ports(lambda name: Route(long)), launch, journal, "loop")
    assert outcome.result is not None
    assert len(sizes) > 900
    assert max(sizes) < 60


def written_bytes() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


async def test_run_writes_less_than_two_and_half_times_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log, database, plan and snapshots together, with a snapshot every hundred events."""
    monkeypatch.setattr(recording, "INTERVALS", SnapshotIntervals(first=100, every=100))

    async def large(args: dict[str, Any], context: CallContext) -> JSON:
        await asyncio.sleep(0)  # what ends at once is recorded in groups
        return context.key.ljust(10_000, "x")

    steps = 400
    plan = plan_of("\n".join(f"S{n}: @READ ({n}) > $v{n}" for n in range(steps)))
    before = written_bytes()
    with Journal.open(tmp_path / "journal.db", Durability.NORMAL) as journal:
        await start_run(plan, Ports(lambda name: Route(large)), Launch(facts=FACTS), journal, "r")
        assert len(snapshots(journal)) > 3
    assert written_bytes() - before < 2.5 * steps * 10_000


@given(plan_texts(), SEEDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_state_at_each_event_equals_replay_up_to_it(
    journal: Journal, always: None, text: str, world: int
) -> None:
    """With any snapshots before and after the event."""
    run_id, plan = f"run-{len(journal.runs())}", plan_of(text)
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=LIMITS)
    asyncio.run(start_run(plan, ports_of(world), launch, journal, run_id))
    info = journal.find_run(run_id)
    for seq in range(1, info.events + 1):
        upto = [event for event in journal.events(run_id) if event.seq <= seq]
        event, folded = state_at_event(journal, info, seq)
        assert event == upto[-1]
        assert facts_of(folded) == facts_of(fold(plan, upto, journal.plan_of))


async def test_number_that_no_snapshot_can_hold_ends_no_run(always: None, journal: Journal) -> None:
    async def read(args: dict[str, Any], context: CallContext) -> JSON:
        return "text"

    plan = read_structured("# ltp: 2\nLET $n = 10 ** 5000\nS1: @READ () > $a\n@RESPOND ($a)").require()
    launch = Launch(facts={"READ": ToolFacts(Effect.READ)})
    outcome = await start_run(plan, Ports(lambda name: Route(read)), launch, journal, "r")
    assert outcome.result is not None
    assert outcome.result.response == "text"
    assert snapshots(journal) == []
