"""Generated plans that run, and a world in which each call's outcome follows from its key.

Plans are LTP texts with guards, groups, FOREACH, ON_FAIL, jumps both ways and RE-PLAN; a step
budget bounds them. An outcome depends on the key alone, never on when the call is made.
"""

from __future__ import annotations

from zlib import crc32

from hypothesis import strategies as st

from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Effect, Plan
from callsheet.ir.operations import Independence
from callsheet.machine import (
    Awaited,
    CallModel,
    CallTool,
    Command,
    Compile,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    PlanCompiled,
    RunAgent,
    Succeeded,
    ToolFacts,
)
from callsheet.runtime.simulated import Simulation

FACTS = {
    "READ": ToolFacts(Effect.READ, ("x", "y"), independence=Independence(commutes=True)),
    "KEEP": ToolFacts(Effect.IDEMPOTENT, ("x", "y"), independence=Independence(resource=("x",))),
    "WRITE": ToolFacts(Effect.UNSAFE, ("x", "y")),
    "FAULTY": ToolFacts(Effect.READ, ("x", "y"), independence=Independence(commutes=True)),
}
"""In version 2, the items of loops that keep something run side by side if each keeps another x."""
LIMITS = Limits(max_steps=30, window=3, retry_delay=1.0, max_bytes=300_000, schedule="sequential")
INPUTS: dict[str, JSON] = {"a": [1, "2", None, "x"], "b": "start $a"}

_VALUES: tuple[JSON, ...] = (
    "", "1", 2, 2.5, None, True, "text $a ${b.0}", "x",
    [1, "2", [3]], [], {"k": "v", "0": [4]}, '["x", "y", "z"]',
)  # fmt: skip
_SECOND_PLAN = (
    'S1: ?FOREACH ($i IN $a) THEN @READ ($i) > $c ON_FAIL @RETRY(1)\nS2: @RESPOND ("second $a", $c)'
)

_VARIABLES = st.sampled_from("abc")
_ARGUMENT = st.sampled_from(["$a", "$b", "$c", '"<$a|$b>"', "$a.0", "$c.k", "[1, $b]", "7", '"x"'])
_CONDITION = st.sampled_from(
    ["$a == $b", "IS_EMPTY($c)", "NOT_EMPTY($a)", '$a contains "x"', "$b > 1", "NOT ($c == 2)", "$a.0 != 1"]
)
_ITEM_CONDITION = st.sampled_from(["$i != 2", "NOT_EMPTY($i)"])
_SOURCE = st.sampled_from(["$a", "$b", "$c", "[1, 2, 3, 4, 5]", '["x", $a, $b]'])
_CAST = st.sampled_from(["", "", "", ":int", ":list", ":bool", ":json"])


@st.composite
def _call(draw: st.DrawFn, last: int, grouped: bool) -> str:
    tool = draw(st.sampled_from(["READ", "KEEP", "WRITE", "FAULTY", "LLM_EXTRACT"]))
    guard, item = "", False
    if draw(st.integers(0, 2)) == 0:
        guard, item = f"?FOREACH ($i IN {draw(_SOURCE)}) THEN ", True
        if draw(st.booleans()):
            guard += f"?IF ({draw(_ITEM_CONDITION)}) THEN "
    elif draw(st.integers(0, 3)) == 0:
        guard = f"?IF ({draw(_CONDITION)}) THEN "
    argument = draw(st.sampled_from(["$i", '"$i $b"'])) if item else draw(_ARGUMENT)
    named = ', target="t"' if tool == "LLM_EXTRACT" else f", {draw(_ARGUMENT)}"
    text = f"{guard}@{tool} ({argument}{named})"
    if draw(st.integers(0, 4)):
        text += f" > ${draw(_VARIABLES)}{draw(_CAST)}"
    retry = draw(st.sampled_from(["", "", "@RETRY(1)", "@RETRY(2)"]))
    then = draw(
        st.sampled_from(["", "", "", f"GOTO S{draw(st.integers(1, last))}", 'TERMINATE ("ended $a $i")'])
    )
    return f"{text} ON_FAIL {retry} {then}".rstrip() if retry or then else text


@st.composite
def _control(draw: st.DrawFn, last: int) -> str:
    guard = draw(st.sampled_from(["", f"?IF ({draw(_CONDITION)}) THEN "]))
    jump = f"GOTO S{draw(st.integers(1, last))}"
    action = draw(
        st.sampled_from([jump, jump, jump, "@RESPOND ($c)", 'TERMINATE ("stop $b")', 'RE-PLAN ("new $a")'])
    )
    return guard + action


@st.composite
def plan_texts(draw: st.DrawFn) -> str:
    """The text of a plan that runs."""
    blocks = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    sizes = [draw(st.integers(2, 3)) if kind == 0 else 1 for kind in blocks]
    last, number, lines = sum(sizes) + 1, 0, []
    for kind, size in zip(blocks, sizes, strict=True):
        steps: list[str] = []
        for _ in range(size):
            number += 1
            is_control = kind == 1 or (kind == 0 and draw(st.integers(0, 5)) == 0)
            what = draw(_control(last)) if is_control else draw(_call(last, kind == 0))
            steps.append(f"S{number}: {what}")
        lines += ["@PARALLEL {", *(f"  {step}" for step in steps), "}"] if kind == 0 else steps
    answer = draw(st.sampled_from(['@RESPOND ("end $a", $b, $c)', "@READ ($c) > $b"]))
    return "\n".join([*lines, f"S{last}: {answer}"])


def plan_of(text: str) -> Plan:
    """The plan of a generated text."""
    return parse(text).require()


def value_or_error(seed: int, tool: str, key: str) -> tuple[bool, JSON]:
    """Whether this call succeeds, and its value or error: a function of seed, tool and key."""
    dice = crc32(f"{seed}:{key}".encode())
    if dice % 10 < (6 if tool == "FAULTY" else 2):
        return False, f"error {key}"
    return True, _VALUES[dice // 16 % len(_VALUES)]


def outcome(seed: int, command: Awaited) -> Event:
    """The outcome of a command in the world of this seed."""
    key = command.key
    if isinstance(command, Compile):
        if crc32(f"{seed}:{key}".encode()) % 4 == 0:
            return Failed(key, "no plan")
        return PlanCompiled(key, plan_of(_SECOND_PLAN), FACTS)
    assert isinstance(command, CallTool | CallModel | RunAgent)
    succeeds, value = value_or_error(seed, command.tool, key)
    return Succeeded(key, value) if succeeds else Failed(key, str(value))


def duration(schedule: int, key: str) -> float:
    """The virtual duration of the call with this key on this schedule, in seconds."""
    return 1.0 + crc32(f"{schedule}/{key}".encode()) % 1000 / 100


def simulation_of(machine: Machine, world: int, schedule: int) -> Simulation:
    """A run in virtual time whose outcomes and durations depend only on the keys of the calls."""

    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        return duration(schedule, command.key), outcome(world, command)

    return Simulation(machine, respond)
