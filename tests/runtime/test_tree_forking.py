"""Runs of plans with blocks that branch off: unchanged they end like their parents; edits inside blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS
from tests.runtime.test_drivers_agree import SEEDS, ports_of, simulation
from tests.structured_plans import programs

from callsheet import CallsheetError, RunResult, Runtime, tool
from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, Plan
from callsheet.ir.labels import read_label
from callsheet.ir.tree import Act, acts
from callsheet.machine import CallTool, Limits, Machine, Result
from callsheet.machine.forecasting import is_known
from callsheet.machine.forecasting.partial_values import is_same
from callsheet.machine.keys import item_of, place_of_key
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.machine.tree.statements import as_argument
from callsheet.machine.tree.variables import names_in, scopes_under_way
from callsheet.policy.model import Policy, ToolRule
from callsheet.runtime.edits import Edits
from callsheet.runtime.effects import EffectAhead
from callsheet.runtime.forking import Forking, beginning_of, fork
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import start_run
from callsheet.store import Journal, JournalError
from callsheet.trace.replay import state_at_event

LIMITS = Limits(max_steps=500, window=3, retry_delay=0.0)
SAME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ran(journal: Journal, plan: Plan, world: int) -> tuple[str, Result]:
    run_id = f"run-{len(journal.runs())}"
    launch = Launch(facts={**FACTS, **OWN_FACTS}, inputs={**INPUTS, "b": 1}, limits=LIMITS)
    ended = asyncio.run(start_run(plan, ports_of(world), launch, journal, run_id)).result
    assert ended is not None
    return run_id, ended


def continued(made: Forking, world: int) -> Result:
    machine = made.folded.machine
    return machine.result or simulation(machine, world).go_on(list(made.folded.waiting.values()))


def without_usage(result: Result) -> tuple[Any, ...]:
    return result.status, result.answer, result.error, result.variables


@given(programs(), SEEDS)
@SAME
def test_unchanged_fork_ends_like_parent(journal: Journal, plan: Plan, world: int) -> None:
    run_id, ended = ran(journal, plan, world)
    for at in range(1, journal.find_run(run_id).events + 1):
        made = fork(journal, run_id, at)
        assert made.folded.in_doubt() == {}
        assert without_usage(continued(made, world)) == without_usage(ended)


def plain_variables(machine: Machine) -> dict[str, JSON]:
    """The variables whose values are JSON data, by name and place."""
    found: dict[str, JSON] = {}
    for place, act in scopes_under_way(machine).items():
        for name, value in zip(act.body.names, act.slots, strict=True):
            is_data = type(value) in (int, str, list, dict) and as_argument(value) is value
            if is_data and name in names_in(act):
                found[f"{place}/{name}" if place else name] = value
    return found


@given(programs(), SEEDS)
@SAME
def test_edit_of_what_an_event_left_alone_with_the_same_value_changes_nothing(
    journal: Journal, plan: Plan, world: int
) -> None:
    run_id, ended = ran(journal, plan, world)
    info = journal.find_run(run_id)
    for at in range(2, info.events):
        event, there = state_at_event(journal, info, at)
        _, before = state_at_event(journal, info, at - 1)
        if there.machine.result is not None:
            continue
        had, has = plain_variables(before.machine), plain_variables(there.machine)
        step = "" if event.key is None else place_of_key(event.key)[0]
        own = {one.into.name for one in _acts(plan) if one.id == step and one.into is not None}
        same = {n: v for n, v in has.items() if n in had and had[n] == v and n.rpartition("/")[2] not in own}
        made = fork(journal, run_id, at, Edits(same))
        assert without_usage(continued(made, world)) == without_usage(ended)


def _acts(plan: Plan) -> list[Act]:
    assert plan.tree is not None
    return [*acts(plan.tree)]


VALUES = st.sampled_from([[], [1, 2], "x", {"k": "v"}, 2])


TRIED_AGAIN = read_structured("""# ltp: 2
INPUT $a: json
INPUT $b: json = 1
S2: @FAULTY (x=$b) > $v2 ON_FAIL USE (1)
TRY {
  S3: ?FOREACH ($i IN [1, 2, 3]) {
    S4: @KEEP (x=$i) > $v5
    REQUIRE (bool($v2)) "must"
  }
} ON_FAIL @RETRY(1, delay=0)
@RESPOND (1)
""").require()


HANDLED = read_structured("""# ltp: 2
INPUT $a: json
INPUT $b: json = 1
TRY {
  S3: @READ (x=1) ON_FAIL USE (1)
  REQUIRE (False) "must"
} ON_FAIL @RETRY(2, delay=0) ON_FAIL {
  S4: @KEEP (x=1) ON_FAIL USE (1)
}
S5: @KEEP (x=2) ON_FAIL USE (1)
@RESPOND (1)
""").require()


@given(programs(), SEEDS, st.integers(0, 10_000), VALUES)
@example(TRIED_AGAIN, 3, 1, [])
@example(HANDLED, 3, 2, [])
@example(HANDLED, 3, 3, [])
@example(HANDLED, 3, 4, [])
@example(HANDLED, 3, 5, [])
@SAME
def test_every_call_with_effects_that_a_fork_makes_was_shown(
    journal: Journal, plan: Plan, world: int, number: int, value: JSON
) -> None:
    run_id, _ = ran(journal, plan, world)
    info = journal.find_run(run_id)
    at = 2 + number % (info.events - 1)
    there = state_at_event(journal, info, at)[1]
    names = [name for name in plain_variables(there.machine) if name not in ("a", "b")]
    edits = Edits({names[number % len(names)]: value} if names and there.machine.result is None else {})
    made = fork(journal, run_id, at, edits)
    effects = {(effect.step, effect.tool): effect for effect in made.effects}
    again = simulation(made.folded.machine, world)
    if made.folded.machine.result is None:
        again.go_on(list(made.folded.waiting.values()))
    for launched in again.launched:
        call = launched.command
        if isinstance(call, CallTool) and not FACTS[call.tool].effect.only_reads:
            effect = effects[call.step, call.tool]
            place = item_of(call.key)
            shown = next((one for one in effect.calls if one.key and item_of(one.key) == place), None)
            assert shown is not None or effect.repeats or any(not one.key for one in effect.calls)
            exact = {} if shown is None else dict(shown.args)
            assert all(not is_known(exact[name]) or is_same(exact[name], call.args[name]) for name in exact)


TEXT = """# ltp: 2
INPUT $items: list[int]
PLAN one ($n: int) -> str {
  LET $m = $n + 1
  A1: @PUT (n=$m) > $r
  A2: @PUT (n=$m * 10) > $s
  RETURN ("${r} ${s}")
}
LET $left = 100
S2: ?FOREACH ($x IN $items) {
  SET $left = $left - $x
  S3: CALL one (n=$x) > $r
  YIELD ("${r} ${left}")
} > $rows
S5: ?REPEAT (max=5) {
  S6: @PUT (n=$left) > $p
  SET $left = $left - 1
} UNTIL ($left < 97)
@RESPOND ({"rows": $rows, "left": $left})
"""
POLICY = Policy(
    tools={"PUT": ToolRule(egress=False, destructive=False, idempotent=False, returns=read_label("T/pub"))}
)


def runtime(folder: Path, made: list[int], policy: Policy | None = None) -> Runtime:
    @tool
    def put(n: int) -> str:
        made.append(n)
        return str(n)

    return Runtime([put], journal=folder / "j.db", policy=policy)


def rows(run: RunResult) -> Any:
    """The list that a run answers with."""
    answer: Any = run.answer
    return answer["rows"]


def event_of(calls: Runtime, run_id: str, key: str) -> int:
    """The event with the outcome of a call."""
    events = calls.tail_sync(run_id)
    return next(each.seq for each in events if each.key == key and each.type == "ok")


@pytest.mark.parametrize("policy", [None, POLICY], ids=["free", "under a policy"])
def test_variables_of_items_sub_plans_and_outer_ones_are_edited_where_they_are(
    tmp_path: Path, policy: Policy | None
) -> None:
    made = list[int]()
    calls = runtime(tmp_path, made, policy)
    run = calls.run_sync(TEXT, {"items": [1, 2]})
    assert run.answer == {"rows": ["2 20 99", "3 30 97"], "left": 96}
    made.clear()

    at = event_of(calls, run.run_id, "S2[0]/S3/A1.1")
    moment = calls.at_sync(run.run_id, at)
    assert moment.variables["S2[0]/left"] == 99
    assert (moment.variables["left"], moment.variables["S2[0]/S3/m"]) == (100, 2)
    inner = calls.fork_sync(run.run_id, at, variables={"S2[0]/S3/m": 7, "S2[0]/left": 1}, effects=True)
    assert rows(inner) == ["2 70 1", "3 30 -1"]
    assert made == [70, 3, 30, -1]

    outer = calls.fork_sync(run.run_id, at, variables={"left": 50}, effects=True)
    assert rows(outer) == ["2 20 50", "3 30 48"]  # the item under way sees it

    own = calls.fork_sync(run.run_id, at, variables={"S2[0]/S3/r": "mine"}, effects=True)
    assert rows(own)[0] == "mine 20 99"  # over what the event itself gives

    next_item = event_of(calls, run.run_id, "S2[0]/S3/A2.1")
    begun = calls.fork_sync(run.run_id, next_item, variables={"S2[1]/x": 5}, effects=True)
    assert rows(begun) == ["2 20 99", "6 60 94"]

    end = event_of(calls, run.run_id, "S2[1]/S3/A2.1")
    listed = calls.fork_sync(run.run_id, end, variables={"rows": ["mine"]}, effects=True)
    assert rows(listed) == ["mine"]  # the event itself has ended the loop
    assert "set by hand in the fork" in str(calls.why_sync(listed.run_id, "rows"))
    assert "$left = 50  ·  set by hand in the fork" in str(calls.why_sync(outer.run_id, "rows"))
    trace = calls.lctl_sync(outer.run_id).trace or ()
    agents = [entry.agent for entry in trace]
    assert agents[agents.index("edit1:operator") - 1] == "S2[0]/S3/A1:@PUT"  # where it happened


def test_steps_inside_blocks_are_edited_unless_they_have_begun(tmp_path: Path) -> None:
    made = list[int]()
    calls = runtime(tmp_path, made)
    run = calls.run_sync(TEXT, {"items": [1]})
    made.clear()
    at = event_of(calls, run.run_id, "S2[0]/S3/A1.1")
    forked = calls.fork_sync(
        run.run_id,
        at,
        arguments={("A2", "n"): 5},
        steps={"S6": "@PUT (n=1) > $p ON_FAIL CONTINUE"},
        effects=True,
    )
    assert rows(forked) == ["2 5 99"]
    assert made == [5, 1, 1, 1]

    for steps, arguments, code in (
        ({"A1": "@PUT (n=3) > $r"}, {}, "JRN082"),
        ({}, {("A9", "n"): 1}, "JRN084"),
        ({"S6": "?REPEAT (max=2) {"}, {}, "LTP"),
    ):
        with pytest.raises(CallsheetError) as refused:
            calls.fork_sync(run.run_id, at, steps=steps, arguments=arguments, effects=True)
        assert refused.value.diagnostics[0].code.startswith(code)
    for variables, words in (
        ({"lft": 1}, "no variable $lft"),
        ({"x": 1}, "no variable $x"),
        ({"items": "x"}, "$items cannot be that"),
    ):
        with pytest.raises(CallsheetError) as refused:
            calls.fork_sync(run.run_id, at, variables=variables, effects=True)
        assert words in str(refused.value)


def test_events_before_which_statements_begin_are_found_by_their_places(tmp_path: Path) -> None:
    calls = runtime(tmp_path, [])
    run = calls.run_sync(TEXT, {"items": [1, 0]})
    with Journal.open(tmp_path / "j.db") as journal:
        at = {
            place: beginning_of(journal, run.run_id, place)
            for place in ("S2", "S3", "S3@2", "S2[1]/S3", "A2", "S2[1]/S3/A2", "S5[#2]/S6", "S6@2")
        }
        ok = {each.key: each.seq for each in calls.tail_sync(run.run_id) if each.type == "ok"}
        assert at["S2"] == at["S3"] == 1
        assert at["S3@2"] == at["S2[1]/S3"] == ok["S2[0]/S3/A2.1"]
        assert (at["A2"], at["S2[1]/S3/A2"]) == (ok["S2[0]/S3/A1.1"], ok["S2[1]/S3/A1.1"])
        assert at["S5[#2]/S6"] == at["S6@2"] == ok["S5[#1]/S6.1"]
        for place in ("S6@9", "S9", "S2[2]/S3"):
            with pytest.raises(JournalError, match="JRN081"):
                beginning_of(journal, run.run_id, place)


def test_preview_of_a_fork_is_exact_where_nothing_ahead_changes_what_is_read(tmp_path: Path) -> None:
    calls = runtime(tmp_path, [])
    run = calls.run_sync(TEXT, {"items": [1]})
    at = event_of(calls, run.run_id, "S2[0]/S3/A1.1")
    shown = list[str]()

    def refused(effects: Sequence[EffectAhead]) -> bool:
        shown.extend(map(str, effects))
        return False

    with pytest.raises(CallsheetError):
        calls.fork_sync(run.run_id, at, variables={"S2[0]/S3/m": 7}, effects=refused)
    assert "next, instead of event 4" in shown[0]
    assert "n=20 → 70" in shown[0]
    assert "for each round: n=<$left>" in shown[1]
