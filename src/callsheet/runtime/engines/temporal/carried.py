"""What a run takes along into its next history: the machine's state, and what is open outside of it.

A history may not grow without end. So a run goes on, when nothing is under way, in a new one that begins
with what it has come to; what happened before lies with the blobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

from callsheet.ir import plan_from_json, plan_to_json
from callsheet.machine import Machine, ToolFacts, compile_plan
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.runtime.engines.temporal.orders import Order
from callsheet.store.inbox import Letter
from callsheet.store.records import facts_from_json, facts_to_json
from callsheet.store.replay import begin
from callsheet.store.snapshots import Posed


class Carried(NamedTuple):
    """All of a run that its order does not say.

    `plan` is the new plan of the last re-plan with the facts it was compiled with, as data; `past` names the
    blobs of what has happened before, in their order; `doubted` are the keys of calls in doubt, `due` says
    when waits are over and `posed` when questions were asked, by key. `worked` is the time that counts,
    and `doubts` says how often calls have been in doubt.
    """

    state: Mapping[str, Any]
    plan: tuple[Mapping[str, Any], Mapping[str, Any]] | None
    facts: Mapping[str, ToolFacts]
    past: tuple[str, ...]
    doubted: tuple[str, ...]
    due: Mapping[str, float]
    posed: Mapping[str, Posed]
    letters: tuple[Letter, ...]
    worked: float
    doubts: Mapping[str, int]
    began: Mapping[str, float] = {}
    """When agents were first asked, by the key of their call."""

    def machine(self, order: Order) -> Machine:
        """The machine in that state; raises NotRestorable where it is none of this plan."""
        start = order.start
        program = begin(order.plan, start).machine.program
        if self.plan is not None:
            steps, facts = self.plan
            program = compile_plan(plan_from_json(steps), facts_from_json(facts))
        state = state_from_json(program, self.state, enforcement=start.enforcement())
        machine = Machine.at(state, None, start.approve, start.approval_timeout)
        machine.asking.pepper = start.pepper
        return machine

    def to_json(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {
            **self._asdict(),
            "facts": facts_to_json(self.facts),
            "posed": {key: list(posed) for key, posed in self.posed.items()},
            "letters": [list(letter) for letter in self.letters],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What data tells of; raises KeyError, TypeError or ValueError for data that is none."""
        plan = cast("list[Mapping[str, Any]] | None", data["plan"])
        own: dict[str, Any] = {
            "plan": None if plan is None else (plan[0], plan[1]),
            "facts": facts_from_json(data["facts"]),
            "past": tuple(data["past"]),
            "doubted": tuple(data["doubted"]),
            "posed": {key: Posed(*posed) for key, posed in data["posed"].items()},
            "letters": tuple(Letter(*letter) for letter in data["letters"]),
        }
        return cls(**{**data, **own})


def state_of(machine: Machine) -> dict[str, Any] | None:
    """The machine's state as data; None where it cannot be told now, but will be after more events."""
    state = machine.state()
    return None if state is None else state_to_json(state)


def plan_of(machine: Machine, facts: Mapping[str, ToolFacts]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The plan of the last re-plan, compiled with these facts, as data; None where there was none."""
    if not machine.generation:
        return None
    return plan_to_json(machine.program.plan), facts_to_json(facts)
