"""Hypothesis strategies for plans with many early calls, and what runs of them are compared by."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st
from tests.plans import INPUTS, LIMITS, plan_of, simulation_of

from callsheet.ir import Effect
from callsheet.machine import (
    CallModel,
    CallTool,
    Event,
    Limits,
    Machine,
    Result,
    RunAgent,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.limits import AUTO
from callsheet.machine.notes import Note, NoteKind

FACTS = {
    "READ": ToolFacts(Effect.READ, ("x", "y")),
    "PURE": ToolFacts(Effect.PURE, ("x", "y")),
    "FAULTY": ToolFacts(Effect.READ, ("x", "y")),
    "WRITE": ToolFacts(Effect.UNSAFE, ("x", "y")),
    "KEEP": ToolFacts(Effect.IDEMPOTENT, ("x", "y")),
    "KEYED": ToolFacts(Effect.KEYED, ("x", "y")),
}
AHEAD = replace(LIMITS, schedule=AUTO)
_EARLY = ["READ", "READ", "PURE", "PURE", "FAULTY", "LLM_EXTRACT"]
_WRITERS = ["WRITE", "KEEP", "KEYED", "AGENT_SOLVE"]
_NAMES = "abcdef"
_CAST = st.sampled_from(["", "", "", ":int", ":list", ":json"])
_CONTROL = ["@RESPOND ($c)", 'TERMINATE ("stop $b")', "GOTO S{}", 'RE-PLAN ("new $a")']


@st.composite
def _value(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(_NAMES))
    return draw(st.sampled_from([f"${name}", f"${name}.0", f'"<${name}|$a>"', f"[1, ${name}]", '"x"', "7"]))


@st.composite
def _step(draw: st.DrawFn, last: int) -> str:
    guard, item = "", False
    kind = draw(st.integers(0, 9))
    if kind == 0:
        source = draw(st.sampled_from(["$a", "[1, 2, 3, 4, 5]", f"${draw(st.sampled_from(_NAMES))}"]))
        guard, item = f"?FOREACH ($i IN {source}) THEN ", True
        guard += draw(st.sampled_from(["", "?IF ($i != 2) THEN "]))
    elif kind <= 2:
        name = draw(st.sampled_from(_NAMES))
        condition = draw(st.sampled_from([f"IS_EMPTY(${name})", f"NOT_EMPTY(${name})", f"${name} == $a"]))
        guard = f"?IF ({condition}) THEN "
    if not item and draw(st.integers(0, 14)) == 0:
        return guard + draw(st.sampled_from(_CONTROL)).format(draw(st.integers(1, last)))
    tool = draw(st.sampled_from(_EARLY * 2 + _WRITERS))
    first = '"$i $b"' if item else draw(_value())
    second = draw(_value())
    named = ', target="$d"' if tool == "LLM_EXTRACT" else f", {second}"
    text = f"{guard}@{tool} ({first}{named})"
    if draw(st.integers(0, 5)):
        text += f" > ${draw(st.sampled_from(_NAMES))}{draw(_CAST)}"
    retry = draw(st.sampled_from(["", "", "", "@RETRY(1)", "@RETRY(2)"]))
    then = draw(st.sampled_from(["", "", "", "", f"GOTO S{draw(st.integers(1, last))}", 'TERMINATE ("$a")']))
    return f"{text} ON_FAIL {retry} {then}".rstrip() if retry or then else text


@st.composite
def busy_plans(draw: st.DrawFn) -> str:
    """The text of a plan with mostly reading steps, and some that write, jump, or are in groups."""
    sizes = draw(st.lists(st.sampled_from([1, 1, 1, 1, 1, 2, 3]), min_size=2, max_size=10))
    last, number = sum(sizes) + 1, 0
    lines: list[str] = []
    for size in sizes:
        steps: list[str] = []
        for _ in range(size):
            number += 1
            steps.append(f"S{number}: {draw(_step(last))}")
        lines += ["@PARALLEL {", *(f"  {step}" for step in steps), "}"] if size > 1 else steps
    return "\n".join([*lines, f'S{last}: @RESPOND ("end $a", $b, $c, $d, $e, $f)'])


class Ran(NamedTuple):
    """The result of a run, its calls in order of departure, its notes, and its seconds."""

    result: Result
    calls: list[CallTool | CallModel | RunAgent]
    story: list[Note]
    seconds: float
    events: list[Event]

    @property
    def writes(self) -> list[tuple[str, str, str]]:
        """The calls that may write, in order of departure."""
        return [
            (call.key, call.tool, repr(call))
            for call in self.calls
            if not (
                isinstance(call, CallModel)
                or (isinstance(call, CallTool) and FACTS[call.tool].effect.only_reads)
            )
        ]


_TOLD_AS_THEY_COME = frozenset({NoteKind.EARLY, NoteKind.SETTLED, NoteKind.FAILED, NoteKind.RETRYING})
"""Notes that the items of a loop and the members of a group give in the order in which calls end."""


def machine_of(text: str, limits: Limits, notes: list[Note] | None = None) -> Machine:
    """A machine that is ready to run a plan."""
    return Machine(compile_plan(plan_of(text), FACTS), limits, None if notes is None else notes.append)


def ran(text: str, world: int, schedule: int, limits: Limits) -> Ran:
    """A plan, run to its end."""
    notes: list[Note] = []
    run = simulation_of(machine_of(text, limits, notes), world, schedule)
    result = run.run(INPUTS)
    calls = [c for _, c in run.launched if isinstance(c, CallTool | CallModel | RunAgent)]
    story = [note for note in notes if note.kind not in _TOLD_AS_THEY_COME]
    return Ran(result, calls, story, run.now, run.events)
