"""Which failure a group ends with: a no and what is not undone are hidden by none beside them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.machine.driving import FACTS

from callsheet.frontends.structured import read_structured
from callsheet.machine import (
    Answered,
    Event,
    Finish,
    Machine,
    Result,
    Sleep,
    Started,
    Succeeded,
    TimerFired,
    compile_plan,
)
from callsheet.machine.commands import Ask
from callsheet.machine.events import Verdict
from callsheet.machine.tree.activations import Activation
from callsheet.machine.tree.failures import Failure

GROUPS = {
    "@PARALLEL": ("@PARALLEL {", "}"),
    "@PARALLEL STOP": ("@PARALLEL STOP {", "}"),
    "nested": ("@PARALLEL STOP {\n@READ (x=8)\nTRY WITHIN (9) {\n@PARALLEL {", "}\n}\n}"),
    "TOGETHER": ("?FOREACH ($i IN range(7)) TOGETHER {", "}"),
    "TOGETHER STOP": ("?FOREACH ($i IN range(7)) TOGETHER STOP {", "}"),
    "TOGETHER FIRST": ("?FOREACH ($i IN range(7)) TOGETHER FIRST {", "}"),
    "TOGETHER SKIP": ("?FOREACH ($i IN range(7)) TOGETHER {", "} ON_FAIL SKIP"),
}
IN_THEIR_TURN = ("@PARALLEL", "TOGETHER")
"""The groups of which all run to their ends, so that the order of their outcomes decides nothing."""
ENDS = {
    "ok": "NOTE (1)",
    "fails": 'REQUIRE (False) "no luck"',
    "denied": "@PAY (x=1)",
    "left": 'FAIL ("a seat is booked", kind="NOT_UNDONE")',
    "left when stopped": (
        'TRY {\nWAIT (20)\n} ON_FAIL CANCELLED {\nFAIL ("a seat is booked", kind="NOT_UNDONE")\n}'
    ),
}
"""What a task comes to behind its first call."""


def _plan(group: str, ends: list[str], handled: str = "") -> str:
    head, tail = GROUPS[group]
    tasks = [ENDS[end] for end in ends]
    if "FOREACH" in head:
        branches = [f"?IF ($i == {n}) {{\n{task}\n}}" for n, task in enumerate(tasks)]
        body = "\n".join(["@READ (x=$i)", *branches])
    else:
        body = "\n".join(f"?IF (True) {{\n@READ (x={n})\n{task}\n}}" for n, task in enumerate(tasks))
    return f"# ltp: 2\n?IF (True) {{\n{head}\n{body}\n{tail}\n}}{handled}\n@RESPOND (0)\n"


def _run(text: str, order: list[float]) -> tuple[Result, set[str], int]:
    """A run whose outcomes arrive in an order: its result, the kinds of failure in it, how many calls."""
    machine = Machine(compile_plan(read_structured(text).require(), FACTS), approve=["PAY"])
    kinds: set[str] = set()

    def hear(act: Activation, failure: Failure) -> None:
        kinds.add(failure.kind)

    assert machine.tree is not None
    machine.tree.hears_failure = hear
    waiting: dict[str, Any] = {}
    count, commands = 0, machine.feed(Started({}))
    while machine.result is None:
        waiting |= {command.key: command for command in commands if not isinstance(command, Finish)}
        waiting = {key: waiting[key] for key in machine.open_keys()}
        timers = [key for key, command in waiting.items() if isinstance(command, Sleep)]
        ready = sorted(waiting.keys() - timers) or timers
        chosen = ready[int(order[count % len(order)] * len(ready))]
        count += 1
        commands = machine.feed(_outcome(waiting[chosen]))
    return machine.result, kinds, count


def _outcome(command: Any) -> Event:
    if isinstance(command, Ask):
        return Answered(command.key, command.asked.digest, Verdict.DENY, by="ann")
    return TimerFired(command.key) if isinstance(command, Sleep) else Succeeded(command.key, 1)


TASKS = st.lists(st.sampled_from(list(ENDS)), min_size=2, max_size=4)
ORDERS = st.lists(st.floats(0, 0.999), min_size=1, max_size=9)
MANY = ["denied"] * 6 + ["left"]
"""More than a message names."""


@pytest.mark.parametrize("group", GROUPS)
@given(ends=TASKS, order=ORDERS)
@example(ends=["fails", "left", "denied"], order=[0.0])
@example(ends=["left when stopped", "fails", "ok"], order=[0.0])
@example(ends=MANY, order=[0.5])
def test_a_group_tells_a_no_and_what_is_not_undone_in_any_order(
    group: str, ends: list[str], order: list[float]
) -> None:
    result, kinds, count = _run(_plan(group, ends), order)
    error = result.error or ""
    if "DENIED" in kinds:
        assert error.startswith("DENIED: ")
    if "NOT_UNDONE" in kinds and (group != "TOGETHER SKIP" or "DENIED" in kinds):
        assert "NOT_UNDONE: " in error
        assert "a seat is booked" in error
    if group in IN_THEIR_TURN:
        assert error == (_run(_plan(group, ends), [0.0])[0].error or "")
    # a handler for everything catches no denial, and nothing is tried again after either
    handled, _, _ = _run(_plan(group, ends, " ON_FAIL {\nNOTE (1)\n}"), order)
    assert ("DENIED" in kinds) == (handled.error is not None)
    grave = kinds & {"DENIED", "NOT_UNDONE"} and group != "TOGETHER SKIP"
    _, _, again = _run(_plan(group, ends, " ON_FAIL @RETRY(1, delay=0)"), order)
    assert not grave or again == count


@pytest.mark.parametrize("group", IN_THEIR_TURN)
def test_the_handler_of_a_no_is_told_what_is_not_undone_beside_it(group: str) -> None:
    told = " ON_FAIL DENIED {\n@RESPOND ([e.kind for e in $error.fields.exceptions])\n}"
    result, _, _ = _run(_plan(group, ["left", "denied", "fails"], told), [0.999])
    assert result.answer == ["DENIED", "NOT_UNDONE"]


@pytest.mark.parametrize("group", ["@PARALLEL", "@PARALLEL STOP", "TOGETHER", "nested"])
@pytest.mark.parametrize("kind", ["DENIED", "NOT_UNDONE", "ExceptionGroup"])
@pytest.mark.parametrize("inner", [{"kind": ["DENIED"]}, {"kind": "DENIED"}, {"kind": "DENIED", "error": 1}])
def test_data_that_is_raised_as_a_failure_of_several_may_have_anything_among_them(
    group: str, kind: str, inner: dict[str, Any]
) -> None:
    raised: dict[str, Any] = {"kind": kind, "message": "m", "step": "S1", "fields": {"exceptions": [inner]}}
    inner |= {"__failure__": True}
    head, tail = GROUPS[group]
    task = "FAIL ($x)\nFAIL ($x)" if "PARALLEL" in head else "FAIL ($x)"
    text = f"# ltp: 2\nINPUT $x: json\n{head}\n{task}\n{tail}\n"
    machine = Machine(compile_plan(read_structured(text).require(), FACTS))
    commands = machine.feed(Started({"x": raised}))
    for command in commands:
        if not isinstance(command, Finish | Sleep):
            machine.feed(_outcome(command))
    assert machine.result is not None
    assert (machine.result.error or "").startswith(f"{kind}: ")
