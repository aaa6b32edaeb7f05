"""Checks that a run is resumed with the tools that it was started with.

In: the start of a run, its plan, a registry. Out: nothing, or CallsheetError that names what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from callsheet.api.agents import AgentRules, names_for_agents
from callsheet.api.binding import other_pin
from callsheet.api.drafting import policy_name
from callsheet.api.requirements import absent_tools, pins_of, refused_tools
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import Plan
from callsheet.ir.plan import called_names
from callsheet.ports.tools import Registry
from callsheet.runtime.launch import check_pins, origin_change
from callsheet.store import JournalError
from callsheet.store.start import Start

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
