"""Resolves the tool entries of a policy to registered tools, by server, name and pin.

In: a policy as written, a registry. Out: the policy with its entries under the names that plans use, and
diagnostics for entries that match no tool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from callsheet.api.drafting import policy_name
from callsheet.diagnostics import Diagnostic, Severity, did_you_mean
from callsheet.policy.builtins import fold
from callsheet.policy.model import Policy, ToolRule
from callsheet.ports.tools import Registry, ToolSpec


def bind_policy(
    policy: Policy, registry: Registry, calls: Collection[str] | None = None
) -> tuple[Policy, tuple[Diagnostic, ...]]:
    """The policy with its entries under the names by which plans call their tools, and diagnostics.

    An entry whose pin differs from the tool's declaration is dropped with POL007: an error, or a warning if
    the plan does not call the tool (`calls` are folded names; None means that any tool may be called). An
    entry for a missing tool is kept, with the warning POL008 unless its server has no tool here: only the
    servers that a plan needs are opened.
    """
    specs = {name: tool.spec for name, tool in zip(registry.names(), registry, strict=True)}
    names = {policy_name(name, spec): name for name, spec in specs.items()}
    servers = {name.partition("/")[0] for name in names}
    rules: dict[str, ToolRule] = {}
    diagnostics: list[Diagnostic] = []
    for key, rule in policy.tools.items():
        tool = registry.get(names.get(key, key))
        if tool is None:
            rules[key] = rule
            if not key.startswith("mcp:") or key.partition("/")[0] in servers:
                diagnostics.append(_absent(key, [*names, *(f"@{name}" for name in specs)]))
        elif rule.pin is not None and tool.spec.pin is not None and rule.pin != tool.spec.pin:
            is_called = calls is None or any(
                fold(name) in calls for name in registry.names_of(names.get(key, key))
            )
            diagnostics.append(other_pin(key, tool.spec, rule.pin, is_called=is_called))
        else:
            rules.update((name, rule) for name in registry.names_of(names.get(key, key)))

    def all_names(key: str) -> tuple[str, ...]:
        return registry.names_of(names.get(key, key))

    return replace(_renamed(policy, all_names), tools=rules), tuple(diagnostics)


def _renamed(policy: Policy, names: Callable[[str], tuple[str, ...]]) -> Policy:
    """The policy with each tool name, wherever it occurs, replaced by all names that plans may use for it."""

    def of(keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for key in keys for name in names(key))

    agent = policy.agent
    return replace(
        policy,
        allowed_tools=None if policy.allowed_tools is None else frozenset(of(policy.allowed_tools)),
        denied_tools=frozenset(of(policy.denied_tools)),
        agent=None
        if agent is None
        else replace(
            agent,
            tools=of(agent.tools),
            arguments={name: given for key, given in agent.arguments.items() for name in names(key)},
        ),
        rules=tuple(replace(rule, tool=name) for rule in policy.rules for name in names(rule.tool)),
    )


def _absent(key: str, known: list[str]) -> Diagnostic:
    shown = key if key.startswith("mcp:") else f"@{key}"
    suggestions = did_you_mean(shown, known)
    return Diagnostic(
        "POL008",
        Severity.WARNING,
        f"the policy has an entry for {shown}, which does not exist here",
        help=f"did you mean {' or '.join(suggestions)}?"
        if suggestions
        else "`callsheet tools` lists the available tools",
    )


def other_pin(key: str, spec: ToolSpec, pin: str, *, is_called: bool = True) -> Diagnostic:
    """The diagnostic for an entry whose `pin` is not that of the tool: a warning unless `is_called`."""
    name = key.removeprefix("mcp:")
    if pin == spec.orderless_pin:
        message = f"the policy's pin of {name} says nothing about the order of its arguments"
        order = ", ".join(spec.parameter_names)
        help_ = (
            f"values without names go to {order}, in this order; if that is right, write its pin: {spec.pin}"
        )
    else:
        message = f"{name} has changed since the policy was written"
        help_ = f"review the changes, then write its new pin: {spec.pin}"
    return Diagnostic("POL007", Severity.ERROR if is_called else Severity.WARNING, message, help=help_)
