"""Converts the machine's events to journal events and back; the one module that knows both.

The bodies by event type ("?" marks members that are left out if there is nothing to say):

- start: inputs, facts, limits, pins, launch, approve?, approval_timeout?, ranks?, policy? and policy_hash?
  (under a policy), secret? and pepper? (with secret inputs)
- intent: tool, or no body
- ok: value, review? (why a person has to approve it), remarks?, spent?, label? (under a policy)
- err: error, unsettled?, final?, forbidden?, remarks?, spent?
- late: outcome (ok or err), and what that has
- fired and reopen: no body
- timer: due
- ask: what is asked, due
- signal: digest, verdict, value, by, note, msg_id
- plan: plan (its hash), facts, remarks?, spent?, context? (under a policy)
- in_doubt: reason, spent?
- decided: decision, value? (if the decision is `value`), by? (if no person decided)
- cancel: reason
- time_up: seconds
- limits: limits
- policy: policy, policy_hash
- edit: values, by, holds?
- moved: tools?, mcp_configs?, workspace? (absolute paths, in place of those in `launch` of the start)
- end: status, response, terminated, error, steps_executed, ended_at, refusal, usage, objection? (if a policy
  ended the run)

A remark is {cut, kept, whole, unit} or {fact, text}. `spent` lists tokens in, tokens out, cost, and the
further fields of `Spent` unless they are zero. A body with secrets also has `sealed`; see `sealing.sealer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, assert_never

from callsheet.ir import JSON, Plan, plan_hash
from callsheet.ir.labels import Label, read_label
from callsheet.machine import (
    Answered,
    Cancelled,
    Cut,
    Decided,
    Decision,
    Doubted,
    Edited,
    Event,
    Fact,
    Failed,
    Limits,
    LimitsChanged,
    PlanCompiled,
    PolicyChanged,
    Remark,
    Reopened,
    Result,
    Spent,
    Started,
    Succeeded,
    TimerFired,
    TimeUp,
    TookPlace,
    Verdict,
)
from callsheet.policy.calls import Rule
from callsheet.sealing.sealer import SEALED
from callsheet.store.events import Event as Row
from callsheet.store.events import EventType
from callsheet.store.start import Start, facts_from_json, facts_to_json, policy_body, policy_in

_VALUE = "value"
"""The decision recorded for a TookPlace."""
_NOTHING_BESIDE = list(Succeeded("", None)[2:])
_OK = EventType.OK
_ALWAYS_TOLD = 3
"""How many fields of `Spent` are always written: tokens in, out, cost."""
_TOLD = 7
"""How many are written if one of the others is not zero; repairs and kept bytes only if not zero."""

PlanOf = Callable[[str], Plan]
"""Returns the plan with a hash."""


def event_record(event: Event) -> tuple[EventType, str | None, dict[str, Any] | None]:
    """The type, key and body with which the journal stores an event of the machine."""
    if type(event) is Succeeded:
        key, value, *beside = event
        if beside == _NOTHING_BESIDE:
            return _OK, key, {"value": value}  # the most frequent event
    match event:
        case Succeeded(key=key, value=value, remarks=remarks, spent=spent, label=label, review=review):
            body: dict[str, Any] = {"value": value, "review": review} if review else {"value": value}
            if label is not None:
                body["label"] = str(label)
            return EventType.OK, key, _with(body, remarks, spent) if remarks or spent else body
        case Failed(key=key, error=error, remarks=remarks, spent=spent, unsettled=unsettled, final=final):
            body = {"error": error, "unsettled": True} if unsettled else {"error": error}
            body |= {"final": True} if final else {}
            body |= {"forbidden": event.forbidden} if event.forbidden else {}
            return EventType.ERR, key, _with(body, remarks, spent)
        case TimerFired(key=key):
            return EventType.FIRED, key, None
        case PlanCompiled(key=key, plan=plan, facts=facts, remarks=remarks, spent=spent, context=context):
            body = {"plan": plan_hash(plan), "facts": facts_to_json(facts)}
            if context is not None:
                body["context"] = str(context)
            return EventType.PLAN, key, _with(body, remarks, spent)
        case Doubted(key=key, reason=reason, spent=spent):
            return EventType.IN_DOUBT, key, _with({"reason": reason}, (), spent)
        case Decided(key=key, decision=decision, by=by):
            data: dict[str, Any] = (
                {"decision": _VALUE, "value": decision.value}
                if isinstance(decision, TookPlace)
                else {"decision": str(decision)}
            )
            return EventType.DECIDED, key, {**data, "by": by} if by else data
        case Answered(key=key):
            body = event._asdict()
            del body["key"]
            return EventType.SIGNAL, key, {**body, "verdict": str(event.verdict)}
        case Reopened() | Cancelled() | TimeUp() | LimitsChanged() | PolicyChanged() | Edited():
            return _record_of_the_run(event)
        case Started():
            raise ValueError("a start is recorded with all that the run was started with")
    assert_never(event)


def late_record(event: Succeeded | Failed) -> dict[str, Any]:
    """The body with which the journal stores an outcome that came too late to count."""
    kind, _, body = event_record(event)
    return {"outcome": kind.value, **(body or {})}


def _record_of_the_run(
    event: Reopened | Cancelled | TimeUp | LimitsChanged | PolicyChanged | Edited,
) -> tuple[EventType, None, dict[str, Any] | None]:
    match event:
        case Reopened():
            return EventType.REOPEN, None, None
        case Cancelled(reason=reason):
            return EventType.CANCEL, None, {"reason": reason}
        case TimeUp(seconds=seconds):
            return EventType.TIME_UP, None, {"seconds": seconds}
        case LimitsChanged(limits=limits):
            return EventType.LIMITS, None, {"limits": limits.to_json()}
        case PolicyChanged(policy=policy):
            return EventType.POLICY, None, policy_body(policy)
        case Edited(values=values, by=by, holds=holds):
            data = {"values": dict(values), "by": by}
            return EventType.EDIT, None, {**data, "holds": True} if holds else data
    assert_never(event)


def _with(body: dict[str, Any], remarks: Iterable[Remark], spent: Spent | None) -> dict[str, Any]:
    """A body with remarks and what was spent added, if any."""
    rows = [_remark_to_json(remark) for remark in remarks]
    if rows:
        body = {**body, "remarks": rows}
    if spent is None:
        return body
    told_of = len(spent) if spent.kept else _TOLD + 1 if spent.repairs else _TOLD
    if not any(spent[_ALWAYS_TOLD:]):
        told_of = _ALWAYS_TOLD
    return {**body, "spent": list(spent[:told_of])}


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


def _rule(body: Mapping[str, Any]) -> str:
    """The rule that forbade a call, "" for none; older journals say only that it was the flow of data."""
    rule = body.get("forbidden", "")
    return rule if isinstance(rule, str) else str(Rule.FLOW)


def _label(body: Mapping[str, Any], name: str) -> Label | None:
    return read_label(body[name]) if name in body else None


def recorded_event(row: Row, plan_of: PlanOf) -> Event | None:
    """The machine's event for a journal event; None for one that is not fed to the machine."""
    return event_of(row.type, row.key or "", row.body or {}, plan_of)


