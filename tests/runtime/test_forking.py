"""Runs that branch off: with nothing changed they end like their parents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, plan_of, plan_texts
from tests.runtime.test_drivers_agree import LIMITS, SEEDS, ports_of, simulation

from callsheet.frontends.dag import parse_dag
from callsheet.ir import JSON, Plan
from callsheet.machine import CallTool, Limits, Machine, Result, Usage
from callsheet.machine.forecasting import is_known
from callsheet.machine.forecasting.partial_values import is_same
from callsheet.machine.keys import item_of, parse_key, place_of_key, visit_of
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.edits import Edits
from callsheet.runtime.forking import Forking, NeedsConsent, Revision, drafted, fork, rerun
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import resume_run, start_run
from callsheet.store import EventType, Journal
from callsheet.store.branch import generation_of
from callsheet.store.folded import Folded
from callsheet.store.start import Start
from callsheet.trace.replay import state_at_event

GOES_ROUND = """
@PARALLEL {
  S1: ?FOREACH ($i IN $a) THEN ?IF ($i != 2) THEN @READ ($i, $a) > $a
  S2: ?IF (NOT_EMPTY($a)) THEN GOTO S1
}
S3: @READ ($c) > $b
"""
SAME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ran(journal: Journal, plan: Plan, world: int, limits: Limits = LIMITS) -> tuple[str, Result]:
    run_id = f"run-{len(journal.runs())}"
    launch = Launch(facts=FACTS, inputs=INPUTS, limits=limits)
    ended = asyncio.run(start_run(plan, ports_of(world), launch, journal, run_id)).result
    assert ended is not None
    return run_id, ended


def resumed(journal: Journal, run_id: str, world: int) -> RunOutcome:
    @asynccontextmanager
    async def ports_for(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        yield ports_of(world)

    return asyncio.run(resume_run(journal, run_id, ports_for))


def comparable(result: Result) -> Result:
    """Without usage: early calls are repeated after an edit."""
    return replace(result, usage=Usage())


def continued(folded: Folded, world: int) -> Result:
    return folded.machine.result or simulation(folded.machine, world).go_on(list(folded.waiting.values()))


@given(plan_texts(), SEEDS, st.sampled_from(["sequential", "auto"]))
@SAME
def test_unchanged_fork_ends_like_parent(journal: Journal, text: str, world: int, schedule: Any) -> None:
    """At every event: in a group, in a loop, between two attempts; and nothing is in doubt."""
    run_id, ended = ran(journal, plan_of(text), world, replace(LIMITS, schedule=schedule))
    for at in range(1, journal.find_run(run_id).events + 1):
        made = fork(journal, run_id, at)
        assert made.folded.in_doubt() == {}
        assert continued(made.folded, world) == ended


def sets_again(before: Machine, there: Machine) -> bool:
    """Whether a step that had been done before began and ended within one event.

    Then what the event set first, in the place of which an edit stands, is not what is there behind it.
    """
    if before.program.plan != there.program.plan:
        return False  # a new plan has begun
    is_open = {place_of_key(key)[0] for key in there.open_keys()}
    visited = zip(there.program.steps, before.visits, there.visits, strict=True)
    return any(0 < first < now and code.id not in is_open for code, first, now in visited)


@given(plan_texts(), SEEDS, st.sampled_from(["sequential", "auto"]))
@example(GOES_ROUND, 0, "sequential")
@SAME
def test_edit_with_same_value_changes_nothing(journal: Journal, text: str, world: int, schedule: Any) -> None:
    run_id, ended = ran(journal, plan_of(text), world, replace(LIMITS, schedule=schedule))
    info = journal.find_run(run_id)
    for at in range(1, info.events):
        before, there = (state_at_event(journal, info, max(1, n))[1].machine for n in (at - 1, at))
        if fork(journal, run_id, at).folded.machine.result is None and not sets_again(before, there):
            made = fork(journal, run_id, at, Edits(there.variables()))
            assert comparable(continued(made.folded, world)) == comparable(ended)


@given(plan_texts(), SEEDS, st.integers(1, 10_000))
@SAME
def test_fork_is_complete_in_journal_and_continues(journal: Journal, text: str, world: int, at: int) -> None:
    """The local driver resumes it; its chain verifies, and its events equal those of the parent."""
    run_id, ended = ran(journal, plan_of(text), world)
    at = 1 + at % journal.find_run(run_id).events
    child = f"{run_id}-fork"
    fork(journal, run_id, at).write(journal, child)
    assert journal.verify(child) is None
    outcome = resumed(journal, child, world)
    assert outcome.result == ended
    assert journal.verify(child) is None
    before, after = (list(journal.events(name)) for name in (run_id, child))
    told = [(e.type, e.key, e.step, e.body, e.ts) for e in before[1:at]]
    assert [(e.type, e.key, e.step, e.body, e.ts) for e in after[1:at]] == told
    info = journal.find_run(child)
    assert (info.parent_run, info.forked_at, [c.run_id for c in journal.children(run_id)]) == (
        run_id,
        at,
        [child],
    )


@given(plan_texts(), SEEDS, st.sampled_from(["sequential", "auto"]))
@SAME
def test_rerun_from_any_visit_ends_like_parent(
    journal: Journal, text: str, world: int, schedule: Any
) -> None:
    run_id, ended = ran(journal, plan_of(text), world, replace(LIMITS, schedule=schedule))
    machine = fork(journal, run_id, journal.find_run(run_id).events).folded.machine
    for code, visits in zip(machine.program.steps, machine.visits, strict=True):
        for visit in range(1, visits + 1):
            made = rerun(journal, run_id, f"{machine.generation}{code.id}@{visit}")
            assert continued(made.folded, world) == ended


def check_foreseen(made: Forking, world: int) -> None:
    """Every call with side effects that the new run makes was shown, with its exact arguments if known."""
    again = simulation(made.folded.machine, world)
    if made.folded.machine.result is None:
        again.go_on(list(made.folded.waiting.values()))
    generation = generation_of(made.folded.machine)
    ahead = {(effect.step, effect.tool): effect for effect in made.effects}
    for launched in again.launched:
        call = launched.command
        if not isinstance(call, CallTool) or FACTS[call.tool].effect.only_reads:
            continue
        if parse_key(call.key).generation != generation:
            continue
        effect = ahead[call.step, call.tool]
        first = f"{item_of(call.key)}.1"
        shown = next((each for each in effect.calls if each.key in (call.key, first)), None)
        if shown is None:
            assert effect.repeats or effect.more is None or any(not each.key for each in effect.calls)
            continue
        assert shown.args.keys() == call.args.keys()
        for name, value in shown.args.items():
            assert not is_known(value) or is_same(value, call.args[name]), (call.key, name)


VALUES = st.sampled_from([[], [1, 2], "x", None, {"k": "v"}, 2])


@given(plan_texts(), SEEDS, st.integers(1, 10_000), VALUES, st.sampled_from(["sequential", "auto"]))
@settings(SAME, max_examples=80)
def test_all_calls_of_fork_are_shown_before(
    journal: Journal, text: str, world: int, at: int, value: JSON, schedule: Any
) -> None:
    """After any event, with a variable edited or not: in loops, groups, retries and after failures."""
    run_id, _ = ran(journal, plan_of(text), world, replace(LIMITS, schedule=schedule))
    events = journal.find_run(run_id).events
    for event in {1 + at % events, 1 + (at // 7) % events}:
        check_foreseen(fork(journal, run_id, event), world)
        if fork(journal, run_id, event).folded.machine.result is None:
            check_foreseen(fork(journal, run_id, event, Edits({"b": value})), world)


GROUP_AGAIN = """@PARALLEL {
  S1: ?FOREACH ($i IN $a) THEN @WRITE ("$i $b", $b) ON_FAIL GOTO S1
  S2: ?FOREACH ($i IN [1, 2, 3, 4, 5]) THEN @LLM_EXTRACT ($i, target="t") > $a ON_FAIL @RETRY(1)
}
S3: @RESPOND ("end $a", $b, $c)"""


@given(plan_texts(), SEEDS)
@example(GROUP_AGAIN, 1)
@SAME
def test_all_calls_of_rerun_are_shown_before(journal: Journal, text: str, world: int) -> None:
    run_id, _ = ran(journal, plan_of(text), world)
    machine = fork(journal, run_id, journal.find_run(run_id).events).folded.machine
    for code, visits in zip(machine.program.steps, machine.visits, strict=True):
        for visit in range(1, visits + 1):
            check_foreseen(rerun(journal, run_id, f"{machine.generation}{code.id}@{visit}"), world + 1)


def test_edited_argument_is_shown_as_it_will_be_sent(journal: Journal) -> None:
    plan = plan_of('S1: @READ (1) > $a\nS2: @WRITE ("old/$b", 1)\nS3: @WRITE ($a, 2) > $c\nS4: @WRITE ($c)')
    run_id, _ = ran(journal, plan, 0)
    edits = Edits(arguments={("S2", "0"): "new"}, variables={"a": "set"})
    draft = drafted(journal, run_id, edits)
    made = fork(journal, run_id, 3, edits, Revision(draft.plan, FACTS, {}))
    second, third, fourth = made.effects
    assert second.lines() == [f'next, instead of event 4 of {run_id}: x="old/start $a" → "new", y=1']
    assert third.lines()[0].endswith('→ "set", y=2')
    assert "→ <WRITE result>" in fourth.lines()[0]
    made.require_consent(made.consent, "")
    with pytest.raises(NeedsConsent, match="S2 @WRITE"):
        made.require_consent(fork(journal, run_id, 3).consent, "")


LEFT_BY_FAILURE = """S1: ?FOREACH ($i IN $a) THEN @READ ($i, $a)
@PARALLEL {
  S2: ?FOREACH ($i IN $a) THEN ?IF ($i != 2) THEN @READ ($i, $a) ON_FAIL GOTO S1
  S3: ?FOREACH ($i IN $a) THEN @READ ($i, $a) > $a
  S4: GOTO S1
}
S5: @RESPOND ("end $a", $b, $c)"""


@given(plan_texts(), SEEDS)
@example(LEFT_BY_FAILURE, 518)
@SAME
def test_rerun_repeats_calls_of_its_step_that_left_early(journal: Journal, text: str, world: int) -> None:
    """After a failed item, others are not due: how many have left by then depends on durations alone."""
    run_id, _ = ran(journal, plan_of(text), world, replace(LIMITS, schedule="auto"))
    machine = fork(journal, run_id, journal.find_run(run_id).events).folded.machine
    events = list(journal.events(run_id))
    made = [event.key or "" for event in events if event.type is EventType.INTENT]
    failed = [event.key or "" for event in events if event.type is EventType.ERR]
    for code, visits in zip(machine.program.steps, machine.visits, strict=True):
        for visit in range(1, visits + 1):
            place = f"{machine.generation}{code.id}@{visit}"
            begun = rerun(journal, run_id, place).folded
            names = (place, place.removesuffix("@1"))
            last = min((place_of_key(key)[1] for key in failed if visit_of(key) in names), default=inf)
            of_visit = {key for key in made if visit_of(key) in names and place_of_key(key)[1] <= last}
            again = simulation(begun.machine, world)
            if begun.machine.result is None:
                again.go_on(list(begun.waiting.values()))
            assert of_visit <= {getattr(one.command, "key", "") for one in again.launched}, place


def test_edited_plan_keeps_pins_and_servers_of_parent(journal: Journal) -> None:
    plan = plan_of("S1: @READ (1) > $a\nS2: @READ (2) > $b")
    launch = Launch(facts=FACTS, pins={"READ": "first"}, note={"servers": {"READ": ["docs"]}})
    asyncio.run(start_run(plan, ports_of(0), launch, journal, "r"))
    edits = Edits(steps={"S2": "S2: @WRITE (2) > $b"})
    now = {"READ": "second", "WRITE": "third"}
    revision = Revision(
        drafted(journal, "r", edits).plan, FACTS, now, servers={"READ": ["evil"], "WRITE": ["files"]}
    )

    fork(journal, "r", 1, edits, revision).write(journal, "child")

    body = next(iter(journal.events("child"))).body
    assert body is not None
    start = Start.from_json(body)
    assert dict(start.pins) == {"READ": "first", "WRITE": "third"}
    assert start.servers == {"READ": "docs", "WRITE": "files"}


# ---------------------------------------------------------------- graphs


@st.composite
def graphs(draw: st.DrawFn) -> Plan:
    """Graphs whose steps are called 1, 2, … and read their dependencies."""
    count = draw(st.integers(1, 6))
    lines: list[dict[str, Any]] = []
    for n in range(1, count + 1):
        before = sorted(draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
        lines.append(
            {
                "index": str(n),
                "title": str(n),
                "tool": draw(st.sampled_from(["read", "write", "faulty"])),
                "args": {"x": " ".join(f"${{v{m}}}" for m in before), "y": n},
                "depends_on": [str(m) for m in before],
                "result_variable": f"v{n}",
            }
        )
    return parse_dag(json.dumps({"title": "p", "steps": lines})).require()


@given(graphs(), SEEDS, st.sampled_from([1, 2, 16]))
@SAME
def test_graph_forked_at_any_event_ends_like_parent(
    journal: Journal, plan: Plan, world: int, at_once: int
) -> None:
    run_id, ended = ran(journal, plan, world, replace(LIMITS, max_concurrency=at_once))
    for at in range(1, journal.find_run(run_id).events + 1):
        made = fork(journal, run_id, at)
        assert made.folded.in_doubt() == {}
        assert continued(made.folded, world) == ended


@given(graphs(), SEEDS)
@SAME
def test_graph_rerun_repeats_only_dependents_of_step(journal: Journal, plan: Plan, world: int) -> None:
    run_id, ended = ran(journal, plan, world, replace(LIMITS, max_concurrency=16))
    begun = {event.step for event in journal.events(run_id) if event.type is EventType.INTENT}
    for step in plan.steps:
        if step.id not in begun:
            continue
        made = rerun(journal, run_id, step.id)
        check_foreseen(rerun(journal, run_id, step.id), world + 1)
        simulated = simulation(made.folded.machine, world)
        assert simulated.go_on(list(made.folded.waiting.values())) == ended
        again = {one.command.step for one in simulated.launched if isinstance(one.command, CallTool)}
        assert again == {id_ for id_ in cone(plan, step.id) if id_ in begun}


def cone(plan: Plan, first: str) -> set[str]:
    found = {first}
    for step in plan.steps:
        if found & {*(step.depends_on or ())}:
            found.add(step.id)
    return found
