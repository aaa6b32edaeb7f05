"""The machine's events as journal events and back; the one place that knows both.

The bodies: start {inputs, facts, limits, pins, launch}, intent {tool} or none, ok {value},
err {error}, timer {due}, plan {plan, facts}, each of ok, err and plan with {remarks} where
there are any: {cut, kept, whole, unit} or {fact, text}, and with {spent} where that is known: tokens in,
out, cost; in_doubt {reason} or {tool}, decided {decision}, cancel {reason}, time_up {seconds}, limits
{limits}, end {status, response, terminated, error, steps_executed, ended_at, refusal, usage}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, assert_never

from callsheet.ir import JSON, Effect, Plan, plan_hash
from callsheet.machine import (
    Cancelled,
    Cut,
    Decided,
    Decision,
    Doubted,
    Event,
    Fact,
    Failed,
    Limits,
    LimitsChanged,
    PlanCompiled,
    Remark,
    Reopened,
    Result,
    Spent,
    Started,
    Succeeded,
    TimerFired,
    TimeUp,
    ToolFacts,
)
from callsheet.store.events import Event as Row
from callsheet.store.events import EventType

PlanOf = Callable[[str], Plan]
"""The plan of a hash."""


class Start(NamedTuple):
    """What a run was started with, as its first event says.

    `pins` are the hashes of the declarations of the tools that the plan calls; `launch` is for
    the face that started the run, so that it can find the same tools again.
    """

    inputs: dict[str, JSON]
    facts: dict[str, ToolFacts]
    limits: Limits
    pins: dict[str, str]
    launch: dict[str, JSON]

    def to_json(self) -> dict[str, Any]:
        """The body of the start event."""
        return {
            "inputs": self.inputs,
            "facts": facts_to_json(self.facts),
            "limits": self.limits.to_json(),
            "pins": self.pins,
            "launch": self.launch,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Start:
        """The start that a body tells of."""
        return cls(
            inputs=dict(body["inputs"]),
            facts=facts_from_json(body["facts"]),
            limits=Limits.from_json(body["limits"]),
            pins=dict(body["pins"]),
            launch=dict(body["launch"]),
        )


def facts_to_json(facts: Mapping[str, ToolFacts]) -> dict[str, Any]:
    """The facts about tools as JSON data."""
    return {name: [str(fact.effect), list(fact.parameters)] for name, fact in facts.items()}


def facts_from_json(data: Mapping[str, Any]) -> dict[str, ToolFacts]:
    """The facts that JSON data tells of."""
    return {name: ToolFacts(Effect(effect), tuple(names)) for name, (effect, names) in data.items()}


def event_record(event: Event) -> tuple[EventType, str | None, dict[str, Any] | None]:
    """The type, key and body under which the journal keeps an event of the machine."""
    match event:
        case Succeeded(key=key, value=value, remarks=remarks, spent=spent):
            body: dict[str, Any] = {"value": value}
            return EventType.OK, key, _with(body, remarks, spent) if remarks or spent else body
        case Failed(key=key, error=error, remarks=remarks, spent=spent):
            return EventType.ERR, key, _with({"error": error}, remarks, spent)
        case TimerFired(key=key):
            return EventType.FIRED, key, None
        case PlanCompiled(key=key, plan=plan, facts=facts, remarks=remarks, spent=spent):
            body = {"plan": plan_hash(plan), "facts": facts_to_json(facts)}
            return EventType.PLAN, key, _with(body, remarks, spent)
        case Doubted(key=key, reason=reason):
            return EventType.IN_DOUBT, key, {"reason": reason}
        case Decided(key=key, decision=decision):
            return EventType.DECIDED, key, {"decision": str(decision)}
        case Reopened():
            return EventType.REOPEN, None, None
        case Cancelled(reason=reason):
            return EventType.CANCEL, None, {"reason": reason}
        case TimeUp(seconds=seconds):
            return EventType.TIME_UP, None, {"seconds": seconds}
        case LimitsChanged(limits=limits):
            return EventType.LIMITS, None, {"limits": limits.to_json()}
        case Started():
            raise ValueError("a start is recorded with all that the run was started with")
    assert_never(event)


def _with(body: dict[str, Any], remarks: Iterable[Remark], spent: Spent | None) -> dict[str, Any]:
    """A body with what stands beside it; the body itself where there is nothing."""
    told = [_remark_to_json(remark) for remark in remarks]
    if told:
        body = {**body, "remarks": told}
    return body if spent is None else {**body, "spent": list(spent)}


def _remark_to_json(remark: Remark) -> dict[str, JSON]:
    match remark:
        case Cut(what=what, kept=kept, whole=whole, unit=unit):
            return {"cut": what, "kept": kept, "whole": whole, "unit": unit}
        case Fact(name=name, text=text):
            return {"fact": name, "text": text}
    assert_never(remark)


def _remarks(body: Mapping[str, Any]) -> tuple[Remark, ...]:
    if "remarks" not in body:
        return ()
    return tuple(
        Cut(row["cut"], row["kept"], row["whole"], row["unit"])
        if "cut" in row
        else Fact(row["fact"], row["text"])
        for row in body["remarks"]
    )


def _spent(body: Mapping[str, Any]) -> Spent | None:
    return Spent(*body["spent"]) if "spent" in body else None


def recorded_event(row: Row, plan_of: PlanOf) -> Event | None:
    """The event that a journal event tells the machine of; None for one that it is not told of."""
    body = row.body or {}
    key = row.key or ""
    match row.type:
        case EventType.START:
            return Started(Start.from_json(body).inputs)
        case EventType.OK:
            return Succeeded(key, body["value"], _remarks(body), _spent(body))
        case EventType.ERR:
            return Failed(key, body["error"], _remarks(body), _spent(body))
        case EventType.FIRED:
            return TimerFired(key)
        case EventType.PLAN:
            facts = facts_from_json(body["facts"])
            return PlanCompiled(key, plan_of(body["plan"]), facts, _remarks(body), _spent(body))
        case EventType.DECIDED:
            return Decided(key, Decision(body["decision"]))
        case _:
            return _event_of_the_run(row.type, body)


def _event_of_the_run(kind: EventType, body: Mapping[str, Any]) -> Event | None:
    """As `recorded_event`, for what is about the run as a whole."""
    match kind:
        case EventType.CANCEL:
            return Cancelled(body["reason"])
        case EventType.REOPEN:
            return Reopened()
        case EventType.TIME_UP:
            return TimeUp(body["seconds"])
        case EventType.LIMITS:
            return LimitsChanged(Limits.from_json(body["limits"]))
        case _:
            return None


def result_body(result: Result) -> dict[str, Any]:
    """The body of the end event; the variables follow from the fold."""
    return {
        "status": str(result.status),
        "response": result.response,
        "terminated": result.terminated,
        "error": result.error,
        "steps_executed": result.steps_executed,
        "ended_at": result.ended_at,
        "refusal": None if result.refusal is None else result.refusal._asdict(),
        "usage": result.usage.to_json(),
    }