def event_of(kind: str, key: str, body: Mapping[str, Any], plan_of: PlanOf) -> Event | None:
    """As `recorded_event`, from the type, key and body of a journal event."""
    match kind:
        case EventType.START:
            return Started(Start.from_json(body).inputs)
        case EventType.OK:
            beside = _remarks(body), _spent(body), _label(body, "label"), body.get("review", "")
            return Succeeded(key, body["value"], *beside)
        case EventType.ERR:
            flags = [bool(body.get(name)) for name in ("unsettled", "final")]
            return Failed(key, body["error"], _remarks(body), _spent(body), *flags, forbidden=_rule(body))
        case EventType.FIRED:
            return TimerFired(key)
        case EventType.PLAN:
            facts = facts_from_json(body["facts"])
            beside = _remarks(body), _spent(body), _label(body, "context")
            return PlanCompiled(key, plan_of(body["plan"]), facts, *beside)
        case EventType.IN_DOUBT:
            return Doubted(key, body.get("reason", ""), _spent(body))
        case EventType.DECIDED | EventType.SIGNAL:
            return _recorded_word(kind, key, body)
        case _:
            return _event_of_the_run(kind, body)


def _event_of_the_run(kind: str, body: Mapping[str, Any]) -> Event | None:
    """As `recorded_event`, for events about the run as a whole."""
    match kind:
        case EventType.CANCEL:
            return Cancelled(body["reason"])
        case EventType.REOPEN:
            return Reopened()
        case EventType.TIME_UP:
            return TimeUp(body["seconds"])
        case EventType.LIMITS:
            return LimitsChanged(Limits.from_json(body["limits"]))
        case EventType.POLICY:
            return PolicyChanged(policy_in(body))
        case EventType.EDIT:
            return Edited(body["values"], body["by"], bool(body.get("holds")))
        case _:
            return None


def _recorded_word(kind: str, key: str, body: Mapping[str, Any]) -> Decided | Answered:
    """As `recorded_event`, for answers and decisions."""
    if kind == EventType.SIGNAL:
        data = {name: value for name, value in body.items() if name != SEALED}
        return Answered(key, **{**data, "verdict": Verdict(body["verdict"])})
    word = body["decision"]
    decision = TookPlace(body["value"]) if word == _VALUE else Decision(word)
    return Decided(key, decision, body.get("by", ""))


def result_body(result: Result) -> dict[str, Any]:
    """The body of the end event; the variables are left out, as a fold gives them."""
    return {
        "status": str(result.status),
        "response": result.response,
        "terminated": result.terminated,
        "error": result.error,
        "steps_executed": result.steps_executed,
        "ended_at": result.ended_at,
        "refusal": None if result.refusal is None else result.refusal._asdict(),
        "usage": result.usage.to_json(),
        **({"failed_steps": [*result.failed_steps]} if result.failed_steps else {}),
        **({} if result.objection is None else {"objection": result.objection.to_json()}),
    }
