"""Explains the schedule `auto`: what each step of a plan waits for, and why.

In: a plan, the facts about its tools, and which tools need an approval. Out: for every step whether it may
start before its turn, and the nearest steps that it waits for. What those in turn wait for is not repeated,
so the result is linear in the plan's size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from callsheet.ir import Order, Plan
from callsheet.machine.ahead.dependencies import Dependencies, links_of
from callsheet.machine.compiling import compile_plan
from callsheet.machine.program import NOWHERE, Program, ToolFacts

_MOST_SETTERS = 4
"""The most steps named for one variable, or as writers; earlier ones are left out."""


class Cause(StrEnum):
    """Why a step waits for another."""

    DATA = "data"
    """It reads a variable that the other may set."""
    WORLD = "world"
    """It reads the outside world, and the other may write to it."""
    CONTROL = "control"
    """The other may lead elsewhere, so that the step might not be reached."""
    DEPENDENCY = "dependency"
    """It names the other among its dependencies."""


class Wait(NamedTuple):
    """One step that another waits for; `words` say why, to follow the step's name."""

    step: str
    cause: Cause
    words: str
    variables: tuple[str, ...] = ()


class StepSchedule(NamedTuple):
    """When a step starts.

    If `turn` is not empty, in its turn, when all steps before it are done; `turn` says why (as in "it may
    write"). Otherwise as soon as all that it `waits` for is settled. A step of a group (`is_member`) has its
    turn together with the group.
    """

    step: str
    waits: tuple[Wait, ...]
    turn: str = ""
    is_member: bool = False

    def describe(self) -> str:
        """The schedule of the step in one line.

        >>> StepSchedule("S4", ()).describe(), StepSchedule("S5", (), "it may write").describe()
        ('S4 starts at once', 'S5 waits for all before it: it may write')
        >>> waits = Wait("S2", Cause.DATA, "$b", ("b",)), Wait("S5", Cause.WORLD, "may write")
        >>> StepSchedule("S6", waits).describe()
        'S6 waits for S2 ($b) and S5 (may write)'
        """
        if self.turn:
            return f"{self.step} waits for all before {'its group' if self.is_member else 'it'}: {self.turn}"
        if not self.waits:
            return f"{self.step} starts at once"
        named = [f"{wait.step} ({wait.words})" for wait in self.waits]
        return f"{self.step} waits for {_and(named)}"

    def to_json(self) -> dict[str, Any]:
        """The schedule of the step as JSON data."""
        waits: list[dict[str, Any]] = [
            {"step": w.step, "cause": str(w.cause), "why": w.words}
            | ({"variables": list(w.variables)} if w.variables else {})
            for w in self.waits
        ]
        return {
            "step": self.step,
            "starts": "in turn" if self.turn else "early",
            "why": self.turn or None,
            "waits": waits,
        }


def schedule_of(
    plan: Plan, facts: Mapping[str, ToolFacts], asks_first: Callable[[str], bool] = lambda tool: False
) -> list[StepSchedule]:
    """What each step waits for on the schedule `auto`, in text order.

    `asks_first` says for a tool whether its calls need an approval. In a graph each step waits for its
    dependencies. Raises CallsheetError (RUN001) for a graph that cannot be run.
    """
    program = compile_plan(plan, facts)
    if plan.order is Order.DAG:
        return [
            StepSchedule(
                step.id,
                tuple(
                    Wait(name, Cause.DEPENDENCY, "it depends on it")
                    for name in dict.fromkeys(step.depends_on or ())
                ),
            )
            for step in plan.steps
        ]
    gated = {code.number for code in program.steps if code.tool and asks_first(code.tool)}
    links = links_of(program, gated)
    firsts: dict[int, int] = {}
    for number, step in enumerate(plan.steps):
        if step.group is not None:
            firsts.setdefault(step.group, number)
    return [
        _schedule_of(number, program, links, None if step.group is None else firsts[step.group])
        for number, step in enumerate(plan.steps)
    ]


def _schedule_of(number: int, program: Program, links: Dependencies, group: int | None) -> StepSchedule:
    """When a step starts; `group` is the first step of its group, if it is in one."""
    name = program.steps[number].id
    nature = links.natures[number]
    if not nature.may_lead:
        is_first = (number if group is None else group) == 0
        return StepSchedule(name, (), "" if is_first else nature.why, is_member=group is not None)
    causes: dict[int, tuple[Cause, list[str]]] = {}
    for read in (*links.asks[number], *links.takes[number]):
        for setter in _chain(read.setter, links.setter_before, program):
            _, variables = causes.setdefault(setter, (Cause.DATA, []))
            if read.name not in variables:
                variables.append(read.name)
    waits = [
        (n, Wait(program.steps[n].id, cause, ", ".join(f"${v}" for v in names), tuple(names)))
        for n, (cause, names) in causes.items()
    ]
    if nature.looks:
        waits += [
            (writer, Wait(program.steps[writer].id, Cause.WORLD, _may_write(links.natures[writer].why)))
            for writer in _chain(links.writer_before[number], links.writer_link, program)
        ]
    control = links.control_before[number]
    if control != NOWHERE:
        waits.append(
            (control, Wait(program.steps[control].id, Cause.CONTROL, links.natures[control].control))
        )
    return StepSchedule(name, tuple(wait for _, wait in sorted(waits, key=lambda item: item[0])))


def _chain(nearest: int, before: list[int], program: Program) -> list[int]:
    """A step and the earlier ones that count if it is skipped, up to one that is never skipped."""
    chain: list[int] = []
    while nearest != NOWHERE and len(chain) < _MOST_SETTERS:
        chain.append(nearest)
        code = program.steps[nearest]
        if code.condition is None or code.source is not None:
            break
        nearest = before[nearest]
    return chain


def _may_write(why: str) -> str:
    return why.removeprefix("it ")


def _and(named: list[str]) -> str:
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
