"""AGENT: an agent gets only the policy's tools, and never private data together with a way to send it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from callsheet.ir.labels import MODEL, Label
from callsheet.policy.builtins import PathUse, Reach, Traits, fold
from callsheet.policy.calls import CallView, Rule
from callsheet.policy.model import AgentRule
from callsheet.policy.rules.base import Check, Notes, Setting, flowing, leaves, of_name, shown

_OUTSIDE = frozenset({Reach.WORLD, Reach.ADDRESS, Reach.RECIPIENT})


def prepare(setting: Setting, tool: str, traits: Traits | None) -> Check | None:
    """AGENT for more than the policy grants, FLOW and IMPLICIT for private data with an outside tool."""
    if tool != "AGENT_SOLVE":
        return None
    given = setting.policy.agent

    def check(call: CallView, notes: Notes) -> None:
        if given is None:
            notes.object(
                Rule.AGENT,
                "the policy allows no agents",
                help="write the steps in the plan, or allow agents: [dynamic] agent in the policy",
            )
            return
        tools = _tools(setting, call, notes)
        for refusal in _refusals(setting, tools):
            notes.object(
                Rule.AGENT, refusal, "tools", help="remove it from the agent's tools, and call it in a step"
            )
        _numbers(given, call, notes)
        _together(setting, call, tools, notes)

    return check


def _tools(setting: Setting, call: CallView, notes: Notes) -> frozenset[str]:
    """The tools of the agent: those that the call names, or all that the policy grants."""
    wanted = of_name(call, "tools")
    if wanted is None:
        return setting.agent_tools
    names: set[str] = set()
    for leaf in leaves(wanted):
        if leaf.text is None:
            notes.object(
                Rule.AGENT,
                "the tools of the agent are not known before the run",
                "tools",
                help="write their names in the plan",
            )
            return setting.agent_tools
        names.update(fold(name) for name in leaf.text.replace(",", " ").split())
    more = sorted(names - setting.agent_tools)
    if more:
        listed = ", ".join(f"@{name}" for name in more)
        notes.object(
            Rule.AGENT,
            f"the policy does not allow an agent {listed}",
            "tools",
            help="remove them, or name them in the policy: [dynamic] agent.tools",
        )
    return frozenset(names)


def _refusals(setting: Setting, tools: frozenset[str]) -> Iterator[str]:
    for name in sorted(tools):
        traits = setting.traits(name)
        if traits is None:
            yield f"the policy has no entry for @{name}, a tool of the agent"
        elif traits.destructive or (traits.on_host and traits.path is None):
            yield f"@{name} cannot be undone, so an agent must not call it"
        elif name == "AGENT_SOLVE":
            yield "an agent must not start other agents"
        elif name in setting.denied or (name == "SHELL_EXEC" and "EXEC_CODE" in setting.denied):
            yield f"the policy denies @{name}"


def _numbers(given: AgentRule, call: CallView, notes: Notes) -> None:
    for name, most in (("max_turns", given.max_turns), ("max_calls", given.max_calls)):
        argument = of_name(call, name)
        if argument is None:
            continue
        try:
            is_too_many = argument.text is None or float(argument.text) > most
        except ValueError:
            is_too_many = True
        if is_too_many:
            notes.object(
                Rule.AGENT,
                f"the policy limits {name} of an agent to {most}",
                name,
                help=f"write {most} or less in the plan",
            )


class _Powers(NamedTuple):
    """What an agent could do, by the names of the tools that enable it."""

    outward: tuple[str, ...]
    private: tuple[str, ...]
    changes: tuple[str, ...]
    reads_untrusted: bool
    untold: tuple[tuple[str, Label], ...]
    """Tools whose results no model may read, with the label of the results."""


def _powers(setting: Setting, tools: frozenset[str]) -> _Powers:
    known = {name: traits for name in sorted(tools) if (traits := setting.traits(name)) is not None}
    outward = tuple(name for name, traits in known.items() if traits.reach in _OUTSIDE)
    changes = tuple(
        name
        for name, traits in known.items()
        if (traits.path is not None and traits.path_use is PathUse.WRITE)
        or (traits.control and traits.path is None and not traits.runs_code and traits.address is None)
    )
    private = tuple(name for name, traits in known.items() if not traits.returns.is_public)
    hears = any(traits.returns.untrusted and name in outward for name, traits in known.items())
    untold = [(name, traits.returns) for name, traits in known.items() if not _is_for_model(traits.returns)]
    return _Powers(outward, private, changes, hears, tuple(untold))


def _is_for_model(label: Label) -> bool:
    return label.may_reach(frozenset({MODEL}))


def dangerous_together(setting: Setting, tools: frozenset[str], label: Label) -> str | None:
    """Why no capability token may combine these tools with data of this label; None if one may.

    Private data must not meet a way out, nor untrusted text a tool that makes changes.
    """
    can = _powers(setting, frozenset(fold(name) for name in tools))
    if can.outward and not label.is_public:
        return f"{shown(label)} and a way out, @{can.outward[0]}, must not be given to one agent"
    if can.outward and can.private:
        return f"it could read private data with @{can.private[0]} and send it out with @{can.outward[0]}"
    if can.changes and (label.untrusted or can.reads_untrusted):
        return f"untrusted text could make it misuse @{can.changes[0]}"
    return None


def _together(setting: Setting, call: CallView, tools: frozenset[str], notes: Notes) -> None:
    """Objections to the combination of the agent's tools and data."""
    data, can = flowing(call), _powers(setting, tools)
    for name, label in can.untold:
        notes.object(
            Rule.FLOW,
            f"{shown(label)} that @{name} gives the agent would reach the language model",
            "tools",
            help="remove it from the agent's tools, and call it in a step",
        )
    if can.outward and not data.is_public:
        guilty = next((a.name for a in call.arguments if not a.label.is_public), None)
        notes.object(
            Rule.FLOW,
            f"{shown(data)} goes to an agent that can send it out with @{can.outward[0]}",
            None if guilty is None or guilty.isdigit() else guilty,
            help="give the agent no tool that reaches outside, or only public data",
        )
    elif can.outward and not call.pc.is_public:
        notes.object(
            Rule.IMPLICIT,
            f"private data decides whether an agent with @{can.outward[0]} starts",
            help="decide by public data, or start it unconditionally",
        )
    if can.outward and can.private:
        reads, sends = can.private[0], can.outward[0]
        hint = "give it one of the two, not both"
        if reads == sends:
            hint = f"remove it; if what @{reads} returns is public, say so in the policy: returns"
        both = f"read private data with @{reads} and send it out with @{sends}"
        notes.object(Rule.AGENT, f"the agent could {both}", "tools", help=hint)
    if can.changes and (data.untrusted or can.reads_untrusted):
        notes.object(
            Rule.AGENT,
            f"untrusted text could make the agent misuse @{can.changes[0]}",
            "tools",
            help="let it only read, and make the change in a step of the plan",
        )
