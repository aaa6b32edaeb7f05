"""Which tools the agents of a plan may call: those that the operator allows and the step names.

In: a plan, the registry, the operator's rules. Out: tool names, and the tool facts that make the machine
drive an agent turn by turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Call, CallKind, Effect, Plan, Step, call_kind
from callsheet.machine import Loop, ToolFacts
from callsheet.machine.agents.allowance import names_its_tools, tools_named
from callsheet.machine.agents.talk import IN_ROUNDS, REFINE
from callsheet.ports.tools import Registry

_READS = frozenset({Effect.PURE, Effect.READ})


@dataclass(frozen=True, slots=True)
class AgentRules:
    """The operator's rules for agents.

    `tools` are the tools of an agent whose step names none, and the only ones that any step may name. With
    None an agent gets all tools that only read, and a step may name any tool. `drives_agents` is False if
    `Runtime(agent=…)` carries agents out as a whole instead of the machine turn by turn.
    """

    tools: tuple[str, ...] | None = None
    drives_agents: bool = True

    def default(self, registry: Registry) -> tuple[str, ...]:
        """The tools of an agent whose step names none."""
        if self.tools is not None:
            named = ((name, registry.get(name)) for name in self.tools)
            return tuple(name for name, tool in named if tool is not None and tool.spec.refusal is None)
        return tuple(
            name
            for name, tool in zip(registry.names(), registry, strict=True)
            if tool.spec.effect in _READS and tool.spec.refusal is None and call_kind(name) is CallKind.TOOL
        )


def agent_steps(plan: Plan) -> Iterator[tuple[Step, Call]]:
    """The steps that ask an agent."""
    for step in plan.steps:
        if step.call is not None and step.call.kind is CallKind.AGENT:
            yield step, step.call


def asks_for_all_tools(plan: Plan, rules: AgentRules | None) -> bool:
    """Whether an agent may call whatever only reads, so that all tools have to be there."""
    if rules is None or not rules.drives_agents or rules.tools is not None:
        return False
    return any(not names_its_tools(call) for _, call in agent_steps(plan))


def names_for_agents(plan: Plan, registry: Registry, rules: AgentRules | None) -> tuple[str, ...]:
    """The tools that the agents of a plan may call, by the plan's and the operator's rules.

    A step whose `tools` is not a literal list adds none.
    """
    if rules is None or not rules.drives_agents:
        return ()
    names: dict[str, None] = {}
    for _, call in agent_steps(plan):
        own = tools_named(call) if names_its_tools(call) else None
        if own is not None:
            names |= dict.fromkeys(own if rules.tools is None else (n for n in own if n in rules.tools))
        elif not names_its_tools(call):
            names |= dict.fromkeys(rules.tools or rules.default(registry))
    return tuple(names)


def loops_of(plan: Plan, registry: Registry, rules: AgentRules | None) -> dict[str, ToolFacts]:
    """Tool facts for the operations that the machine drives turn by turn: agents and refinements."""
    if rules is None:
        return {}
    loops: dict[str, ToolFacts] = {}
    if rules.drives_agents:
        loop = Loop(rules.default(registry), rules.tools is not None)
        loops = {call.tool: ToolFacts(Effect.LLM, loop=loop) for _, call in agent_steps(plan)}
    calls = (step.call for step in plan.steps if step.call is not None)
    asked = {call.tool for call in calls if call.tool == REFINE or _asks_for_rounds(call)}
    return loops | {tool: ToolFacts(Effect.LLM, loop=Loop()) for tool in sorted(asked)}


def _asks_for_rounds(call: Call) -> bool:
    return call.tool in IN_ROUNDS and any(name == "rounds" for name, _ in call.named)


def wrong_tools(
    plan: Plan, registry: Registry, rules: AgentRules | None, *, not_asked: str | None = None
) -> Iterator[Diagnostic]:
    """Diagnostics for the tools that steps name for their agents.

    AGT001 if they are not literal names, AGT002 for one that the operator does not allow, TOL001 or TOL003
    for one that is missing (a warning if `not_asked` says where it might still be), TOL020 or TOL021 for one
    that is not trusted.
    """
    if rules is None or not rules.drives_agents:
        return
    for step, call in agent_steps(plan):
        value = next((value for name, value in call.named if name == "tools"), None)
        if value is None:
            continue
        span, names = value.span or call.span or step.span, tools_named(call)
        if names is None:
            message = f"the tools of @{call.tool} must be literals in the plan: data must not choose tools"
            hint = 'write their names: tools=["web_search", "read_file"]'
            yield Diagnostic("AGT001", Severity.ERROR, message, span, help=hint, step=step.id)
        for name in names or ():
            tool = registry.get(name)
            if tool is None:
                severity = Severity.ERROR if not_asked is None else Severity.WARNING
                yield replace(registry.missing(name), severity=severity, span=span, step=step.id)
            elif tool.spec.refusal is not None:
                yield replace(tool.spec.refusal, span=span, step=step.id)
            elif rules.tools is not None and name not in rules.tools:
                allowed = ", ".join(f"@{tool}" for tool in rules.tools) or "no tool"
                message = f"agents are not allowed to call @{name} here"
                hint = f"the operator allows {allowed}"
                yield Diagnostic("AGT002", Severity.ERROR, message, span, help=hint, step=step.id)
