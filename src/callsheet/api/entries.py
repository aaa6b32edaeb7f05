"""Explains why no policy entry applies to a tool that a plan calls.

In: a tool's name, the policy as written, the registry. Out: a help text, if the reason is more than that
the policy does not name the tool: the entry has another pin, or its server is not open.
"""

from __future__ import annotations

from dataclasses import replace

from callsheet.api.drafting import policy_name
from callsheet.ir import Plan
from callsheet.passes.verify import Verdict, Violation
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Rule
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry

_SERVER = "mcp:"


def with_hints(
    verdict: Verdict, plan: Plan, policy: Policy, registry: Registry, not_asked: str | None = None
) -> tuple[Violation, ...]:
    """The violations, with a more precise help where a tool has no entry.

    `not_asked` names, for messages, a place that may have further tools and was not queried.
    """
    return tuple(_explained(each, plan, policy, registry, not_asked) for each in verdict.violations)


def _explained(
    violation: Violation, plan: Plan, policy: Policy, registry: Registry, not_asked: str | None
) -> Violation:
    step = plan.step(violation.step or "")
    if violation.rule is not Rule.UNKNOWN_TOOL or step is None or step.call is None:
        return violation
    hint = entry_hint(step.call.tool, policy, registry, not_asked)
    return violation if hint is None else replace(violation, help=hint)


def entry_hint(tool: str, policy: Policy, registry: Registry, not_asked: str | None) -> str | None:
    """What to do so that an entry applies to a tool; None if the policy has to describe the tool first."""
    repinned = _other_pin(tool, policy, registry)
    if repinned is not None:
        return f"the entry {repinned} is not applied, because its pin is not the one of the tool: see POL007"
    origins = dict.fromkeys(each.spec.origin for each in registry)
    servers = [origin.removeprefix(_SERVER) for origin in origins if origin.startswith(_SERVER)]
    for key in policy.tools:
        server, _, own = key.removeprefix(_SERVER).partition("/")
        if not key.startswith(_SERVER) or tool not in (fold(own), f"{fold(server)}__{fold(own)}"):
            continue
        if server in registry.unopened:
            return f"the entry {key} applies once the server {server!r} is open; it could not be opened"
        if server in servers:
            return f"the entry {key} is for the server {server!r}, which is open and has no such tool"
        if servers:
            server_names = ", ".join(servers)
            return f"the entry {key} is for a server {server!r}; those that were asked are {server_names}"
        return None
    if registry.get(tool) is None and not_asked is not None:
        return f"describe it in the policy, once its server was asked: {not_asked} was not (--mcp-config)"
    if registry.get(tool) is None and registry.unopened:
        names = ", ".join(map(repr, registry.unopened))
        return f"describe it in the policy, once its server is open: {names} could not be opened"
    return None


def _other_pin(tool: str, policy: Policy, registry: Registry) -> str | None:
    """The policy key that names the tool but carries another pin."""
    for own, each in zip(registry.names(), registry, strict=True):
        if tool not in registry.names_of(own):
            continue
        for key in (policy_name(own, each.spec), *registry.names_of(own)):
            rule = policy.tools.get(key)
            if rule is not None and rule.pin is not None and rule.pin != each.spec.pin:
                return key
    return None
