"""Checks before a run is resumed: the tools are those it was started with, another policy accepts the rest.

In: the start of a run, its current state, a registry, a policy. Out: the policy under which the run
continues, or the error that prevents it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from callsheet.api.policy_entries import bind_policy, other_pin, policy_name
from callsheet.api.proving import Guarantees, Proof, refused_by
from callsheet.api.requirements import AgentRules, absent_tools, names_for_agents, pins_of, refused_tools
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import Plan
from callsheet.ir.plan import called_names
from callsheet.machine import PolicyChanged
from callsheet.passes.verify import PersistedLabels
from callsheet.policy.builtins import fold
from callsheet.policy.canon import differences, policy_hash
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry
from callsheet.runtime.doubt import fold_run
from callsheet.runtime.launch import check_pins, origin_change
from callsheet.runtime.remaining import left_in, prove_remaining
from callsheet.runtime.runs import PolicyFor
from callsheet.store import Journal, JournalError
from callsheet.store.folded import Folded
from callsheet.store.label_transfer import open_labels
from callsheet.store.start import Start

_MOST_TOLD = 20


class ResumeContext(NamedTuple):
    """Where a run is resumed: its journal, what the runtime guarantees, and the folder of the file tools."""

    journal: Journal
    run_id: str
    undertaking: Guarantees
    workspace: str = ""


def other_policy(
    given: Policy, context: ResumeContext, *, is_accepted: bool, tell: Callable[[str], None] | None = None
) -> PolicyFor:
    """A function that takes a folded run and returns the policy to continue it under.

    It returns None if the given policy is the run's own; `tell` is called with each accepted difference. It
    raises CallsheetError: JRN023 for a policy that differs and is not accepted, and for a run that was
    started without one; PolicyRefused if the policy refuses the rest of the plan.
    """

    def policy(folded: Folded) -> Policy | None:
        own = folded.policy
        if own is None:
            raise unproved(context.run_id)
        registry = context.undertaking.registry
        bound, doubts = bind_policy(given, registry, frozenset(map(fold, own.tools)))
        absent = {key: rule for key, rule in own.tools.items() if rule.does and registry.get(key) is None}
        said = {key: label for key, label in own.server_labels.items() if registry.get(key) is None}
        bound = replace(bound, tools={**absent, **bound.tools}, server_labels={**said, **bound.server_labels})
        bound = replace(bound, approved=bound.approved | own.approved).with_files(own.files)
        if policy_hash(replace(bound, files=own.files)) == policy_hash(own):
            return None
        changes = [str(difference) for difference in differences(own, bound)]
        if not is_accepted:
            raise _differs(context.run_id, own, bound, changes)
        proof = Proof(
            folded.machine.program.plan,
            bound,
            prove_remaining(folded, bound, _stored_labels(context)),
            doubts,
        )
        proof = proof.under(context.undertaking)
        proof.raise_if_refused()
        bound = proof.policy
        _try(context, bound)
        for line in changes if tell is not None else ():
            assert tell is not None
            tell(line)
        return bound

    return policy


def _stored_labels(context: ResumeContext) -> PersistedLabels:
    """The stored labels of the places that the run may read."""
    with open_labels(context.journal.path) as store:
        return left_in(store, context.workspace, context.run_id)


def _try(context: ResumeContext, policy: Policy) -> None:
    """Check the calls in progress against the policy, on a copy of the run; raises PolicyRefused."""
    plan = context.journal.plan(context.journal.find_run(context.run_id).plan_hash)[0]
    copy = fold_run(context.journal, context.run_id, plan)
    if copy.machine.result is not None:
        return
    copy.feed(PolicyChanged(policy))
    result = copy.machine.result
    if result is not None and result.objection is not None:
        raise refused_by(result.objection)


def _differs(run_id: str, own: Policy, given: Policy, changes: list[str]) -> CallsheetError:
    shown = [
        *changes[:_MOST_TOLD],
        *([f"… and {len(changes) - _MOST_TOLD} more"] if len(changes) > _MOST_TOLD else []),
    ]
    return CallsheetError.single(
        "JRN023",
        f"run {run_id} is under the policy {own.name}, and {given.name} differs from it in"
        f" {len(changes)} part{'s' if len(changes) != 1 else ''}",
        help="\n".join(
            [*shown, "--accept-changed-policy continues under it, if the rest of the plan satisfies it"]
        ),
    )


def unproved(run_id: str) -> CallsheetError:
    """The error for resuming a run under a policy when it was started without one."""
    return CallsheetError.single(
        "JRN023",
        f"run {run_id} was started without a policy, so the origin of its values is not known",
        help="resume it without the policy, or start it anew under it",
    )


_OTHER_POLICY = "and continue under it: --policy FILE --accept-changed-policy"


def check_present(
    plan: Plan, registry: Registry, agents: AgentRules | None, doubts: tuple[Diagnostic, ...]
) -> None:
    """Raise CallsheetError (TOL001, TOL003) for missing tools, after the `doubts` about their servers."""
    missing = [registry.missing(name) for name in absent_tools(plan, registry, agents)]
    if missing:
        raise CallsheetError([*doubts, *missing])


def check_tools(
    start: Start,
    plan: Plan,
    registry: Registry,
    agents: AgentRules | None = None,
    *,
    accepts_changed: bool,
    is_bound_anew: bool,
) -> None:
    """Refuse to resume a run with other tools than those it was started with.

    `accepts_changed` lets declarations differ, and servers from which tools come. The pins of the policy in
    `start` hold all the same, unless the run goes on under a policy that `is_bound_anew`. Raises
    CallsheetError: JRN021 for changed tools, POL007 for one that the policy was not written for, TOL020 and
    TOL021 for untrusted ones.
    """
    if not accepts_changed:
        check_pins(start, _pins_now(start, plan, registry, agents))
        _check_servers(start, registry)
    wrong = refused_tools(plan, registry, agents)
    if not is_bound_anew:
        wrong = (*wrong, *_other_pins(start, plan, registry, agents))
    if wrong:
        raise CallsheetError(wrong)


def _pins_now(start: Start, plan: Plan, registry: Registry, agents: AgentRules | None) -> dict[str, str]:
    """The pins of the tools that a plan or its agents may call, each in the form in which it was recorded."""
    pins = pins_of(plan, registry, agents)
    return {
        name: recorded if _has_pin(start, name, recorded, registry) else pins[name]
        for name in pins
        for recorded in [start.pins.get(name, pins[name])]
    }


def _has_pin(start: Start, name: str, pin: str, registry: Registry) -> bool:
    """Whether the tool of this name has a pin that was recorded or named at the start of a run."""
    tool, fact = registry.get(name), start.facts.get(name)
    return tool is not None and tool.spec.has_pin(pin, None if fact is None else fact.parameters)


def _check_servers(start: Start, registry: Registry) -> None:
    """Refuse tools of another origin than at the start; their rules were written for that one."""
    for name in dict.fromkeys((*start.servers, *start.facts)):
        tool = registry.get(name)
        change = None if tool is None else origin_change(name, start.server_of(name), tool.spec.origin)
        if change is not None:
            raise JournalError(
                "JRN021",
                change,
                hint="review the changes (`callsheet tools`), then resume with --accept-changed-tools",
            )


def _other_pins(
    start: Start, plan: Plan, registry: Registry, agents: AgentRules | None
) -> Iterator[Diagnostic]:
    """The tools whose declaration is not the one that the policy's entry was written for."""
    if start.policy is None:
        return
    for name in dict.fromkeys((*called_names(plan), *names_for_agents(plan, registry, agents))):
        tool, rule = registry.get(name), start.policy.tools.get(name)
        if tool is None or rule is None or rule.pin is None or tool.spec.pin is None:
            continue
        if _has_pin(start, name, rule.pin, registry):
            continue
        differences = other_pin(policy_name(name, tool.spec), tool.spec, rule.pin)
        yield replace(differences, help=f"{differences.help} in a policy, {_OTHER_POLICY}")
