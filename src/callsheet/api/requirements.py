"""Collects what a run needs to know about the tools of its plan: missing ones, facts, pins, servers, agents.

In: plans, tools, a registry, the operator's rules for agents. Out: names, facts, pins, and the registry of
tools that need no server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import JSON, Call, CallKind, Effect, OnInDoubt, Plan, Step, call_kind
from callsheet.ir.inverse import Inverse
from callsheet.ir.plan import called_names
from callsheet.lazy import dataclass
from callsheet.machine import Loop, ToolFacts
from callsheet.machine.agents.actions import IN_ROUNDS, REFINE, names_its_tools, tools_named
from callsheet.passes import in_words_of
from callsheet.ports.builtin import BuiltinSettings, builtin_tools
from callsheet.ports.tools import OF_SERVERS, Registry, Tool, ToolSpec, asking_tool
from callsheet.ports.transforms import transform_tools

if TYPE_CHECKING:
    from callsheet.policy.model import Policy
    from callsheet.ports.mcp import ServerStatus
    from callsheet.ports.mcp.oauth.file import LoginFile
    from callsheet.runtime.launch import Offer

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
) -> tuple[Diagnostic, ...]:
    """Diagnostics for the tools that steps name for their agents.

    AGT001 if they are not literal names, AGT002 for one that the operator does not allow, TOL001 or TOL003
    for one that is missing (a warning if `not_asked` says where it might still be), TOL020 or TOL021 for one
    that is not trusted.
    """
    if rules is None or not rules.drives_agents:
        return ()
    return in_words_of(plan, tuple(_wrong_tools(plan, registry, rules, not_asked)))


def _wrong_tools(
    plan: Plan, registry: Registry, rules: AgentRules, not_asked: str | None
) -> Iterator[Diagnostic]:
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


def inverse_in(registry: Registry, tool: str) -> tuple[str, Inverse] | None:
    """The inverse of a tool and the name by which plans call it; None if the tool declares none.

    A tool of a server means a tool of the same server. Raises CallsheetError (TOL001, TOL003) for an inverse
    that is not there.
    """
    found = registry.get(tool)
    if found is None or found.spec.undo is None:
        return None
    inverse, (kind, _, server) = found.spec.undo, found.spec.origin.partition(":")
    if kind == "mcp":
        from callsheet.ports.mcp.declarations import qualified_name  # noqa: PLC0415 - only for servers' tools

        name = qualified_name(server, inverse.tool.lower())
        if registry.get(name) is not None:
            return registry.names_of(name)[0], inverse
    return registry.names_of(registry.require(inverse.tool).spec.name)[0], inverse


def with_inverses(plan: Plan, registry: Registry) -> Plan:
    """The plan in which each ON_FAIL UNDO names the inverses that these tools declare.

    Raises CallsheetError (CHK112, TOL001, TOL003) for a block without any, or for one that is not there.
    """
    if plan.tree is None:
        return plan
    from callsheet.ir.sagas import with_undo  # noqa: PLC0415 - a plan of version 1 does without

    return with_undo(plan, partial(inverse_in, registry))


def local_registry(given: Iterable[Tool], builtins: BuiltinSettings | None) -> Registry:
    """The tools that need no server; given tools replace built-in ones of the same name.

    Transforms and `@ASK_HUMAN` are always included, built-in tools if their settings are given. Raises
    CallsheetError for two given tools with one name, or settings that cannot be met.
    """
    own = [*given]
    taken = {tool.spec.name for tool in own}
    others = [*(() if builtins is None else builtin_tools(builtins)), *transform_tools(), asking_tool()]
    return Registry([*own, *(tool for tool in others if tool.spec.name not in taken)])


def spec_lookup(registry: Registry) -> Callable[[str], ToolSpec | None]:
    """A live lookup of the declarations of callable tools by any of their names."""

    def spec_of(name: str) -> ToolSpec | None:
        tool = registry.get(name)
        return None if tool is None or tool.spec.refusal is not None else replace(tool.spec, name=name)

    return spec_of


def take_in(registry: Registry, tool: Tool, alias: str) -> None:
    """Add a server's tool, under its qualified name if a local tool has its name.

    A tool that stands for what servers offer besides tools is not listed.
    """
    if tool.spec.origin == OF_SERVERS:
        registry.add_unlisted(tool)
        return
    existing = registry.get(tool.spec.name)
    if existing is not None and not existing.spec.origin.startswith("mcp:"):
        tool = replace(tool, spec=replace(tool.spec, name=alias))
    registry.add(tool, alias)


def take_in_all(
    registry: Registry,
    tools: Iterable[tuple[Tool, str]],
    away: Iterable[tuple[str, str]],
    locked: Collection[str] | None = None,
) -> None:
    """Add the tools of all servers, each with its qualified name.

    A tool that is called as another's qualified name has its own qualified name alone: no server takes the
    calls of another by its choice of names, nor the other tools with it.
    With the names of `locked` servers, another server does not get a name that one of these has: what a plan
    calls then does not depend on servers that the lock file does not know.
    `away` are the names and qualified names of tools whose servers cannot be opened now. They are reserved,
    so that no other server gets calls that it would not get if all servers were open.
    """
    fixed = {f"mcp:{name}" for name in locked or ()}

    def is_fixed(name: str) -> bool:
        owner = registry.get(name)
        return owner is not None and owner.spec.origin in fixed

    tools, away = [*tools], [*away]
    qualified = {alias for tool, alias in tools if tool.spec.origin in fixed}
    of_others = {*(alias for _, alias in tools), *(alias for _, alias in away)}
    for tool, alias in tools:
        name, is_own = tool.spec.name, tool.spec.origin in fixed
        claims = name != alias and name in (qualified if is_own else of_others)
        if claims or (not is_own and is_fixed(name)):
            tool = replace(tool, spec=replace(tool.spec, name=alias))  # noqa: PLW2901
        take_in(registry, tool, alias)
    for name, alias in away:
        existing = registry.get(name)
        if existing is not None and existing.spec.origin.startswith("mcp:") and not is_fixed(name):
            registry.reserve(name, alias)


def absent_tools(plan: Plan, registry: Registry, agents: AgentRules | None = None) -> tuple[str, ...]:
    """The tools that a plan or its agents may call and that are not in the registry."""
    names = dict.fromkeys(step.call.tool for step in plan.steps if step.call is not None)
    names |= dict.fromkeys(names_for_agents(plan, registry, agents))
    return tuple(name for name in names if call_kind(name) is CallKind.TOOL and registry.get(name) is None)


def refused_tools(plan: Plan, registry: Registry, agents: AgentRules | None = None) -> tuple[Diagnostic, ...]:
    """The refusals (TOL020, TOL021) of tools that a plan or its agents may call."""
    names = dict.fromkeys((*called_names(plan), *names_for_agents(plan, registry, agents)))
    tools = (tool for name in names if (tool := registry.get(name)) is not None)
    return tuple(tool.spec.refusal for tool in tools if tool.spec.refusal is not None)


def pins_of(plan: Plan, registry: Registry, agents: AgentRules | None = None) -> dict[str, str]:
    """The pins (hashes of declarations) of the tools that a plan or its agents may call."""
    names = (*called_names(plan), *names_for_agents(plan, registry, agents))
    tools = ((name, registry.get(name)) for name in names)
    return {name: tool.spec.pin for name, tool in tools if tool is not None and tool.spec.pin is not None}


def servers_of(
    plan: Plan,
    registry: Registry,
    open_now: Iterable[ServerStatus],
    agents: AgentRules | None = None,
    policy: Policy | None = None,
) -> dict[str, JSON]:
    """The server of each server tool that a plan or its agents may call, for the note of a run.

    Under a bound policy that allows new plans, these may call all tools that it describes. Maps the tool to
    the server's name, `pipe` or `tcp`, and the protocol version.
    """
    reached: dict[str, list[JSON]] = {
        f"mcp:{server.name}": [server.name, server.transport, server.protocol or ""] for server in open_now
    }
    described = () if policy is None or policy.replan is None else policy.tools
    names = (*called_names(plan), *names_for_agents(plan, registry, agents), *described)
    tools = ((name, registry.get(name)) for name in dict.fromkeys(names))
    return {
        name: reached[tool.spec.origin]
        for name, tool in tools
        if tool is not None and tool.spec.origin in reached
    }


def pin_lookup(registry: Registry) -> Callable[[str], str | None]:
    """A live lookup of a tool's pin by name: "" for a tool without one, None for an unknown name."""

    def pin_of(name: str) -> str | None:
        tool = registry.get(name)
        return None if tool is None else tool.spec.pin or ""

    return pin_of


