"""Large expressions of a plan tree are asked for, and a driver says what they give: the run is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from tests.machine.driving import FACTS
from tests.machine.test_tree import plan

from callsheet.ir import JSON
from callsheet.machine import CallTool, Command, Machine, Result, Started, Succeeded, compile_plan
from callsheet.machine.tree.apart import Apart
from callsheet.machine.tree.compiling import OWN_FACTS

_HEAD = """PLAN p ($x: list[int]) -> int {
  RETURN (len($x))
}
LET $rows = [{"n": i, "even": i % 2 == 0, "half": i // 2} for i in range(40000)]
"""
_MANY = "[r.n for r in $rows if r.even and r.half * 2 == r.n]"
_FIRST = "[r.n for r in $rows if r.even and r.half * 2 == r.n and r.n < 4]"


class _Run(NamedTuple):
    result: Result | None
    calls: list[str]
    asked: int


def _run(text: str, *, apart: bool, made: Mapping[str, Any] | None = None) -> _Run:
    """A run in slices, with each call answered by its argument; what is asked for goes through JSON text."""
    machine, large = Machine(compile_plan(plan(text), {**FACTS, **OWN_FACTS})), Apart()
    if apart:
        machine.evaluate_apart(large)
    calls: list[str] = []
    asked = 0

    def caught_up(commands: list[Command]) -> list[Command]:
        nonlocal asked
        while machine.is_paused:
            if large.wanted is not None:
                asked += 1
                large.give(json.loads(json.dumps(large.wanted.made())) if made is None else made)
            commands += machine.go_on(5_000)
        return commands

    left = caught_up(machine.feed(Started({}), 5_000))
    while left:
        command = left.pop(0)
        if isinstance(command, CallTool):
            calls.append(f"{command.key} {command.args}"[:200])
            left += caught_up(machine.feed(Succeeded(command.key, next(iter(command.args.values()))), 5_000))
    return _Run(machine.result, calls, asked)


_CASES = """
LET 1
LET $a = MANY
@RESPOND (len($a))
--
RESPOND 1
@RESPOND (len(MANY))
--
REQUIRE 1
REQUIRE (len(MANY) == 7) "not seven"
--
?IF 1
?IF (len(MANY) > 7) {
  LET $a = 1
} ELSE {
  LET $a = 2
}
@RESPOND ($a)
--
call 1
S1: @FETCH (url=str(len(MANY))) > $a
@RESPOND ($a)
--
FOREACH 2
S1: ?FOREACH ($i IN FIRST) LIMIT len(FIRST) - 1 {
  YIELD ($i)
} > $a
@RESPOND ($a)
--
TOGETHER 2
S1: ?FOREACH ($i IN [1, 2]) TOGETHER {
  S2: @FETCH (url=str($i + len(MANY))) > $y
  YIELD ($y)
} > $a
@RESPOND ($a)
--
@PARALLEL 2
@PARALLEL {
  LET $a = len(MANY)
  LET $b = FIRST
}
@RESPOND ([$a, $b])
--
UNTIL 2
LET $n = 0
S1: ?REPEAT (max=3) {
  SET $n = $n + 1
} UNTIL ($n + len(MANY) == 20002)
@RESPOND ($n)
--
WHILE 2
LET $n = 0
S1: ?REPEAT (max=3) WHILE ($n < 2 and MANY) {
  SET $n = $n + 1
}
@RESPOND ($n)
--
CALL 1
S1: CALL p (x=MANY) > $a
@RESPOND ($a)
--
tuples-and-dates 1
LET $a = {(r.n % 3, date("2026-01-01") + r.n % 3 * duration("1d")) for r in $rows if r.even}
@RESPOND (sorted($a))
--
failure 1
LET $a = [1 // (r.n - 39000 + r.half - r.half) for r in $rows]
--
handled-failure 1
TRY {
  LET $a = [1 // (r.n - 39000 + r.half - r.half) for r in $rows]
} ON_FAIL ZERO {
  @RESPOND ($error.message)
}
--
too-much-work 1
LET $a = [r.n + r.half for r in $rows for x in range(40)]
--
small-failure 0
LET $a = $rows[3].n // 0
--
small 0
LET $a = len([r.n for r in $rows])
@RESPOND ($a)
"""
"""Cases: a name, how often is asked for a value, and statements behind those of `_HEAD`."""


def _cases() -> list[Any]:
    made: list[Any] = []
    for case in _CASES.strip("\n").split("\n--\n"):
        head, _, statements = case.partition("\n")
        name, asked = head.split()
        text = statements.replace("MANY", _MANY).replace("FIRST", _FIRST)
        made.append(pytest.param(text, int(asked), id=name))
    return made


@pytest.mark.parametrize(("statements", "asked"), _cases())
def test_run_is_that_of_a_machine_which_evaluates_all_itself(statements: str, asked: int) -> None:
    alone = _run(_HEAD + statements, apart=False)
    helped = _run(_HEAD + statements, apart=True)
    assert helped.result is not None
    assert (helped.result, helped.calls) == (alone.result, alone.calls)
    assert helped.asked == asked + 1  # and one for the rows


@pytest.mark.parametrize(
    "statements",
    [
        "LET $x = (r.n for r in [{'n': 1}, {'n': 2}])\nLET $a = list($x)\n@RESPOND ([$a, list($x)])",
        "LET $x = [(i for i in [1, 2])]\nLET $a = len(list($x[0]))\n@RESPOND ($a)",
        "LET $x = (r.n for r in $rows)\n@RESPOND (len([i for i in $x if i * 2 + i // 2 >= 0]))",
        "LET $x = {'a': 1}.get('b', (i for i in [1, 2]))\n@RESPOND (list($x))",
    ],
)
def test_generator_that_a_plan_keeps_gives_its_items_to_the_machine(statements: str) -> None:
    alone = _run(_HEAD + statements, apart=False)
    helped = _run(_HEAD + statements, apart=True)
    assert helped.result is not None
    assert alone.result is not None
    assert (helped.result.answer, helped.result.error) == (alone.result.answer, alone.result.error)
    assert alone.result.answer


def test_what_can_be_stored_nowhere_the_machine_evaluates_itself() -> None:
    helped = _run(f"{_HEAD}@RESPOND (len({_MANY}))", apart=True, made={})
    assert helped.result is not None
    assert (helped.result.answer, helped.asked) == (20_000, 2)


def test_value_is_the_one_that_was_recorded() -> None:
    recorded: dict[str, JSON] = {"value": [{"n": 1, "even": True, "half": 0}]}
    helped = _run(f"{_HEAD}@RESPOND ($rows)", apart=True, made=recorded)
    assert helped.result is not None
    assert helped.result.answer == recorded["value"]
