"""The tool entries of a policy: bound to the available tools, explained, and compared with another policy's.

Entries are bound to tools by server, name and pin. Two policies are compared by judging each tool with calls
of the kinds that matter: public and private data, chosen by the plan or by strangers, for known and unknown
receivers. So what is said follows from the rules and not from how the policies are written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from callsheet.diagnostics import Diagnostic, Severity, did_you_mean, meant
from callsheet.ir import Plan, canonical_tool_name
from callsheet.ir.labels import LITERAL, TRUSTED, UNKNOWN, Label
from callsheet.passes.verify import Verdict, Violation
from callsheet.policy.builtins import BUILTINS, CONTROL_WORDS, Traits, fold
from callsheet.policy.calls import Argument, CallView, Hole, Rule
from callsheet.policy.canon import Difference, differences
from callsheet.policy.classes import EVERY, rule_of
from callsheet.policy.judge import Judge
from callsheet.policy.model import Policy, ToolRule
from callsheet.policy.rules.receivers import names_recipients
from callsheet.policy.tool_facts import facts_of, place_of
from callsheet.ports.tools import Registry, ToolSpec

_OWN = ("builtin", "transform", "people")


def policy_name(name: str, spec: ToolSpec) -> str:
    """The name of a tool in a policy: `mcp:SERVER/TOOL` for a server's tool, else `@NAME`."""
    return f"{spec.origin}/{spec.executor}" if spec.origin.startswith("mcp:") else f"@{name}"


