"""A client's session as a prepared run: one step, whose calls the client makes.

In: the open tools, the names of those that the client may call, limits, a policy. Out: a `Prepared` run for
the run service. What such a plan will call is not known, so it is not proved: each call is judged when it is
made, with the label of all that the session has read (`machine.agents`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from callsheet.api.admission import Equipment, Prepared
from callsheet.api.requirements import AgentRules, facts_of, pins_of, servers_of
from callsheet.ir import (
    JSON,
    Call,
    DictExpr,
    Effect,
    ListExpr,
    Literal,
    OnFail,
    Output,
    Plan,
    Ref,
    Respond,
    Step,
    Terminate,
    Value,
    plan_hash,
)
from callsheet.machine import Limits, ToolFacts
from callsheet.machine.program import Loop
from callsheet.policy.model import Policy
from callsheet.runtime.launch import Launch

_OPERATION = "AGENT_SOLVE"
_JUDGED = "each of its calls is judged when it is made, and it is not resumed after a crash"


class UnprovedProgram(NamedTuple):
    """A program that is no plan, why it is none, and its inputs.

    Nothing is known of its calls before it makes them, except of which tools: `may_call`, with their effects.
    """

    text: str
    why: str
    inputs: Mapping[str, JSON]
    may_call: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A session that a client begins; with `program` the calls are those of a program, if a person agrees.

    `tools` are the canonical names of the tools that it may call. A person must approve each call of a tool
    in `approve`; `approval_timeout` and `note` are as in `admission.Request`.
    """

    client: str
    tools: tuple[str, ...]
    limits: Limits
    policy: Policy | None = None
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    note: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    program: UnprovedProgram | None = None


def prepare_session(request: SessionRequest, equipment: Equipment) -> Prepared:
    """What the run of a session starts with; its policy is bound to the tools.

    Limits on time and on models do not apply: a session lasts as long as its client, and asks no model.
    """
    plan, registry, rules = _plan(request), equipment.registry, AgentRules(request.tools)
    policy = request.policy
    if policy is not None:
        from callsheet.api.proving import Assumptions, prove  # noqa: PLC0415 - only under a policy

        assumed = Assumptions(inputs=(), can_ask=True)
        policy = prove(plan, policy, registry, assumed).policy  # the bound one: the verdict does not count
    facts = facts_of(plan, registry, equipment.on_in_doubt, rules)
    facts[_OPERATION] = ToolFacts(Effect.LLM, loop=Loop(request.tools, is_most=True, is_session=True))
    sources = servers_of(plan, registry, equipment.servers, rules, policy)
    launch = Launch(
        facts=facts,
        pins=pins_of(plan, registry, rules),
        limits=replace(
            request.limits, max_model_calls=None, max_tokens=None, max_cost=None, max_seconds=None
        ),
        note={"plan": plan.title or "", **request.note, **({"servers": sources} if sources else {})},
        approve=(*request.approve, *([] if request.program is None else [_OPERATION])),
        approval_timeout=request.approval_timeout,
        policy=policy,
        verified="" if policy is None else plan_hash(plan),
    )
    return Prepared(plan, launch, equipment.known, workspace=equipment.workspace)


def _plan(request: SessionRequest) -> Plan:
    program = request.program
    if program is None:
        call = Call(_OPERATION, (), (("goal", Literal(f"the calls of {request.client}")),))
        return Plan((Step("S1", call),), title=f"session of {request.client}")
    given = (
        ("goal", Literal(f"run a program that could not be proved ({program.why}); {_JUDGED}")),
        ("program", Literal(program.text)),
        ("inputs", _constant(dict(program.inputs))),
        ("may_call", _constant([*program.may_call])),
    )
    title = f"unproved program of {request.client}"
    ends = OnFail(then=Terminate())
    runs = Step("S1", Call(_OPERATION, (), given), output=Output("result"), on_fail=ends)
    return Plan((runs, Step("S2", Respond((Ref("result", ()),)))), title=title)


def _constant(value: JSON) -> Value:
    if isinstance(value, dict):
        return DictExpr(tuple((name, _constant(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ListExpr(tuple(map(_constant, value)))
    return Literal(value)
