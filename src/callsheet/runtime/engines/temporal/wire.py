"""Serialises commands, outcomes and events as JSON between the workflow, its activities and its clients.

In: a command or an event of the machine. Out: data from which another process restores it. Outcomes have the
form that they have in a journal; rows also have the times from which a client writes the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias, cast

from callsheet.ir import Plan, plan_from_json, plan_to_json
from callsheet.ir.labels import Label, read_label
from callsheet.machine import (
    AgentTurn,
    Ask,
    Awaited,
    CallModel,
    CallTool,
    Command,
    Compile,
    Event,
    Failed,
    Limits,
    LimitsChanged,
    Machine,
    PlanCompiled,
    Probe,
    Progress,
    Reopened,
    Result,
    RunAgent,
    Sleep,
    Started,
    Succeeded,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.agents.actions import Allowance, CallOutcome, ObservedCall, Turn
from callsheet.machine.keys import MACHINE_VERSION
from callsheet.machine.questions import asked_to_json
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.store import Journal
from callsheet.store.errors import NotStorable
from callsheet.store.events import EventType, encode_body
from callsheet.store.kept_calls import Finished, Kept, KeptCalls, content_of_command, kept_by
from callsheet.store.mailbox import Message
from callsheet.store.records import event_of, event_record, result_body
from callsheet.store.replay import begin
from callsheet.store.snapshots import AskTimes
from callsheet.store.start import SECRETS, Start, facts_from_json, facts_to_json

Remote: TypeAlias = "CallTool | CallModel | RunAgent | AgentTurn | Compile | Probe"
"""A command that a worker carries out."""
Data: TypeAlias = "dict[str, Any]"


def command_to_json(command: Remote) -> Data:
    """A command as data."""
    kind = type(command).__name__
    match command:
        case Probe(key=key, step=step, call=call):
            return {"kind": kind, "key": key, "step": step, "call": command_to_json(call)}
        case CallTool(label=label):
            return {**command._asdict(), "kind": kind, "label": _label(label)}
        case CallModel() | RunAgent():
            return {**command._asdict(), "kind": kind}
        case AgentTurn(label=label, allowed=allowed, turns=turns):
            allowance = allowance_to_json(allowed)
            rows = [_turn_to_json(turn) for turn in turns]
            return {
                **command._asdict(), "kind": kind, "label": _label(label), "allowed": allowance, "turns": rows
            }  # fmt: skip
        case Compile(labels=labels, context=context, progress=progress):
            return {
                **command._asdict(),
                "kind": kind,
                "labels": None if labels is None else {name: str(label) for name, label in labels.items()},
                "context": str(context),
                "progress": None if progress is None else _progress_to_json(progress),
            }


def command_from_json(data: Mapping[str, Any]) -> Remote:
    """Read a command from data; raises KeyError, TypeError or ValueError for invalid data."""
    row = {name: value for name, value in data.items() if name != "kind"}
    return _READERS[data["kind"]](row)


def outcome_to_json(event: Event) -> Data:
    """The outcome of a call as data; a value that is not JSON becomes a failure."""
    kind, key, body = event_record(event)
    try:
        encode_body(kind, body or {})
    except NotStorable as error:
        spent = getattr(event, "spent", None)
        kind, _, body = event_record(Failed(key or "", f"the result is not JSON data: {error}", spent=spent))
    plan = {"steps": plan_to_json(event.plan)} if isinstance(event, PlanCompiled) else {}
    return {"type": kind.value, "key": key, "body": body, **plan}


def outcome_from_json(data: Mapping[str, Any]) -> Event:
    """Read an outcome from data; raises KeyError, TypeError or ValueError for invalid data."""
    event = event_of(data["type"], data["key"], data["body"] or {}, lambda _: plan_from_json(data["steps"]))
    if event is None:
        raise ValueError(f"{data['type']} is not an outcome")
    return event


def allowance_to_json(allowed: Allowance) -> Data:
    """What an agent may do, as data."""
    return {**allowed._asdict(), "arguments": _patterns(allowed)}


def allowance_from_json(data: Mapping[str, Any]) -> Allowance:
    """Read what an agent may do from data; raises KeyError, TypeError or ValueError for invalid data."""
    allowed: Data = dict(data)
    allowed["tools"] = tuple(allowed["tools"])
    allowed["arguments"] = {
        tool: {name: tuple(each) for name, each in named.items()}
        for tool, named in cast("dict[str, dict[str, list[str]]]", allowed["arguments"]).items()
    }
    return Allowance(**allowed)


def _label(label: Label | None) -> str | None:
    return None if label is None else str(label)


def _read_label(label: str | None) -> Label | None:
    return None if label is None else read_label(label)


def _patterns(allowed: Allowance) -> Data:
    return {
        tool: {name: list(each) for name, each in named.items()} for tool, named in allowed.arguments.items()
    }


def _turn_to_json(turn: Turn) -> Data:
    return {
        "answer": turn.answer,
        "seen": [[s.tool, dict(s.args), s.value, str(s.outcome), s.key] for s in turn.seen],
        "fault": turn.fault,
    }


def _progress_to_json(progress: Progress) -> Data:
    return {
        "plan": plan_to_json(progress.plan),
        "completed": [step.id for step in progress.completed],
        "failed": [[step.id, why] for step, why in progress.failed],
        "remaining": [step.id for step in progress.remaining],
        "number": progress.number,
        "refused": progress.refused,
    }


def _read_progress(data: Mapping[str, Any]) -> Progress:
    plan = plan_from_json(data["plan"])
    steps = {step.id: step for step in plan.steps}
    return Progress(
        plan,
        tuple(steps[name] for name in data["completed"]),
        tuple((steps[name], why) for name, why in data["failed"]),
        tuple(steps[name] for name in data["remaining"]),
        data["number"],
        data["refused"],
    )


def _read_tool(data: Data) -> CallTool:
    own: Data = {**data, "label": _read_label(data["label"])}
    return CallTool(**own)


def _read_turn(data: Data) -> AgentTurn:
    turns = tuple(
        Turn(
            turn["answer"],
            tuple(
                ObservedCall(tool, args, value, CallOutcome(came), key)
                for tool, args, value, came, key in turn["seen"]
            ),
            turn["fault"],
        )
        for turn in data["turns"]
    )
    own: Data = {
        "allowed": allowance_from_json(data["allowed"]),
        "turns": turns,
        "label": _read_label(data["label"]),
    }
    return AgentTurn(**{**data, **own})


def _read_compile(data: Data) -> Compile:
    labels, progress = data["labels"], data["progress"]
    own: Data = {
        "labels": None if labels is None else {name: read_label(label) for name, label in labels.items()},
        "context": read_label(data["context"]),
        "progress": None if progress is None else _read_progress(progress),
    }
    return Compile(**{**data, **own})


def _read_probe(data: Data) -> Probe:
    call = command_from_json(data["call"])
    if not isinstance(call, CallTool):
        raise ValueError("a probe looks for the call of a tool")
    return Probe(data["key"], data["step"], call)


_READERS: Mapping[str, Callable[[Data], Remote]] = {
    "CallTool": _read_tool,
    "CallModel": lambda told: CallModel(**told),
    "RunAgent": lambda told: RunAgent(**told),
    "AgentTurn": _read_turn,
    "Compile": _read_compile,
    "Probe": _read_probe,
}


Row: TypeAlias = "dict[str, Any]"
"""`at` (wall time in seconds since 1970), `type`, `key`, `body`; for a new plan, the plan itself as `steps`.
"""


def row_of(at: float, entry: Event | Awaited | Result, due: float | None = None) -> Row:
    """The row of an event or command; `due` is when a wait ends or a question expires."""
    match entry:
        case Result():
            return _row(at, EventType.END, None, result_body(entry))
        case Sleep(key=key):
            return _row(at, EventType.TIMER, key, {"due": due})
        case Ask(key=key, asked=asked):
            return _row(at, EventType.ASK, key, {**asked_to_json(asked), "due": due})
        case Probe():
            raise ValueError("a probe has no event in the journal")
        case CallTool(key=key, tool=tool):
            return _row(at, EventType.INTENT, key, {"tool": tool})
        case PlanCompiled(plan=plan):
            return {**_row(at, *event_record(entry)), "steps": plan_to_json(plan)}
        case _:
            if isinstance(entry, CallModel | RunAgent | AgentTurn | Compile):
                return _row(at, EventType.INTENT, entry.key, None)
            return _row(at, *event_record(entry))


def event_in(row: Row) -> Event | None:
    """The machine's event in a row; None for a row that is not fed to the machine."""
    steps = row.get("steps")
    return event_of(row["type"], row["key"] or "", row["body"] or {}, lambda _: plan_from_json(steps))


