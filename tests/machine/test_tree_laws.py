"""The machine runs random plans of version 2 as the recursive reference interpreter does."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plans import FACTS
from tests.reference_interpreter import Failed as ReferenceFailed
from tests.reference_interpreter import Interpreter
from tests.structured_plans import programs

from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, Plan
from callsheet.ir.labels import read_label
from callsheet.ir.operations import CLOCK
from callsheet.machine import (
    Answered,
    Ask,
    CallTool,
    Command,
    Compile,
    Event,
    Failed,
    Limits,
    Machine,
    PlanCompiled,
    PolicyChanged,
    Sleep,
    Spent,
    Started,
    Status,
    Succeeded,
    TimerFired,
    Verdict,
    compile_plan,
)
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.snapshots import NotRestorable, state_from_json, state_to_json
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.policy.model import Policy, ToolRule

INPUTS: dict[str, JSON] = {"a": [1, "2", None, "x"], "b": "start"}
BEFORE = read_structured('# ltp: 2\nINPUT $a: json\nINPUT $b: str\nRE-PLAN ("go on")\n').require()
"""A plan that leaves all to its next part."""
LIMITS = Limits(max_steps=100_000, retry_delay=0.0)
READS = {"READ", "FAULTY"}
POLICY = Policy(
    tools={
        "READ": ToolRule(returns=read_label("U/priv"), egress=False, destructive=False),
        "FAULTY": ToolRule(returns=read_label("T/priv"), egress=False, destructive=False),
        "KEEP": ToolRule(returns=read_label("T/pub"), egress=False),
        "WRITE": ToolRule(egress=True, destructive=False),
    }
)
"""Reading gives private data, writing sends it away, so some calls are refused; keeping is asked about."""
Calls = Counter[str]


def answer_to(tool: str, args: Mapping[str, Any]) -> tuple[bool, JSON]:
    """Whether a call succeeds, and its value or error: a function of the tool and its arguments."""
    seed = crc32(f"{tool} {json.dumps(args, sort_keys=True)}".encode())
    if tool == "FAULTY" or seed % 7 == 0:
        return seed % 2 == 1 and tool != "FAULTY", f"no {seed % 10}"
    return True, (seed % 5, "text", [1, 2], {"k": seed % 3}, None, True)[seed % 6]


def restored(machine: Machine, enforcement: Enforcement | None) -> Machine:
    """The machine restored from its state as JSON text, which has the same open calls and variables.

    It is the machine itself only while a run that ends waits for calls that have left.
    """
    state = machine.state()
    data = None if state is None else state_to_json(state)
    if data is None:
        assert machine.tree is not None
        assert machine.tree.ending is not None
        return machine
    program = compile_plan(machine.program.plan, {**FACTS, **OWN_FACTS})
    other = Machine.at(state_from_json(program, json.loads(json.dumps(data)), enforcement=enforcement))
    assert other.open_commands() == machine.open_commands()
    assert other.all_variables() == machine.all_variables()
    again = other.state()
    assert again is not None
    assert state_to_json(again) == data
    return other


def by_the_machine(
    plan: Plan, policy: Policy | None = None, *, restoring: bool = False, is_part: bool = False
) -> tuple[str, Any, Calls]:
    """Status and answer, or kind of failure, and the calls; `restoring` after each event, in slices.

    With `is_part` the plan is the next part of another one.
    """
    enforcement = None if policy is None else Enforcement.under(policy)
    facts = {**FACTS, **OWN_FACTS}
    program, calls = compile_plan(BEFORE if is_part else plan, facts), Calls()
    machine = Machine(program, LIMITS, enforcement=enforcement)
    units = 1 if restoring else 1_000_000
    waiting: list[Command] = machine.feed(Started(INPUTS), units)
    while machine.result is None:
        while machine.is_paused:
            waiting += machine.go_on(units)
        if machine.result is not None:
            break
        if restoring:
            machine = restored(machine, enforcement)
        command = waiting.pop(0)
        event: Event
        if isinstance(command, Sleep):
            event = TimerFired(command.key)
        elif isinstance(command, Ask):
            says = Verdict.APPROVE if crc32(command.key.encode()) % 3 else Verdict.DENY
            event = Answered(command.key, command.asked.digest, says)
        elif isinstance(command, Compile):
            event = PlanCompiled(command.key, plan, facts)
        else:
            assert isinstance(command, CallTool)
            if command.tool == CLOCK:
                event = Succeeded(command.key, "2026-03-02T09:00:00+00:00")
            else:
                calls[f"{command.tool} {json.dumps(command.args, sort_keys=True)}"] += 1
                succeeds, value = answer_to(command.tool, command.args)
                event = Succeeded(command.key, value) if succeeds else Failed(command.key, str(value))
        waiting += machine.feed(event, units)
    result = machine.result
    if result.status is Status.DONE:
        return "done", result.answer, calls
    assert result.error is not None
    return "failed", "" if result.terminated else result.error.partition(":")[0], calls


def by_the_reference(plan: Plan) -> tuple[str, Any, Calls]:
    """The same by the reference interpreter."""
    calls = Calls()

    def tool(name: str) -> Callable[[tuple[Any, ...], dict[str, Any]], Awaitable[Any]]:
        async def call(positional: tuple[Any, ...], named: dict[str, Any]) -> JSON:
            args = dict(zip(("x", "y"), positional, strict=False)) | named
            calls[f"{name} {json.dumps(args, sort_keys=True)}"] += 1
            succeeds, value = answer_to(name, args)
            if not succeeds:
                raise ReferenceFailed("TOOL", str(value))
            return value

        return call

    tools = {name: tool(name) for name in ("READ", "KEEP", "WRITE", "FAULTY")}
    try:
        return "done", asyncio.run(Interpreter(plan, tools, reads=READS).run(INPUTS)), calls
    except ReferenceFailed as failed:
        return "failed", failed.kind, calls


@settings(max_examples=60)
@given(programs(), st.booleans())
def test_machine_and_reference_agree(plan: Plan, is_part: bool) -> None:
    done = by_the_machine(plan)
    assert done == by_the_reference(plan)
    assert by_the_machine(plan, restoring=True, is_part=is_part) == done


@pytest.mark.parametrize("end", ["BREAK", "CONTINUE", '@RESPOND ("early")', 'FAIL ("no")'])
@pytest.mark.parametrize("given", ["YIELD ($i)\n{}", "{}\nYIELD ($i)"], ids=["behind", "before"])
def test_machine_and_reference_agree_on_early_ends(given: str, end: str) -> None:
    body = given.format(f"?IF ($i == 2) {{\n{end}\n}}")
    text = f"# ltp: 2\n?FOREACH ($i IN [1, 2, 3]) {{\n{body}\n}} > $l\n@RESPOND ($l)\n"
    plan = read_structured(text).require()
    assert by_the_machine(plan) == by_the_reference(plan)


@pytest.mark.parametrize("final", ['FAIL ("x", kind="own")', "BREAK", "@RESPOND (2)", "NOTE (1)"])
@pytest.mark.parametrize("kind", ["NOT_UNDONE", "own"])
def test_machine_and_reference_agree_on_what_a_finally_block_takes_the_place_of(
    kind: str, final: str
) -> None:
    tried = f'TRY {{\nFAIL ("left", kind="{kind}")\n}} FINALLY {{\n{final}\n}}'
    text = f"# ltp: 2\n?REPEAT (max=2) {{\n{tried}\n}} UNTIL (True)\n@RESPOND (1)\n"
    plan = read_structured(text).require()
    assert by_the_machine(plan) == by_the_reference(plan)


@settings(max_examples=60)
@given(programs(stops=True), st.booleans(), st.sampled_from([None, POLICY]))
def test_run_goes_on_from_its_state(plan: Plan, is_part: bool, policy: Policy | None) -> None:
    done = by_the_machine(plan, policy, is_part=is_part)
    assert by_the_machine(plan, policy, restoring=True, is_part=is_part) == done


def _of(text: str, policy: Policy | None = None) -> Machine:
    plan = read_structured(f"# ltp: 2\n{text}").require()
    enforcement = None if policy is None else Enforcement.under(policy)
    return Machine(compile_plan(plan, {**FACTS, **OWN_FACTS}), LIMITS, enforcement=enforcement)


def test_what_a_refusal_withdraws_is_not_counted_in_slices_either() -> None:
    text = "# ltp: 2\n@READ (x=1) > $p\n@PARALLEL {\n  @READ (x=2) > $k\n  @WRITE (x=$p) > $w\n}\n"
    ends = []
    for units in (1, 1_000):
        machine = _of(text, POLICY)
        commands = machine.feed(Started({}), units)
        while machine.result is None:
            key = None if machine.is_paused else commands[0].key
            commands += machine.go_on(units) if key is None else machine.feed(Succeeded(key, "v"), units)
        ends.append(machine.result)
    assert ends[0] == ends[1]
    assert ends[0].usage.calls_by_tool["READ"] == 1


def test_what_an_earlier_policy_said_of_the_plan_counts_after_a_restore() -> None:
    policy = Policy(
        tools={
            "READ": ToolRule(returns=read_label("T/pub"), egress=False, destructive=False),
            "WRITE": ToolRule(control=("x",), destructive=False),
        }
    )
    machine = _of('S1: @READ () > $a\nS2: @WRITE (x="mine")', policy)
    machine.feed(Started({}))
    machine.feed(PolicyChanged(replace(policy, planner=read_label("U/pub"))))
    machine.feed(PolicyChanged(policy))
    again = restored(machine, Enforcement.under(policy))
    assert again is not machine
    for one in (again, machine):
        one.feed(Succeeded("S1.1", 1))
        assert one.result is not None
        assert "untrusted data decides 'x'" in (one.result.error or "")


def test_failures_inside_values_are_failures_after_a_restore() -> None:
    loop = "S1: ?FOREACH ($i IN [1]) {\n  S2: @READ () > $r ON_FAIL CONTINUE\n  YIELD ($r)\n} > $all\n"
    machine = _of(
        f"{loop}LET $both = ($all, {{1}})\nS3: @READ ()\n@RESPOND ([FAILED($both[0][0]), len($both)])"
    )
    machine.feed(Started({}))
    machine.feed(Failed("S1[0]/S2.1", "no"))
    again = restored(machine, None)
    assert again is not machine
    again.feed(Succeeded("S3.1", 1))
    assert again.result is not None
    assert again.result.answer == [True, 2]


ALL_PARTS = """S1: ?FOREACH ($i IN [1, 2]) {
  TRY {
    S2: @READ () > $r
  } ON_FAIL {
    S3: @READ (x=$error.message) > $r
  }
  YIELD ($r)
} > $all
@RESPOND ($all)"""


def _places_in(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all that is inside of data."""
    members = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in members:
        yield *path, key
        yield from _places_in(inner, (*path, key))


