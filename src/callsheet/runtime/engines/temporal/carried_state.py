"""The state that a run carries into its next history (continue-as-new).

A history must not grow without bound. When no call is under way, a run continues in a new history that begins
with this state; its past events are stored as blobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

from callsheet.ir import plan_from_json, plan_to_json
from callsheet.machine import Machine, ToolFacts, compile_plan
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.runtime.engines.temporal.run_order import RunOrder
from callsheet.store.inbox import Message
from callsheet.store.replay import begin
from callsheet.store.snapshots import AskTimes
from callsheet.store.start import facts_from_json, facts_to_json


class Carried(NamedTuple):
    """The complete state of a run besides its order.

    `plan` is the plan of the last re-plan with the facts it was compiled with, as data; `past` are the
    digests of blobs with past events, in order; `doubted` are the keys of calls in doubt; `due` are the wall
    times in seconds at which waits end and `posed` those of questions, by key. `worked` is the time spent on
    the run in seconds, `doubts` how often each call has been in doubt.
    """

    state: Mapping[str, Any]
    plan: tuple[Mapping[str, Any], Mapping[str, Any]] | None
    facts: Mapping[str, ToolFacts]
    past: tuple[str, ...]
    doubted: tuple[str, ...]
    due: Mapping[str, float]
    posed: Mapping[str, AskTimes]
    letters: tuple[Message, ...]
    worked: float
    doubts: Mapping[str, int]
    began: Mapping[str, float] = {}
    """The wall times of agents' first turns, by the key of their call."""

    def machine(self, order: RunOrder) -> Machine:
        """The machine in this state; raises NotRestorable if the state does not fit the plan."""
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
        """The state as JSON data."""
        return {
            **self._asdict(),
            "facts": facts_to_json(self.facts),
            "posed": {key: list(posed) for key, posed in self.posed.items()},
            "letters": [list(message) for message in self.letters],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the state from JSON data; raises KeyError, TypeError or ValueError for invalid data."""
        plan = cast("list[Mapping[str, Any]] | None", data["plan"])
        own: dict[str, Any] = {
            "plan": None if plan is None else (plan[0], plan[1]),
            "facts": facts_from_json(data["facts"]),
            "past": tuple(data["past"]),
            "doubted": tuple(data["doubted"]),
            "posed": {key: AskTimes(*posed) for key, posed in data["posed"].items()},
            "letters": tuple(Message(*message) for message in data["letters"]),
        }
        return cls(**{**data, **own})


def state_of(machine: Machine) -> dict[str, Any] | None:
    """The machine's state as data; None if it cannot be captured now, but after further events."""
    state = machine.state()
    return None if state is None else state_to_json(state)


def plan_of(machine: Machine, facts: Mapping[str, ToolFacts]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The plan of the last re-plan, with the facts it was compiled with, as data; None if there was none."""
    if not machine.generation:
        return None
    return plan_to_json(machine.program.plan), facts_to_json(facts)