def orderless_pin_lookup(registry: Registry) -> Callable[[str], str | None]:
    """As `pin_lookup`, for pins in their first form, which do not cover the order of the arguments."""

    def orderless_pin_of(name: str) -> str | None:
        tool = registry.get(name)
        return None if tool is None else tool.spec.orderless_pin or ""

    return orderless_pin_of


def offer_lookup(registry: Registry) -> Callable[[str], Offer | None]:
    """A live lookup of the pins and the origin of the tool that is available under a name."""
    from callsheet.runtime.launch import Offer  # noqa: PLC0415 - imports the runtime

    def offer_of(name: str) -> Offer | None:
        tool = registry.get(name)
        return (
            None
            if tool is None
            else Offer(tool.spec.pin or "", tool.spec.origin, tool.spec.orderless_pin or "")
        )

    return offer_of


def pins_for_library(plan: Plan, registry: Registry) -> dict[str, str | None]:
    """The pins to store with a plan in the library, as `pin_lookup` gives them."""
    pin_of = pin_lookup(registry)
    return {name: pin_of(name) for name in called_names(plan)}


def facts_of(
    plan: Plan,
    registry: Registry,
    on_in_doubt: OnInDoubt = OnInDoubt.ASK,
    agents: AgentRules | None = None,
) -> dict[str, ToolFacts]:
    """The machine's facts about the tools that a plan or its agents may call.

    `on_in_doubt` applies to tools that set none themselves. Without rules for `agents` the machine drives
    none.
    """
    names = (*called_names(plan), *names_for_agents(plan, registry, agents))
    tools = ((name, registry.get(name)) for name in dict.fromkeys(names))
    facts = {name: _facts(tool.spec, on_in_doubt) for name, tool in tools if tool is not None}
    if on_in_doubt is OnInDoubt.FAIL:  # nobody declares an agent's effect: `retry` does not apply to it
        facts.update((call.tool, ToolFacts(on_in_doubt=on_in_doubt)) for _, call in agent_steps(plan))
    if plan.tree is not None:
        from callsheet.machine.tree.compiling import OWN_FACTS  # noqa: PLC0415 - only for version 2

        facts.update(OWN_FACTS)
    return facts | loops_of(plan, registry, agents)


