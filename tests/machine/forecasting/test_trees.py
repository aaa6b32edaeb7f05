"""Forecasts of plans with blocks: what is certain, what depends; every call of a run is foreseen."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from tests.plans import FACTS
from tests.structured_plans import programs

from callsheet.frontends.spelling import read_plan_text
from callsheet.ir import Plan
from callsheet.ir.tree_edits import plan_of_tree
from callsheet.machine import CallTool, Failed, Machine, Started, Succeeded, compile_plan
from callsheet.machine.commands import CallModel, RunAgent, Sleep
from callsheet.machine.events import TimerFired
from callsheet.machine.forecasting import (
    Forecast,
    Knowledge,
    StepForecast,
    When,
    foresee,
    is_known,
    totals_of,
)
from callsheet.machine.keys import parse_key
from callsheet.views.dry_run import dry_run_text
from callsheet.views.dry_run_data import dry_run_json


def plan_of(text: str) -> Plan:
    return read_plan_text(f"# ltp: 2\n{text}", "plan.ltp").result.require()


def told(text: str, inputs: dict[str, Any] | None = None, **knowledge: Any) -> dict[str, StepForecast]:
    return {
        step.step.id: step
        for step in foresee(plan_of(text), inputs, Knowledge(facts=FACTS, **knowledge)).steps
    }


def test_undecided_condition_is_walked_both_ways_and_a_decided_one_only_once() -> None:
    text = """S1: @READ (x=1) > $a
S2: ?IF ($a == 1) {
  S3: @WRITE (x=$a)
} ELSE {
  S4: @WRITE (x=2)
}
S5: ?IF (1 > 2) {
  S6: @WRITE (x=3)
}"""

    steps = told(text)

    assert [steps[i].when for i in ("S1", "S3", "S4", "S6")] == [
        When.ALWAYS,
        When.MAYBE,
        When.MAYBE,
        When.NEVER,
    ]
    assert steps["S6"].why_not == "the condition does not hold"
    assert told(text, assumed={"S1": 1})["S3"].visits[0].arguments == (("x", 1),)
    assert told(text, assumed={"S1": 1})["S4"].when is When.NEVER


def test_a_value_that_cannot_be_computed_is_why_nothing_follows_it() -> None:
    steps = told(
        "S1: @READ (x=1) > $a\nLET $b = 1 // $a\n?IF ($b > 1) {\n  S2: @WRITE (x=$b)\n}", assumed={"S1": 0}
    )
    assert steps["S2"].why_not == "let1 fails: integer division or modulo by zero"


def test_what_a_sure_failure_stops_is_not_certain() -> None:
    """Only the first call of each task is sure, before and behind the one that fails."""
    two = "TRY {\n    S1: @READ (x=1)\n    S2: @WRITE (x=2)\n  } ON_FAIL CONTINUE"
    behind = f'@PARALLEL STOP {{\n  FAIL ("no")\n  {two}\n}}'
    before = f'@PARALLEL STOP {{\n  {two}\n  FAIL ("no")\n}}'
    late = f'@PARALLEL STOP {{\n  {two}\n  ?IF (1 == 1) {{\n    S3: @READ (x=1)\n    FAIL ("no")\n  }}\n}}'
    assert told(behind)["S2"].when is When.MAYBE
    for group in (before, late):
        steps = told(group)
        assert [(steps[i].when, steps[i].visits[0].is_sure) for i in ("S1", "S2")] == [
            (When.ALWAYS, True),
            (When.MAYBE, False),
        ]
        assert told(group.replace(" STOP", ""))["S2"].when is When.ALWAYS
    assert told(late)["S3"].when is When.ALWAYS
    items = """?FOREACH ($x IN [1, 2]) TOGETHER STOP {
  S1: @READ (x=$x)
  REQUIRE ($x == 1) "no"
  S2: @WRITE (x=2)
}"""
    assert [(s.when, s.times) for s in told(items).values()] == [(When.ALWAYS, (2, 2)), (When.MAYBE, (0, 1))]
    assert told(items.replace("[1, 2]", "[]"))["S1"].when is When.NEVER


def test_known_items_and_rounds_are_walked_with_their_arguments() -> None:
    steps = told("""LET $n = 0
