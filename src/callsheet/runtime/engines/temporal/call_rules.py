"""The rules and secrets of one call, as passed to the worker that makes it.

In: an order and the machine. Out: JSON data beside the call. A policy is passed as the digest of its blob, an
agent's task by value, a secret as the name of a variable in the workers' environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from callsheet.ir import plan_hash
from callsheet.ir.labels import read_label
from callsheet.machine import AgentTurn, CallTool, Machine, Probe
from callsheet.machine.keys import item_of
from callsheet.runtime.capabilities import Task, tasks_of
from callsheet.runtime.engines.temporal.run_order import RunOrder
from callsheet.runtime.engines.temporal.wire import Remote, allowance_from_json, allowance_to_json


class CallRules(NamedTuple):
    """The rules of one call.

    `rules` is the digest of the policy's blob, empty without a policy; `plan` is the hash of the verified
    plan. `talk` is the key of the agent that makes the call, whose `task` began at the wall time `began`.
    `secrets` maps placeholder texts to variables of the worker's environment. `pin` is the hash of the tool's
    declaration when the run began, empty if it has none; `server` is the MCP server that offered it then, as
    `Start.server_of` gives it.
    """

    rules: str
    plan: str
    talk: str = ""
    task: Task | None = None
    began: float | None = None
    secrets: Mapping[str, str] = {}
    pin: str = ""
    server: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The rules as JSON data."""
        task = self.task
        row = task and {
            **task._asdict(),
            "allowed": allowance_to_json(task.allowed),
            "label": str(task.label),
        }
        return {**self._asdict(), "task": row, "secrets": dict(self.secrets)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read rules from JSON data; raises KeyError, TypeError or ValueError for invalid data."""
        row = data["task"]
        task = row and Task(
            row["step"],
            allowance_from_json(row["allowed"]),
            read_label(row["label"]),
            tuple(row["turns"]),
            tuple(row["calls"]),
        )
        own: dict[str, Any] = {**data, "task": task}
        return cls(**own)


def talk_of(command: Remote) -> str:
    """The key of the agent that a command is for; empty if it is for none."""
    if isinstance(command, Probe):
        return talk_of(command.call)
    is_for_one = isinstance(command, AgentTurn) or (isinstance(command, CallTool) and "/t" in command.key)
    return command.key.rpartition("/")[0] if is_for_one else ""


def held_for(
    order: RunOrder, machine: Machine, command: Remote, began: Mapping[str, float]
) -> dict[str, Any] | None:
    """The rules to pass with a command; None if there are none.

    `began` has the wall times at which agents were first asked, by their key without the attempt.
    """
    tool = _tool_of(command)
    pin, server = order.start.pins.get(tool, ""), order.start.server_of(tool)
    if not (order.rules or order.secrets or pin or server is not None):
        return None
    talk = talk_of(command) if order.rules else ""
    task = tasks_of(machine).get(talk) if talk else None
    own = plan_hash(order.plan), talk, task, began.get(item_of(talk), began.get(talk))
    return CallRules(order.rules, *own, order.secrets, pin, server).to_json()


def _tool_of(command: Remote) -> str:
    """The tool that a command calls or probes; empty for a command to a model or an agent."""
    call = command.call if isinstance(command, Probe) else command
    return call.tool if isinstance(call, CallTool) else ""
