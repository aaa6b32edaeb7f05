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
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never, cast

from callsheet.ir import JSON, Effect, OnInDoubt, Plan, plan_hash
from callsheet.ir.labels import Label, read_label
from callsheet.machine import (
    Answered,
    Cancelled,
    Cut,
    Decided,
    Decision,
    Doubted,
    Edited,
    Enforcement,
    Event,
    Fact,
    Failed,
    Limits,
    LimitsChanged,
    Loop,
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
    ToolFacts,
    Verdict,
)
from callsheet.policy.calls import Rule
from callsheet.policy.canon import policy_from_json, policy_hash, policy_to_json
from callsheet.policy.model import Policy
from callsheet.sealing.sealer import SEALED
from callsheet.store.events import Event as Row
from callsheet.store.events import EventType

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


class Start(NamedTuple):
    """What a run was started with: the content of its first event.

    `pins` are the hashes of the declarations of the tools that the plan calls; `launch` is for the face that
    started the run, so that it can find the same tools again.
    """

    inputs: dict[str, JSON]
    facts: dict[str, ToolFacts]
    limits: Limits
    pins: dict[str, str]
    launch: dict[str, JSON]
    approve: tuple[str, ...] = ()
    """The tools whose calls need an approval."""
    approval_timeout: Mapping[str, float] = MappingProxyType({})
    """The seconds after which an unanswered approval is denied, by tool; "" stands for all others."""
    ranks: Mapping[str, int] = MappingProxyType({})
    """Which steps of a graph start first, by id; recorded because every fold must use the same."""
    policy: Policy | None = None
    """The policy of the run, if any."""
    secret: tuple[str, ...] = ()
    """The inputs that were declared secret."""
    pepper: str = ""
    """A secret mixed into the digests of questions if those may contain secrets."""
    is_veiled: bool = False
    """Whether placeholders replace secrets, as for a reader without the key."""

    @property
    def servers(self) -> dict[str, str]:
        """The MCP servers of the tools that came from one, by tool."""
        data = self.launch.get("servers")
        rows = cast("Mapping[str, Any]", data if isinstance(data, Mapping) else {})
        return {
            name: row[0]
            for name, row in rows.items()
            if isinstance(row, list) and row and isinstance(row[0], str)
        }

    def server_of(self, tool: str) -> str | None:
        """The MCP server that offered a tool; "" for one of another origin, None if not recorded."""
        unrecorded = None if tool not in self.facts or tool in self.pins else ""
        return self.servers.get(tool, unrecorded)

    def at_places(self, places: Mapping[str, JSON]) -> Start:
        """The start with its tools at other places, as in the body of a `moved` event."""
        setup = self.launch.get("setup")
        if not places or not isinstance(setup, dict):
            return self
        return self._replace(launch={**self.launch, "setup": {**setup, **places}})

    def enforcement(self) -> Enforcement | None:
        """The enforcement of the run's policy; None without one."""
        if self.policy is None:
            return None
        return Enforcement.under(self.policy, secret_labels(self.policy, self.secret))

    def to_json(self) -> dict[str, Any]:
        """The body of the start event."""
        return {
            "inputs": self.inputs,
            "facts": facts_to_json(self.facts),
            "limits": self.limits.to_json(),
            "pins": self.pins,
            "launch": self.launch,
            **({"approve": list(self.approve)} if self.approve else {}),
            **({"approval_timeout": dict(self.approval_timeout)} if self.approval_timeout else {}),
            **({"ranks": dict(self.ranks)} if self.ranks else {}),
            **({} if self.policy is None else policy_body(self.policy)),
            **({"secret": list(self.secret)} if self.secret else {}),
            **({"pepper": self.pepper} if self.pepper else {}),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Start:
        """The start from the body of a start event."""
        return cls(
            inputs=dict(body["inputs"]),
            facts=facts_from_json(body["facts"]),
            limits=Limits.from_json(body["limits"]),
            pins=dict(body["pins"]),
            launch=dict(body["launch"]),
            approve=tuple(body.get("approve", ())),
            approval_timeout=dict(body.get("approval_timeout", {})),
            ranks=dict(body.get("ranks", {})),
            policy=_policy_in(body) if "policy" in body else None,
            secret=tuple(body.get("secret", ())),
            pepper=body.get("pepper", ""),
            is_veiled=SEALED in body,
        )


def secret_labels(policy: Policy, names: Iterable[str]) -> dict[str, Label]:
    """The labels of inputs that were declared secret: nobody may read them."""
    return {name: policy.inputs._replace(readers=frozenset()) for name in names}


def policy_body(policy: Policy) -> dict[str, Any]:
    """The part of a body that records a policy."""
    return {"policy": policy_to_json(policy), "policy_hash": policy_hash(policy)}


def _policy_in(body: Mapping[str, Any]) -> Policy:
    """The policy in a body; raises ValueError if it does not match its hash."""
    policy = policy_from_json(body["policy"])
    if policy_hash(policy) != body["policy_hash"]:
        raise ValueError("the policy is not the one that was written")
    return policy


def facts_to_json(facts: Mapping[str, ToolFacts]) -> dict[str, Any]:
    """The facts about tools as JSON data."""
    return {name: _fact_to_json(fact) for name, fact in facts.items()}


def _fact_to_json(fact: ToolFacts) -> list[JSON]:
    row: list[JSON] = [str(fact.effect), list(fact.parameters)]
    if fact.loop is not None:
        return [*row, str(fact.on_in_doubt), {"tools": list(fact.loop.tools), "most": fact.loop.is_most}]
    return row if fact.on_in_doubt is OnInDoubt.ASK else [*row, str(fact.on_in_doubt)]


def facts_from_json(data: Mapping[str, Any]) -> dict[str, ToolFacts]:
    """The facts about tools from JSON data."""
    return {name: _fact_from_json(*row) for name, row in data.items()}


def _fact_from_json(
    effect: str, names: list[str], policy: str = OnInDoubt.ASK, loop: Mapping[str, Any] | None = None
) -> ToolFacts:
    own = None if loop is None else Loop(tuple(loop["tools"]), bool(loop["most"]))
    return ToolFacts(Effect(effect), tuple(names), OnInDoubt(policy), own)


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
            return PolicyChanged(_policy_in(body))
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
        **({} if result.objection is None else {"objection": result.objection.to_json()}),
    }
