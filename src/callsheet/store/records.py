"""The bodies of journal events, and the machine's events that they stand for: a row of `TAKEN` for each type.

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
- server_asks: what is asked, due, server, method, params (as the server has sent them)
- server_told: digest, result (as the server gets it; null: nobody could answer), by?
- server_task: task (its id at the server)
- plan: plan (its hash), facts, remarks?, spent?, context? (under a policy)
- in_doubt: reason, spent?
- decided: decision, value? (if the decision is `value`), by? (if no person decided)
- cancel: reason
- pause: by, reason, unsent? (the keys of calls whose intents are recorded and that were not sent)
- unpause: by
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
from callsheet.lazy import dataclass
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
_Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Taken:
    """How an event that the machine takes is stored: its class, its body, and the event from key and body."""

    of: type[Event]
    write: Callable[[Any], _Body | None]
    read: Callable[[str, Mapping[str, Any], PlanOf], Event]


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


# ---------------------------------------------------------------- calls


def _write_ok(event: Succeeded) -> _Body:
    body: _Body = {"value": event.value, "review": event.review} if event.review else {"value": event.value}
    if event.label is not None:
        body["label"] = str(event.label)
    return _with(body, event.remarks, event.spent) if event.remarks or event.spent else body


def _read_ok(key: str, body: Mapping[str, Any], _: PlanOf) -> Succeeded:
    beside = _remarks(body), _spent(body), _label(body, "label"), body.get("review", "")
    return Succeeded(key, body["value"], *beside)


def _write_err(event: Failed) -> _Body:
    body: _Body = {"error": event.error}
    flags = ("unsettled", event.unsettled), ("final", event.final), ("forbidden", event.forbidden)
    label = "" if event.label is None else str(event.label)
    flags = (*flags, ("kind", event.kind), ("label", label))
    return _with(body | {name: flag for name, flag in flags if flag}, event.remarks, event.spent)


def _read_err(key: str, body: Mapping[str, Any], _: PlanOf) -> Failed:
    flags = [bool(body.get(name)) for name in ("unsettled", "final")]
    beside = _remarks(body), _spent(body), *flags
    kind, label = str(body.get("kind", "")), _label(body, "label")
    return Failed(key, body["error"], *beside, forbidden=_rule(body), kind=kind, label=label)


def _write_plan(event: PlanCompiled) -> _Body:
    body: _Body = {"plan": plan_hash(event.plan), "facts": facts_to_json(event.facts)}
    if event.context is not None:
        body["context"] = str(event.context)
    return _with(body, event.remarks, event.spent)


def _read_plan(key: str, body: Mapping[str, Any], plan_of: PlanOf) -> PlanCompiled:
    beside = _remarks(body), _spent(body), _label(body, "context")
    return PlanCompiled(key, plan_of(body["plan"]), facts_from_json(body["facts"]), *beside)


def _write_decided(event: Decided) -> _Body:
    what = event.decision
    body: _Body = (
        {"decision": _VALUE, "value": what.value} if isinstance(what, TookPlace) else {"decision": str(what)}
    )
    return {**body, "by": event.by} if event.by else body


def _read_decided(key: str, body: Mapping[str, Any], _: PlanOf) -> Decided:
    word = body["decision"]
    decision = TookPlace(body["value"]) if word == _VALUE else Decision(word)
    return Decided(key, decision, body.get("by", ""))


def _write_signal(event: Answered) -> _Body:
    body = event._asdict()
    del body["key"]
    return {**body, "verdict": str(event.verdict)}


def _read_signal(key: str, body: Mapping[str, Any], _: PlanOf) -> Answered:
    data = {name: value for name, value in body.items() if name != SEALED}
    return Answered(key, **{**data, "verdict": Verdict(body["verdict"])})


# ---------------------------------------------------------------- the run as a whole


def _write_start(_: Started) -> _Body:
    raise ValueError("a start is recorded with all that the run was started with")


def _write_edit(event: Edited) -> _Body:
    body: _Body = {"values": dict(event.values), "by": event.by}
    return {**body, "holds": True} if event.holds else body


TAKEN: Mapping[EventType, Taken] = {
    EventType.START: Taken(Started, _write_start, lambda _, body, __: Started(Start.from_json(body).inputs)),
    EventType.OK: Taken(Succeeded, _write_ok, _read_ok),
    EventType.ERR: Taken(Failed, _write_err, _read_err),
    EventType.IN_DOUBT: Taken(
        Doubted,
        lambda event: _with({"reason": event.reason}, (), event.spent),
        lambda key, body, _: Doubted(key, body.get("reason", ""), _spent(body)),
    ),
    EventType.DECIDED: Taken(Decided, _write_decided, _read_decided),
    EventType.FIRED: Taken(TimerFired, lambda _: None, lambda key, _, __: TimerFired(key)),
    EventType.SIGNAL: Taken(Answered, _write_signal, _read_signal),
    EventType.PLAN: Taken(PlanCompiled, _write_plan, _read_plan),
    EventType.CANCEL: Taken(
        Cancelled, lambda event: {"reason": event.reason}, lambda _, body, __: Cancelled(body["reason"])
    ),
    EventType.REOPEN: Taken(Reopened, lambda _: None, lambda _, __, ___: Reopened()),
    EventType.TIME_UP: Taken(
        TimeUp, lambda event: {"seconds": event.seconds}, lambda _, body, __: TimeUp(body["seconds"])
    ),
    EventType.LIMITS: Taken(
        LimitsChanged,
        lambda event: {"limits": event.limits.to_json()},
        lambda _, body, __: LimitsChanged(Limits.from_json(body["limits"])),
    ),
    EventType.POLICY: Taken(
        PolicyChanged,
        lambda event: policy_body(event.policy),
        lambda _, body, __: PolicyChanged(policy_in(body)),
    ),
    EventType.EDIT: Taken(
        Edited, _write_edit, lambda _, body, __: Edited(body["values"], body["by"], bool(body.get("holds")))
    ),
}
"""The types of events that the machine takes."""
_TYPE_OF: Mapping[type[Event], EventType] = {taken.of: kind for kind, taken in TAKEN.items()}
_BY_NAME: Mapping[str, Taken] = {str(kind): taken for kind, taken in TAKEN.items()}


def event_record(event: Event) -> tuple[EventType, str | None, _Body | None]:
    """The type, key and body with which the journal stores an event of the machine."""
    if type(event) is Succeeded:
        key, value, *beside = event
        if beside == _NOTHING_BESIDE:
            return _OK, key, {"value": value}  # the most frequent event
    kind = _TYPE_OF[type(event)]
    return kind, getattr(event, "key", None), TAKEN[kind].write(event)


def late_record(event: Succeeded | Failed) -> _Body:
    """The body with which the journal stores an outcome that came too late to count."""
    kind, _, body = event_record(event)
    return {"outcome": kind.value, **(body or {})}


def recorded_event(row: Row, plan_of: PlanOf) -> Event | None:
    """The machine's event for a journal event; None for one that is not fed to the machine."""
    return event_of(row.type, row.key or "", row.body or {}, plan_of)


def event_of(kind: str, key: str, body: Mapping[str, Any], plan_of: PlanOf) -> Event | None:
    """As `recorded_event`, from the type, key and body of a journal event."""
    taken = _BY_NAME.get(kind)
    return None if taken is None else taken.read(key, body, plan_of)


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
