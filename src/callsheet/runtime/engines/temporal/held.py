"""What a worker is told, with a call, of the rules that it is held to and the secrets that it is given.

In: an order and the machine. Out: JSON data beside the call. A policy goes by the hash under which it lies
with the blobs, an agent's task by what the machine knows of it, a secret by its name in the environment of
workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from callsheet.ir import plan_hash
from callsheet.ir.labels import read_label
from callsheet.machine import AgentTurn, CallTool, Machine, Probe
from callsheet.runtime.engines.temporal.orders import Order
from callsheet.runtime.engines.temporal.wire import Remote, allowance_from_json, allowance_to_json
from callsheet.runtime.tokens import Task, tasks_of


class Held(NamedTuple):
    """The rules of one call.

    `rules` names the blob of the policy, empty for a run without one; `plan` is the hash of the plan that was
    verified. `talk` is the key of the agent that asks, whose `task` began at the wall time `began`. `secrets`
    are variables of the worker's environment by the text that stands in their place. `pin` is the hash of the
    tool's declaration when the run began, empty where it has none.
    """

    rules: str
    plan: str
    talk: str = ""
    task: Task | None = None
    began: float | None = None
    secrets: Mapping[str, str] = {}
    pin: str = ""

    def to_json(self) -> dict[str, Any]:
        """The same as JSON data."""
        task = self.task
        told = task and {
            **task._asdict(),
            "allowed": allowance_to_json(task.allowed),
            "label": str(task.label),
        }
        return {**self._asdict(), "task": told, "secrets": dict(self.secrets)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What data tells of; raises KeyError, TypeError or ValueError for data that is none."""
        told = data["task"]
        task = told and Task(
            told["step"],
            allowance_from_json(told["allowed"]),
            read_label(told["label"]),
            tuple(told["turns"]),
            tuple(told["calls"]),
        )
        own: dict[str, Any] = {**data, "task": task}
        return cls(**own)


def talk_of(command: Remote) -> str:
    """The key of the agent that a command is for; empty where it is for none."""
    if isinstance(command, Probe):
        return talk_of(command.call)
    is_for_one = isinstance(command, AgentTurn) or (isinstance(command, CallTool) and "/t" in command.key)
    return command.key.rpartition("/")[0] if is_for_one else ""


def held_for(
    order: Order, machine: Machine, command: Remote, began: Mapping[str, float]
) -> dict[str, Any] | None:
    """What a worker is told beside a command; None where nothing holds it."""
    pin = order.start.pins.get(command.tool, "") if isinstance(command, CallTool) else ""
    if not (order.rules or order.secrets or pin):
        return None
    talk = talk_of(command) if order.rules else ""
    task = tasks_of(machine).get(talk) if talk else None
    own = plan_hash(order.plan), talk, task, began.get(talk)
    return Held(order.rules, *own, order.secrets, pin).to_json()
