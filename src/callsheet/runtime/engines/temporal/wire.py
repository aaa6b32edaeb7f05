"""Serialises commands, outcomes and events as JSON between the workflow, its activities and its clients.

In: a command or an event of the machine. Out: data from which another process restores it. Outcomes have the
form that they have in a journal; rows also have the times from which a client writes the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from callsheet.ir import Plan, plan_from_json, plan_to_json
from callsheet.ir.labels import Label, read_label
from callsheet.machine import (
    AgentTurn,
    Ask,
    Awaited,
    CallModel,
    CallTool,
    Compile,
    Event,
    Failed,
    PlanCompiled,
    Probe,
    Progress,
    Result,
    RunAgent,
    Sleep,
    Succeeded,
)
from callsheet.machine.agents.actions import Allowance, CallOutcome, ObservedCall, Turn
from callsheet.machine.questions import asked_to_json
from callsheet.store import Journal
from callsheet.store.errors import NotStorable
from callsheet.store.events import EventType, encode_body
from callsheet.store.kept_calls import Finished, Kept, KeptCalls, content_of_command, kept_by
from callsheet.store.records import event_of, event_record, result_body

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


def row_beside(at: float, kind: EventType, body: Data) -> Row:
    """The row of an event about the run that the machine does not see."""
    return _row(at, kind, None, body)


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