def parameters_of(plan: Plan, registry: Registry) -> dict[str, tuple[str, ...]]:
    """The parameter names, in order, of the registered tools that a plan calls."""
    tools = ((name, registry.get(name)) for name in called_names(plan))
    return {name: tool.spec.parameter_names for name, tool in tools if tool is not None}


def _facts(spec: ToolSpec, on_in_doubt: OnInDoubt) -> ToolFacts:
    """The facts of one tool; `retry` becomes `ask` for a tool whose effect nobody declared."""
    is_undeclared = spec.effect is Effect.UNSAFE and not spec.is_declared
    if on_in_doubt is OnInDoubt.RETRY and is_undeclared:
        on_in_doubt = OnInDoubt.ASK
    on_in_doubt = spec.on_in_doubt or on_in_doubt
    return ToolFacts(spec.effect, spec.parameter_names, on_in_doubt, independence=spec.independence)


def login_file() -> LoginFile:
    """The encrypted file with this user's logins at servers; it need not exist.

    It is the one that the environment names, else the user's default.
    """
    from callsheet.ports.mcp.oauth.file import LoginFile, default_logins  # noqa: PLC0415 - only with servers
    from callsheet.store.seal_keys import KeyStore  # noqa: PLC0415 - as above

    return LoginFile(default_logins(), KeyStore())