def bind_policy(
    policy: Policy, registry: Registry, calls: Collection[str] | None = None
) -> tuple[Policy, tuple[Diagnostic, ...]]:
    """The policy with its entries under the names by which plans call their tools, and diagnostics.

    It has an entry for each tool that may be called and follows from its class: the one that the policy gives
    it by a pattern, else the one that was declared.

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
    changed: set[str] = set()
    for key, rule in policy.tools.items():
        tool = registry.get(names.get(key, key))
        if tool is None:
            rules[key] = rule
            if not key.startswith("mcp:") or key.partition("/")[0] in servers:
                diagnostics.append(_absent(key, [*names, *(f"@{name}" for name in specs)]))
        elif rule.pin is not None and tool.spec.pin is not None and rule.pin != tool.spec.pin:
            own_names = registry.names_of(names.get(key, key))
            is_called = calls is None or any(fold(name) in calls for name in own_names)
            diagnostics.append(other_pin(key, tool.spec, rule.pin, is_called=is_called))
            changed.update(own_names)
        else:
            rules.update((name, rule) for name in registry.names_of(names.get(key, key)))

    for name, spec in specs.items():
        own_names = registry.names_of(name)
        if name in changed or not (calls is None or any(fold(each) in calls for each in own_names)):
            continue
        rule = _derived(policy, name, spec, own_names, rules.get(name))
        if rule is not None and rule.pin is not None and spec.pin is not None and rule.pin != spec.pin:
            diagnostics.append(other_pin(policy_name(name, spec), spec, rule.pin))
        elif rule is not None:
            rules.update(dict.fromkeys(own_names, rule))
    diagnostics += _misspelt(policy, specs, registry)

    absent = _pinned(policy, rules)
    if calls is not None and not registry.unopened and not any(each.startswith(_SERVER) for each in servers):
        supposed = _of_absent(absent, registry)
        rules = {**{name: rule for name, rule in supposed if fold(name) in calls}, **rules}

    def all_names(key: str) -> tuple[str, ...]:
        return registry.names_of(names.get(key, key))

    def matching_names(patterns: Iterable[str]) -> tuple[str, ...]:
        """The patterns, and all names that plans may use for the tools that one of them matches."""
        found: dict[str, None] = dict.fromkeys(patterns)
        for name, spec in specs.items():
            own = registry.names_of(name)
            if any(fnmatchcase(each, pattern) for each in _all_names(spec, own) for pattern in patterns):
                found.update(dict.fromkeys(fold(each) for each in own))
        return tuple(found)

    limits = tuple(
        replace(
            limit,
            tools=matching_names(limit.tools),
            written=limit.tools,
            after=matching_names(limit.after),
            needs=matching_names(limit.needs),
        )
        for limit in policy.limits
    )
    said = {
        fold(each): spec.server_label
        for name, spec in specs.items()
        if spec.server_label is not LITERAL
        for each in registry.names_of(name)
        if calls is None or fold(each) in calls
    }
    bound = replace(_renamed(policy, all_names), tools=rules, limits=limits, server_labels=said)
    diagnostics += _tightened(bound, specs)
    diagnostics += _strange_arguments(rules, specs)
    return bound, tuple(diagnostics)


def _tightened(bound: Policy, specs: Mapping[str, ToolSpec]) -> Iterator[Diagnostic]:
    """POL011 for each tool whose server labels its results more strictly than the policy does."""
    for name, spec in specs.items():
        rule, said = bound.tools.get(name), bound.server_labels.get(fold(name))
        if rule is None or said is None or said.flows_to(rule.returns):
            continue
        server, own = spec.origin.removeprefix(_SERVER), policy_name(name, spec)
        message = f"the server {server} declares the results of {own} as {said}"
        message += f", and the policy as {rule.returns}: both count"
        hint = "a server's label only ever adds to a policy: send the data to whom both let read it"
        yield Diagnostic("POL011", Severity.HINT, message, help=hint)


def _strange_arguments(rules: Mapping[str, ToolRule], specs: Mapping[str, ToolSpec]) -> Iterator[Diagnostic]:
    """POL013 for each argument that an entry names and its tool almost has: what was meant stays unprotected.

    Nothing is said where `control` names that one too: it may be written for several versions of the tool.
    """
    for name, spec in specs.items():
        rule = rules.get(name)
        if rule is None:
            continue
        known = {each.casefold(): each for each in spec.parameter_names}
        controlled = dict.fromkeys(each.casefold() for each in rule.control)
        free = [] if EVERY in controlled else [own for key, own in known.items() if key not in controlled]
        said = [(each, free) for each in controlled]
        said += [] if rule.audience_arg is None else [(rule.audience_arg.casefold(), [*known.values()])]
        own = policy_name(name, spec)
        for argument, others in said:
            if argument not in known and did_you_mean(argument, others):
                message = f"the policy's entry for {own} names {argument}, which is no argument of it"
                yield Diagnostic("POL013", Severity.WARNING, message, help=meant(argument, others, None))


def _derived(
    policy: Policy, name: str, spec: ToolSpec, names: tuple[str, ...], written: ToolRule | None
) -> ToolRule | None:
    """The rule for a tool that follows from its class, or from its name if that is a built-in one's.

    `written` is the policy's own entry for it, to which only the argument that holds its path is added.
    """
    if spec.origin in _OWN:
        return None
    place = place_of(name, spec.parameter_names)
    if place is not None:
        return replace(written or _of_builtin(name), place_arg=place)
    if written is not None or fold(name) in BUILTINS:
        return None
    facts = facts_of(spec.parameter_names, spec.declared_class, spec.tells)
    return rule_of(policy, _all_names(spec, names), facts)


def servers_of_pinned(policy: Policy, tools: Iterable[str]) -> str | None:
    """For messages, the servers of these absent tools, if the policy has a pinned entry for each tool.

    >>> servers_of_pinned(Policy(tools={"mcp:fs/move": ToolRule(pin="sha256:1")}), ["FS__MOVE"])
    'the server fs, of which the policy has a pin,'
    """
    pinned = _pinned(policy, policy.tools)
    known = dict(_of_absent(pinned, Registry()))
    if not pinned or not all(fold(tool) in known for tool in tools):
        return None
    servers = dict.fromkeys(key.removeprefix(_SERVER).partition("/")[0] for key in pinned)
    several = "s" if len(servers) > 1 else ""
    return f"the server{several} {', '.join(servers)}, of which the policy has a pin,"


def _pinned(policy: Policy, rules: Mapping[str, ToolRule]) -> dict[str, ToolRule]:
    """The pinned entries for tools of servers: those among the `rules`, and those that add to a class.

    Of the arguments of the latter nothing is known, so the worst of their class is assumed.
    """
    pinned = {key: rule for key, rule in rules.items() if key.startswith(_SERVER) and rule.pin is not None}
    for entry in policy.entries:
        server, _, own = entry.pattern.partition("__")
        if own and EVERY not in entry.pattern and entry.settings.get("pin"):
            rule = rule_of(policy, [entry.pattern, own], None)
            if rule is not None:
                pinned.setdefault(f"{_SERVER}{server.lower()}/{own.lower()}", rule)
    return pinned


def _of_absent(pinned: Mapping[str, ToolRule], registry: Registry) -> Iterator[tuple[str, ToolRule]]:
    """The pinned entries for tools of servers, none of which was asked, by the names that plans use.

    A run calls such a tool only if its declaration still has the pin, so the proof may rely on it. A name
    that another tool has, or two of these could have, stays unknown.
    """
    claims: dict[str, list[ToolRule]] = {}
    for key, rule in pinned.items():
        server, _, own = key.removeprefix(_SERVER).partition("/")
        for name in {fold(own), f"{canonical_tool_name(server)}__{canonical_tool_name(own)}"}:
            claims.setdefault(name, []).append(rule)
    for name, rules in claims.items():
        if len(rules) == 1 and name not in BUILTINS and registry.get(name) is None:
            yield name, rules[0]


def _misspelt(policy: Policy, specs: Mapping[str, ToolSpec], registry: Registry) -> Iterator[Diagnostic]:
    """POL008 for each tool that the policy names outside of `tools` and that is not here, but almost.

    What is named with a server that has no tool here is left: only the servers that a plan needs are opened.
    """
    known = {each for name, spec in specs.items() for each in _all_names(spec, registry.names_of(name))}
    servers = {canonical_tool_name(spec.origin.removeprefix(_SERVER)) for spec in specs.values()}
    for name in dict.fromkeys(_named(policy)):
        pattern = name.removeprefix(_SERVER).replace("/", "__").upper()
        server, is_named, _ = pattern.partition("__")
        is_away = bool(is_named) and canonical_tool_name(server) not in servers
        if EVERY in pattern or pattern in known or fold(pattern) in BUILTINS or is_away:
            continue
        if did_you_mean(pattern, known):
            yield _absent(name, [f"@{each}" for each in known])


def _named(policy: Policy) -> Iterator[str]:
    """The tools that the policy names, and patterns of such, but for those of the table `tools`."""
    yield from (entry.pattern for entry in policy.entries)
    yield from sorted(policy.denied_tools | (policy.allowed_tools or frozenset()))
    yield from (rule.pattern for rule in policy.sources if rule.kind == "tool")
    yield from (rule.tool for rule in policy.rules)
    yield from (name for limit in policy.limits for name in (*limit.tools, *limit.after, *limit.needs))
    yield from () if policy.agent is None else policy.agent.tools


def _all_names(spec: ToolSpec, names: tuple[str, ...]) -> tuple[str, ...]:
    """The canonical names that a pattern of a policy may match: those of plans, and that with its server."""
    own = canonical_tool_name(spec.executor)
    server = spec.origin.removeprefix(_SERVER)
    return (
        *names,
        own,
        *([f"{canonical_tool_name(server)}__{own}"] if spec.origin.startswith(_SERVER) else []),
    )


def _of_builtin(name: str) -> ToolRule:
    """An entry that changes nothing about a built-in tool."""
    known = BUILTINS[fold(name)]
    return ToolRule(control=(), returns=known.returns, destructive=False)


def _renamed(policy: Policy, names: Callable[[str], tuple[str, ...]]) -> Policy:
    """The policy with each tool name, wherever it occurs, replaced by all names that plans may use for it."""

    def of(keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for key in keys for name in names(key))

    agent = policy.agent
    return replace(
        policy,
        allowed_tools=None if policy.allowed_tools is None else frozenset(of(policy.allowed_tools)),
        denied_tools=frozenset(of(policy.denied_tools)),
        sources=tuple(
            replace(rule, pattern=name)
            for rule in policy.sources
            for name in (names(rule.pattern) if rule.kind == "tool" else (rule.pattern,))
        ),
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
    return Diagnostic(
        "POL008",
        Severity.WARNING,
        f"the policy has an entry for {shown}, which does not exist here",
        help=meant(shown, known, "`callsheet tools` lists the available tools"),
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


_STRANGERS = Label(True)
_TOOL_PARTS = ("tools", "entries", "classes", "name")


class Outcome(IntEnum):
    """What becomes of a call, the strictest first."""

    REFUSED = 0
    ASKED = 1
    PERMITTED = 2

    @property
    def word(self) -> str:
        """The outcome as people say it."""
        return ("refused", "asked about", "permitted")[self]


class Shift(NamedTuple):
    """A kind of call of a tool that the policies treat differently."""

    tool: str
    kind: str
    before: Outcome
    now: Outcome

    @property
    def permits_more(self) -> bool:
        """Whether the new policy is less strict about it."""
        return self.now > self.before

    def __str__(self) -> str:
        return f"@{self.tool}, {self.kind}: {self.before.word} before, {self.now.word} now"


class Explanation(NamedTuple):
    """How a policy differs from another one: kinds of calls, and parts that concern no single tool."""

    shifts: tuple[Shift, ...]
    others: tuple[Difference, ...]

    def lines(self) -> Iterator[str]:
        """The explanation, what is newly permitted first."""
        for title, more in (("newly permitted or asked about", True), ("stricter than before", False)):
            found = [shift for shift in self.shifts if shift.permits_more is more]
            if found:
                yield f"{title}:"
                yield from (f"  {shift}" for shift in found)
        if self.others:
            yield "other parts that differ:"
            yield from (f"  {difference}" for difference in self.others)
        if not self.shifts and not self.others:
            yield "the policies permit the same"


def explanation(before: Policy, now: Policy, registry: Registry) -> Explanation:
    """How the policy `now` differs from the one `before`, for these tools and the built-in ones."""
    old, new = (Judge(bind_policy(policy, registry)[0]) for policy in (before, now))
    shifts: list[Shift] = []
    specs = {name: tool.spec for name, tool in zip(registry.names(), registry, strict=True)}
    for tool in dict.fromkeys((*specs, *sorted(BUILTINS.keys() - CONTROL_WORDS))):
        spec = specs.get(tool)
        known = [each for judge in (old, new) if (each := judge.traits(tool)) is not None]
        for kind, call in _calls(tool, spec, known, now):
            outcomes = _outcome(old, call), _outcome(new, call)
            if outcomes[0] is not outcomes[1]:
                shifts.append(Shift(tool, kind, *outcomes))
    parts = differences(before, now)
    others = tuple(each for each in parts if each.part.partition(".")[0] not in _TOOL_PARTS)
    return Explanation(tuple(_least(shifts)), others)


def _outcome(judge: Judge, call: CallView) -> Outcome:
    judged = judge.judge(call)
    if judged.objections:
        return Outcome.REFUSED
    return Outcome.ASKED if judged.approvals else Outcome.PERMITTED


def _least(shifts: Sequence[Shift]) -> Iterator[Shift]:
    """The shifts, of a tool that is treated differently in every way only the first."""
    plain = {(shift.tool, shift.before, shift.now) for shift in shifts if shift.kind == _PLAIN}
    for shift in shifts:
        if shift.kind == _PLAIN or (shift.tool, shift.before, shift.now) not in plain:
            yield shift


_PLAIN = "with data of the plan"


def _calls(
    tool: str, spec: ToolSpec | None, known: Sequence[Traits], policy: Policy
) -> Iterator[tuple[str, CallView]]:
    """Calls of the kinds that matter, each with the words for it."""
    traits = known[0] if known else Traits()
    names = list(traits.parameters if spec is None else spec.parameter_names) or ["text"]
    audience = next((each.audience for each in known if each.audience is not None), None)
    places = {each.path for each in known} | {each.address for each in known}
    place = next((name for name in places if name is not None), None)

    def call(label: Label, who: str | None = None, pc: Label = LITERAL) -> CallView:
        arguments: list[Argument] = []
        for name in names:
            if name == audience and who is not None:
                arguments.append(Argument(name, (who,)))
            elif name == place:
                arguments.append(Argument(name, (_place(known),)))
            elif name == audience and label is not LITERAL:
                arguments.append(Argument(name, ("someone@example.org",)))
            elif audience is not None and names_recipients(Argument(name, ("",))):
                arguments.append(Argument(name, ("",)))
            else:
                arguments.append(_argument(name, label))
        return CallView("S1", tool, tuple(arguments), pc)

    yield _PLAIN, call(LITERAL)
    yield "with text of strangers", call(_STRANGERS)
    if audience is None:
        yield "with private data", call(Label(False, UNKNOWN.readers))
    else:
        yield "with private data for a stranger", call(Label(False, UNKNOWN.readers), "someone@example.org")
        for who in _known(policy, known):
            yield f"with private data for {who}", call(Label(False, UNKNOWN.readers), who)
        told = [_argument(name, _STRANGERS if name == audience else LITERAL) for name in names]
        yield "for whom a stranger's text names", CallView("S1", tool, tuple(told))
    yield "whenever a stranger's text says so", call(LITERAL, pc=_STRANGERS)


def _argument(name: str, label: Label) -> Argument:
    return Argument(name, ("a text",) if label is LITERAL else (Hole("x", label, "a text"),), label)


def _place(known: Sequence[Traits]) -> str:
    if any(each.on_host for each in known):
        return "/var/data/notes.txt"
    return "notes.txt" if any(each.path for each in known) else "https://example.org/"


def _known(policy: Policy, known: Sequence[Traits]) -> Iterator[str]:
    """An example of each recipient whom one of the policies trusts."""
    mail = [pattern for each in policy.audiences if each.name == TRUSTED for pattern in each.mail]
    named = [pattern for traits in known for pattern in traits.trusted_audience]
    yield from dict.fromkeys(pattern.replace("*", "someone") for pattern in (*mail, *named))
