"""What a history of a run begins with: its order, and the state of an earlier history if there is one.

An order includes the plan, so that nobody can edit it under a live run. A history must not grow without
bound: when no call is under way, a run continues in a new one (continue-as-new) with the state that it
carries over; its past events are stored as blobs. A failed graph is reopened in a new history that begins
with all past events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, cast

from callsheet.ir import Plan, plan_from_json, plan_to_json
from callsheet.machine import (
    Command,
    Event,
    Limits,
    LimitsChanged,
    Machine,
    PlanCompiled,
    Reopened,
    Started,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.keys import MACHINE_VERSION
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.runtime.engines.temporal.wire import Row, event_in
from callsheet.store.events import EventType
from callsheet.store.mailbox import Message
from callsheet.store.replay import begin
from callsheet.store.snapshots import AskTimes
from callsheet.store.start import SECRETS, Start, facts_from_json, facts_to_json

WORKFLOW = "PlanRun"
"""The type of the workflow that drives a plan."""
CARRY_OUT = "carry_out"
"""The type of the activity that makes one call."""
CARRY_OUT_ONCE = "carry_out_once"
"""The activity of a call that must not be repeated: it tells the server before the call is sent."""
HAPPENED, PAST = "happened", "past"
"""The keys of a run's result for the rows of its events, and for the digests of those of past histories."""
UNSENT = "CallNotSent"
"""The type of the failure of such an activity that ended before it sent its call."""
KEEP = "keep_past"
"""The type of the activity that stores past events before a run continues in a new history."""
LEAST_TASK, LONGEST_TASK = 10.0, 120.0
"""Seconds that a server waits for a workflow task, by default and at most."""
EVALUATE = "evaluate"
"""The type of the local activity that evaluates a large expression."""
MEMO = "callsheet"
"""The memo field: a run is `RUNNING`, `RESTING` if only people can continue it, or `PAUSED` by one."""
RUNNING, RESTING, PAUSED = "running", "resting", "paused"
PLANS = "callsheet"
TOOLS = "-tools"
MODELS = "-models"
_FORMAT = 1


class RunOrder(NamedTuple):
    """A run to be carried out; its `start` is the journal's start event, as for a local run.

    `queue` is the task queue of the workflow, from which those for calls of tools and models are derived. A
    worker without a heartbeat for `heartbeat` seconds counts as lost. After about `turn_over` events of a
    history the run continues in a new one. `rules` is the digest of the policy's blob, empty without a
    policy. Histories of earlier versions have not `apart`: they evaluate large expressions in the workflow,
    and a plan with blocks stays in one history.
    """

    run_id: str
    plan: Plan
    source: str
    start: Start
    queue: str = PLANS
    heartbeat: float = 30.0
    core: str = MACHINE_VERSION
    turn_over: int = 10_000
    rules: str = ""
    apart: bool = True

    @property
    def secrets(self) -> Mapping[str, str]:
        """Variables of the workers' environment by their placeholder text in the inputs."""
        return cast("Mapping[str, str]", self.start.launch.get(SECRETS, {}))

    @property
    def workflow_id(self) -> str:
        """The workflow id of the run."""
        return workflow_id(self.run_id)

    @property
    def task_seconds(self) -> float:
        """How long the server waits for a workflow task; a worker that is silent for longer is lost."""
        return min(max(self.heartbeat, LEAST_TASK), LONGEST_TASK)

    def to_json(self) -> dict[str, Any]:
        """The order as JSON data, the argument of the workflow."""
        return {
            "format": _FORMAT,
            "run_id": self.run_id,
            "plan": plan_to_json(self.plan),
            "source": self.source,
            "start": self.start.to_json(),
            "queue": self.queue,
            "heartbeat": self.heartbeat,
            "core": self.core,
            "turn_over": self.turn_over,
            **({"rules": self.rules} if self.rules else {}),
            **({"apart": True} if self.apart else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read an order from JSON data; raises KeyError, TypeError or ValueError for invalid data."""
        if data["format"] != _FORMAT:
            raise ValueError(f"an order of format {data['format']}, but this version reads {_FORMAT}")
        return cls(
            data["run_id"],
            plan_from_json(data["plan"]),
            data["source"],
            Start.from_json(data["start"]),
            data["queue"],
            data["heartbeat"],
            data["core"],
            data["turn_over"],
            data.get("rules", ""),
            data.get("apart", False),
        )


def workflow_id(run_id: str) -> str:
    """The workflow id of a run, prefixed to keep apart from others on the server."""
    return f"callsheet-{run_id}"


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
        return start.set_up(Machine.at(state, None, start.approve, start.approval_timeout))

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


def state_of(machine: Machine, order: RunOrder) -> dict[str, Any] | None:
    """The machine's state as data; None if it cannot be captured now, but after further events."""
    state = machine.state()
    if state is None or (state.tree is not None and not order.apart):
        return None
    return state_to_json(state)


def plan_of(machine: Machine, facts: Mapping[str, ToolFacts]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The plan of the last re-plan, with the facts it was compiled with, as data; None if there was none."""
    if not machine.generation:
        return None
    return plan_to_json(machine.program.plan), facts_to_json(facts)


class Reopening(NamedTuple):
    """The past events of a failed run, and the limits with which it goes on, None to keep its own."""

    rows: Sequence[Row]
    limits: Limits | None = None

    def to_json(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {"rows": list(self.rows), "limits": None if self.limits is None else self.limits.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read from JSON data; raises KeyError, TypeError or ValueError for invalid data."""
        limits = data["limits"]
        return cls(data["rows"], None if limits is None else Limits.from_json(limits))

    @property
    def worked(self) -> float:
        """The seconds spent on the run before."""
        ends = [row["body"] for row in self.rows if row["type"] == EventType.END]
        return float(ends[-1]["usage"]["seconds"]) if ends else 0.0


class Refolded(NamedTuple):
    """A reopened machine: the events it was told, its commands, and the facts about its tools."""

    machine: Machine
    events: tuple[Event, ...]
    commands: list[Command]
    facts: dict[str, ToolFacts]
    plan_facts: dict[str, ToolFacts]


def refold(order: RunOrder, again: Reopening) -> Refolded:
    """The machine after all past events, told to go on."""
    machine = begin(order.plan, order.start).machine
    machine.feed(Started(order.start.inputs))
    facts, plan_facts = dict(order.start.facts), dict[str, ToolFacts]()
    for row in again.rows:
        event = event_in(row)
        if event is None:
            continue
        machine.feed(event)
        if isinstance(event, PlanCompiled):
            plan_facts = dict(event.facts)
            facts |= plan_facts
    events: tuple[Event, ...] = (Reopened(),)
    if again.limits is not None and again.limits != machine.limits:
        events = (LimitsChanged(again.limits), *events)
    commands = [command for event in events for command in machine.feed(event)]
    return Refolded(machine, events, commands, facts, plan_facts)