def test_data_of_others_is_not_restored_and_of_broken_data_nothing_else_is_told() -> None:
    machine, enforcement = _of(ALL_PARTS, POLICY), Enforcement.under(POLICY)
    machine.feed(Started({}))
    machine.feed(Failed("S1[0]/S2.1", "no"))
    state = machine.state()
    assert state is not None
    data = json.loads(json.dumps(state_to_json(state)))
    state_from_json(machine.program, data, enforcement=enforcement)
    others = (
        (_of(ALL_PARTS.replace("$all", "$every")).program, enforcement),
        (machine.program, None),
        (machine.program, Enforcement.under(Policy())),
    )
    for program, other in others:
        with pytest.raises(NotRestorable):
            state_from_json(program, data, enforcement=other)
    restored_anyway = broken = 0
    for *path, key in _places_in(data):
        for wrong in (None, "x", 99):
            part = whole = json.loads(json.dumps(data))
            for one in path:
                part = part[one]
            part[key] = wrong
            broken += 1
            with suppress(NotRestorable):
                state_from_json(machine.program, whole, enforcement=enforcement)
                restored_anyway += 1
    assert restored_anyway < broken / 2


@pytest.mark.parametrize("is_older", [False, True])
def test_what_attempts_at_a_sub_plan_have_spent_and_why_survives_a_snapshot(is_older: bool) -> None:
    """The second attempt tells by its call what the private one of the first has left of the budget."""
    read = read_structured(
        "# ltp: 2\nPLAN p () {\nS1: @WRITE (x=1)\nS2: @READ (x=1) ON_FAIL CONTINUE\nREQUIRE (1 == 2)\n}\n"
        "S3: CALL p (max_tokens=9) ON_FAIL @RETRY(1, delay=1)\n"
    )
    enforcement = Enforcement.under(POLICY)
    program = compile_plan(read.require(), FACTS)

    def second(tokens: int) -> tuple[str, Status | None]:
        """The error and the status of a run that is restored between its attempts."""
        machine = Machine(program, enforcement=enforcement)
        machine.feed(Started({}))
        machine.feed(Succeeded("S3/S1.1", 1))
        machine.feed(Succeeded("S3/S2.1", 1, spent=Spent(tokens)))
        state = machine.state()
        assert state is not None
        data = json.loads(json.dumps(state_to_json(state)))
        if is_older:
            *guard, (spent, _) = data["tree"]["acts"][0]["failure"][1]
            data["tree"]["acts"][0]["failure"][1] = guard
            data["tree"]["tried"] = {"S3": spent}
        machine = Machine.at(state_from_json(program, data, enforcement=enforcement))
        (wait,) = machine.open_commands()
        machine.feed(TimerFired(wait))
        assert machine.result is not None
        return str(machine.result.error), machine.result.status

    error, status = second(1)
    assert (status, "S1" in error) == (Status.REFUSED, True)
    error, status = second(9)
    assert (status, "the budget of p is spent" in error) == (Status.FAILED, True)