def _row(at: float, kind: EventType, key: str | None, body: dict[str, Any] | None) -> Row:
    return {"at": at, "type": kind.value, "key": key, "body": body}


def kept_of(journal: Journal, run_id: str) -> dict[str, Any] | None:
    """What a recorded run keeps of its parent, as data; None if it keeps nothing. Raises JournalError."""
    kept = kept_by(journal, run_id)
    return None if kept is None else kept_to_json(kept.calls, kept.again)


def kept_to_json(calls: Iterable[Finished], again: Iterable[str]) -> dict[str, Any]:
    """Calls with their outcomes, and the statements that keep nothing, as data."""
    return {"calls": [_call_to_json(call) for call in calls], "again": [*again]}


def read_kept(plan: Plan, data: Mapping[str, Any]) -> KeptCalls:
    """What a run of this plan keeps; raises KeyError, TypeError or ValueError for invalid data."""
    rows: Sequence[Mapping[str, Any]] = data["calls"]
    return KeptCalls(plan, map(_read_call, rows), data["again"])


def _call_to_json(call: Finished) -> dict[str, Any]:
    return {
        "run_id": call.run_id,
        "seq": call.seq,
        "key": call.key,
        "command": command_to_json(call.command),
        "outcome": None if call.outcome is None else outcome_to_json(call.outcome),
        "signature": call.signature,
    }


def _read_call(row: Mapping[str, Any]) -> Finished:
    command = cast("Kept", command_from_json(row["command"]))
    outcome = None if row["outcome"] is None else cast("Succeeded", outcome_from_json(row["outcome"]))
    content = content_of_command(command)
    return Finished(row["run_id"], row["seq"], row["key"], command, outcome, row["signature"], content)


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
"""The memo field that says whether a run is `RUNNING` or, if only people can continue it, `RESTING`."""
RUNNING, RESTING = "running", "resting"
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