S1: ?FOREACH ($x IN [1, 2]) {
  S2: @WRITE (x=$x * 10)
  SET $n = $n + $x
  YIELD ($x + 1)
} > $rows
S3: ?REPEAT (max=5) {
  S4: @WRITE (x=$n)
  SET $n = $n - 1
} UNTIL ($n < 2)
S5: @WRITE (x=$rows)""")

    assert [(v.place, dict(v.arguments)) for v in steps["S2"].visits] == [
        ("S1[0]/S2", {"x": 10}),
        ("S1[1]/S2", {"x": 20}),
    ]
    assert [(v.place, v.arguments[0][1]) for v in steps["S4"].visits] == [("S3[#1]/S4", 3), ("S3[#2]/S4", 2)]
    assert steps["S5"].visits[0].arguments == (("x", [2, 3]),)


def test_sub_plan_is_foreseen_at_each_of_its_calls() -> None:
    steps = told("""PLAN put ($x: int) -> int {
  P1: @WRITE (x=$x)
  RETURN ($x + 1)
}
S1: CALL put (x=1) > $a
S2: CALL put (x=$a) > $b
S3: @RESPOND ($b)""")

    assert [steps[f"S{n}/P1"].visits[0].arguments for n in (1, 2)] == [(("x", 1),), (("x", 2),)]
    assert steps["S3"].visits[0].inputs == (3,)


def test_handler_follows_a_failure_and_what_is_behind_a_sure_failure_is_never_executed() -> None:
    steps = told("""S1: @READ (x=1) > $a ON_FAIL TOOL {
  S2: @WRITE (x=$error.message)
  LET $a = 0
}
S3: @WRITE (x=$a)
LET $b = {"k": 1}
LET $c = $b.z
S4: @WRITE (x=2)""")

    assert [steps[i].when for i in ("S2", "S3", "S4")] == [When.ON_FAILURE, When.ALWAYS, When.NEVER]

    doubled = "\n".join(f"LET $x{n + 1} = [$x{n}, {{'k': $x{n}}}]" for n in range(30))
    loop = 'LET $y = "a" * 10000000\nS2: ?FOREACH ($i IN range(30)) {\n  YIELD ($y)\n} > $z'
    for too_large in (doubled, loop):
        steps = told(f"S1: @READ (x=1) > $x0\n{too_large}\nS4: @WRITE (x=2)")
        assert steps["S4"].when is When.NEVER


def test_text_and_json_show_blocks_places_and_both_branches() -> None:
    forecast = foresee(
        plan_of("""S1: @READ (x=1) > $list
S2: ?FOREACH ($x IN $list) TOGETHER MAX 2 {
  S3: @WRITE (x=$x)
}
S4: ?FOREACH ($x IN ["a"]) {
  S5: @WRITE (x=$x)
}"""),
        {},
        Knowledge(facts=FACTS),
    )

    shown = dry_run_text(forecast, totals_of(forecast), columns=200)
    data = dry_run_json(forecast, totals_of(forecast), None)

    assert "for each item of <READ result>, side by side, at most 2 at a time" in shown
    assert 'S4[0]/S5: x: "a"' in shown
    assert [step["within"] for step in data["steps"]] == [[], ["S2"], ["S4"]]
    assert data["blocks"][1]["count"] == 1


def _calls(plan: Plan, answer: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """The calls of a run in which every call gives this answer."""
    machine = Machine(compile_plan(plan, FACTS))
    todo, made = list(machine.feed(Started({}))), list[tuple[str, str, dict[str, Any]]]()
    while todo and len(made) < 200:
        command = todo.pop(0)
        match command:
            case CallTool(key=key, step=step, tool=tool, args=args):
                made.append((key, step, dict(args)))
                if tool.startswith("callsheet."):
                    todo += machine.feed(Failed(key, "not here"))
                else:
                    todo += machine.feed(Succeeded(key, answer))
            case CallModel(key=key, step=step) | RunAgent(key=key, step=step):
                made.append((key, step, dict(command.args)))
                todo += machine.feed(Succeeded(key, answer))
            case Sleep(key=key):
                todo += machine.feed(TimerFired(key))
            case _:
                pass
    return made


def _fits(forecast: Forecast, key: str, step: str, args: dict[str, Any]) -> bool:
    for row in forecast.steps:
        if row.statement is None or row.statement.id != step or row.when is When.NEVER:
            continue
        for visit in row.visits:
            if visit.place and visit.place == key.rpartition(".")[0]:
                known = {name: value for name, value in visit.arguments if is_known(value)}
                return all(args.get(name) == value for name, value in known.items())
        return True
    return False


@given(programs())
@settings(max_examples=60, deadline=None)
def test_every_call_of_a_run_was_foreseen(tree: Any) -> None:
    plan = tree if isinstance(tree, Plan) else plan_of_tree(tree)
    forecast = foresee(plan, {}, Knowledge(facts=FACTS))

    for key, step, args in _calls(plan, 1):
        if not step.endswith(":clock"):
            assert _fits(forecast, key, parse_key(key).step, args), (key, args)
