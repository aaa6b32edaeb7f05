"""Checks a plan against the available tools: runs the passes and adds what only the registry knows.

In: a plan, a registry, the names of input variables. Out: diagnostics. Nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from callsheet import lazy
from callsheet.api.requirements import agent_steps, with_inverses
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Span, did_you_mean
from callsheet.ir import Call, CallKind, Ending, Literal, Order, Plan, Step, canonical_tool_name
from callsheet.ir.flow import uses_of
from callsheet.machine.agents.actions import tools_named
from callsheet.machine.questions import covers
from callsheet.passes import ToolSignature, check, in_words_of
from callsheet.ports import tools as asking
from callsheet.ports.tools import Registry, Tool
from callsheet.ports.transforms import ORIGIN, fault_of_literal, literal_check

if TYPE_CHECKING:
    from callsheet.ir.tree import Tree

_NO_TARGET = frozenset({"CHK012", "CHK060"})
_OF_ONE_STEP = frozenset(
    {"CHK013", "CHK016", "CHK040", "CHK041", "CHK042", "CHK043", "CHK044", "CHK045", "CHK061", "TOL003"}
)
_LABEL = lazy.pattern(r"^[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:", re.MULTILINE)
_INDEX = lazy.pattern(r"""["']?index["']?[ \t]*:[ \t]*["']?([^"',}\n]+)""")
_OPTION = lazy.pattern(r"--var (\w+)=…")
_UNKNOWN_TOOL = "CHK040"
_CANNOT_WORK = "CHK045"
_NO_COMPILER = "RE-PLAN needs a language model"
_NAME_A_MODEL = "name one: --model provider:model, [model] in config.toml, or Runtime(model=…)"
_ESCAPED = frozenset('"/$\b\f\n\r\t')
"""Characters that a raw string cannot contain, or that an escape sequence may represent."""


class Providers(NamedTuple):
    """Whether the run has a model, an agent and a compiler, for what tools do not carry out."""

    model: bool = False
    agent: bool = False
    compiler: bool = False


NO_PROVIDERS = Providers()
ALL_PROVIDERS = Providers(model=True, agent=True, compiler=True)


def check_plan(
    plan: Plan,
    registry: Registry | None,
    inputs: Collection[str] = (),
    *,
    not_asked: str | None = None,
    providers: Providers = NO_PROVIDERS,
) -> tuple[Diagnostic, ...]:
    """All errors, warnings and hints about a plan that can be found before a run.

    Without a `registry` tools are not checked. `not_asked` names, for messages, a place that may have
    further tools and was not queried: a missing tool is then only a warning.
    """
    return in_words_of(plan, _found(plan, registry, inputs, not_asked, providers))


def _found(
    plan: Plan,
    registry: Registry | None,
    inputs: Collection[str],
    not_asked: str | None,
    providers: Providers,
) -> tuple[Diagnostic, ...]:
    if plan.tree is not None:
        from callsheet.api.used_plans import unread  # noqa: PLC0415 - only for version 2

        if missing := unread(plan):
            return missing
        if registry is not None:
            try:
                plan = with_inverses(plan, registry)
            except CallsheetError as error:
                if not_asked is None:
                    return (*check(plan, tools=None, inputs=inputs), *error.diagnostics)
    tools = None if registry is None else signatures_of(plan, registry)
    diagnostics = check(plan, tools=tools, inputs=inputs)
    if registry is not None:
        steps = {step.id: step for step in plan.steps}
        diagnostics = tuple(_explained(d, steps, registry, not_asked) for d in diagnostics)
        diagnostics = (*diagnostics, *_refused_calls(plan, registry))
        if plan.tree is not None and tools is not None:
            diagnostics = (*diagnostics, *_not_undone(plan.tree, tools), *_without_interpreter(plan.tree))
    return (*diagnostics, *_what_cannot_run(plan, providers))


def check_readable(
    plan: Plan, lost: str, registry: Registry | None, *, not_asked: str | None = None
) -> tuple[Diagnostic, ...]:
    """The errors in the readable steps of a plan that could be parsed only in part.

    Reports only what the unread steps cannot change: tools and their arguments, repeated ids, and jumps to
    a step whose label does not occur in the `lost` text either.
    """
    if plan.tree is not None:
        return ()
    pattern = _LABEL if plan.order is Order.TEXT else _INDEX
    labels = {match[1] for match in pattern.finditer(lost)}
    steps = {step.id: step for step in plan.steps}
    return tuple(
        d
        for d in check_plan(plan, registry, not_asked=not_asked)
        if d.is_error
        and (
            d.code in _OF_ONE_STEP
            or (d.code in _NO_TARGET and not labels & _targets(steps.get(d.step or "")))
        )
    )


def idle_rules(plan: Plan, approve: Iterable[str], limited: Iterable[str] = ()) -> tuple[Diagnostic, ...]:
    """RUN032 for each tool that needs approval (`approve`) or is `limited`, but that no step calls.

    Tools that a step names for its agent count as called. In `approve` a step may be named, too.
    """
    called = {step.call.tool for step in plan.steps if step.call is not None}
    called |= {name for _, call in agent_steps(plan) for name in tools_named(call) or ()}
    steps = {canonical_tool_name(step.id): step.id for step in plan.steps if step.call is not None}
    hint = "check the name: `callsheet tools`"
    named = f"{hint}; a step is named by its id" + "".join(f", as {one}" for one in [*steps.values()][:1])
    rules = [(name, "whose calls need approval", named) for name in approve if name not in steps]
    rules = [rule for rule in rules if not any(covers([rule[0]], tool) for tool in called)]
    for name in limited:
        others = sorted(tool for tool in called if covers([name], tool))
        counts = f"a limit counts one name; limit {' and '.join(f'@{each}' for each in others)} too"
        if name not in called:
            rules.append((name, "whose calls are limited", counts if others else hint))
    return tuple(
        Diagnostic(
            "RUN032",
            Severity.WARNING,
            f"no step calls @{name}, {rule}",
            help=help_,
        )
        for name, rule, help_ in rules
    )


def idle_inputs(plan: Plan, inputs: Iterable[str]) -> tuple[Diagnostic, ...]:
    """RUN033 for each variable that is given to a run but that no step reads.

    A plan with RE-PLAN or an agent may use variables that it does not name. A plan of version 2 declares its
    inputs, and takes no others: RUN036.
    """
    if plan.tree is not None:
        from callsheet.ir.inputs import unknown_inputs  # noqa: PLC0415 - a plan of version 1 does without

        return in_words_of(plan, tuple(unknown_inputs(plan.tree, inputs)))
    if any(step.is_open for step in plan.steps):
        return ()
    read = {use.ref.name for number, step in enumerate(plan.steps) for use in uses_of(step, number)}
    return tuple(
        Diagnostic(
            "RUN033",
            Severity.WARNING,
            f"no step reads ${name}, which is given to the run",
            help=_meant(name, sorted(read - set(inputs))),
        )
        for name in inputs
        if name not in read
    )


def _meant(name: str, read: Sequence[str]) -> str:
    near = did_you_mean(name, read, 1)
    if near:
        return f"did you mean ${near[0]}?"
    return f"the plan reads {', '.join(f'${each}' for each in read[:4])}" if read else "write it in the plan"


def _targets(step: Step | None) -> set[str]:
    """The steps that a step depends on, or else those it may jump to."""
    if step is None:
        return set()
    if step.depends_on is not None:
        return set(step.depends_on)
    return {jump.target for jump in step.jumps()}


def signatures_of(plan: Plan, registry: Registry) -> dict[str, ToolSignature]:
    """The signature of every tool by its name, and by the alias that the plan uses for it."""
    tools = dict(zip(registry.names(), registry, strict=True))
    for step in plan.steps:
        if step.call is not None and step.call.tool not in tools:
            tool = registry.get(step.call.tool)
            if tool is not None:
                tools[step.call.tool] = tool
    return {name: _signature(tool) for name, tool in tools.items()}


_made: dict[int, tuple[Tool, ToolSignature]] = {}
"""The signatures made so far, by the identity of their tools, which are kept so that it stays theirs."""
_MOST_MADE = 2_000


def _signature(tool: Tool) -> ToolSignature:
    made = _made.get(id(tool))
    if made is None:
        if len(_made) >= _MOST_MADE:
            _made.clear()
        made = _made[id(tool)] = tool, _new_signature(tool)
    return made[1]


def _new_signature(tool: Tool) -> ToolSignature:
    check_literal = literal_check(tool.spec.name) if tool.spec.origin == ORIGIN else None
    if tool.spec.origin == asking.ORIGIN:
        check_literal = asking.check_literal
    spec = tool.spec
    return ToolSignature.from_schema(
        spec.parameters, spec.effect, check_literal, gives_list=spec.gives_list, result=spec.result or None
    )


def _explained(
    diagnostic: Diagnostic, steps: dict[str, Step], registry: Registry, not_asked: str | None
) -> Diagnostic:
    """A finding made more precise: why the tool is missing, or which character of a literal is wrong."""
    step = steps.get(diagnostic.step or "")
    if step is None or step.call is None:
        return diagnostic
    if diagnostic.code == _CANNOT_WORK:
        return _placed(diagnostic, step.call)
    if diagnostic.code != _UNKNOWN_TOOL:
        return diagnostic
    reason = registry.missing(step.call.tool)
    if reason.code != "TOL001":
        return replace(diagnostic, code=reason.code, message=reason.message, help=reason.help)
    if not_asked is None:
        return diagnostic
    message = f"no tool is called @{step.call.tool} here, and {not_asked} was not asked"
    near = (
        diagnostic.help if diagnostic.help is not None and diagnostic.help.startswith("did you mean") else ""
    )
    hint = f"{near} `callsheet lock` asks the servers, or says why it cannot".lstrip()
    return replace(diagnostic, severity=Severity.WARNING, message=message, help=hint)


def _refused_calls(plan: Plan, registry: Registry) -> Iterator[Diagnostic]:
    """A diagnostic at each call of a tool that is not trusted."""
    for step in plan.steps:
        tool = registry.get(step.call.tool) if step.call is not None else None
        if tool is not None and tool.spec.refusal is not None:
            yield replace(tool.spec.refusal, span=step.action.span or step.span, step=step.id)


def _not_undone(tree: Tree, tools: Mapping[str, ToolSignature]) -> Iterator[Diagnostic]:
    """CHK113 for the calls that an ON_FAIL UNDO cannot take back."""
    from callsheet.ir.sagas import not_undone  # noqa: PLC0415 - a plan of version 1 does without

    def only_reads(tool: str) -> bool:
        known = tools.get(tool)
        return known is None or known.effect.only_reads

    return not_undone(tree, only_reads)


def _placed(diagnostic: Diagnostic, call: Call) -> Diagnostic:
    """The finding about a transform's literal, moved to the wrong character unless escapes may be in it."""
    for value in (*call.positional, *(value for _, value in call.named)):
        if value.span is None or value.span != diagnostic.span or not isinstance(value, Literal):
            continue
        fault = fault_of_literal(call.tool, value.value)
        if fault is None or fault.at is None or not isinstance(value.value, str):
            return diagnostic
        before = _quotes_before(value.value, value.span)
        if before is None:
            return replace(diagnostic, message=f"{diagnostic.message} (character {fault.at + 1})")
        start = value.span.start + before + fault.at
        return replace(diagnostic, span=Span(start, start + 1))
    return diagnostic


def _quotes_before(text: str, span: Span) -> int | None:
    """The length of a literal's opening quote with its prefix; None if the literal may contain escapes."""
    more = span.end - span.start - len(text)
    if more == 2:
        return 1
    is_raw = more == 3 and text.count("\\") != 1 and not _ESCAPED & set(text)
    return 2 if is_raw else None


def _what_cannot_run(plan: Plan, providers: Providers) -> Iterator[Diagnostic]:
    """RUN010 for each step that needs a model, agent or compiler that is missing."""
    for step in plan.steps:
        what = _lacking(step, providers)
        if what is not None:
            span = step.action.span or step.span
            message = f"{what}, which is not available here; the step will fail"
            yield Diagnostic("RUN010", Severity.WARNING, message, span, _NAME_A_MODEL, step=step.id)
    if plan.tree is not None and not providers.compiler:
        yield from _new_plans(plan.tree)


def _without_interpreter(tree: Tree) -> tuple[Diagnostic, ...]:
    """CFG232 at the first COMPUTE of a plan, if nothing here could run it."""
    from callsheet.ir.tree import Compute, all_statements  # noqa: PLC0415 - a plan of version 1 does without

    first = next((one for one in all_statements(tree) if isinstance(one, Compute)), None)
    if first is None:
        return ()
    from callsheet.ports.python_code import interpreter_version  # noqa: PLC0415 - only where a plan computes

    try:
        interpreter_version()
    except CallsheetError as error:
        return tuple(replace(one, span=first.span, step=first.id) for one in error.diagnostics)
    return ()


def _new_plans(tree: Tree) -> Iterator[Diagnostic]:
    """RUN010 for each RE-PLAN of a plan of version 2, where it may stand."""
    from callsheet.ir.tree import Say, Word  # noqa: PLC0415 - a plan of version 1 does without

    for one in tree.body:
        if isinstance(one, Say) and one.word is Word.REPLAN:
            message = f"{_NO_COMPILER}, which is not available here; the step will fail"
            yield Diagnostic("RUN010", Severity.WARNING, message, one.span, _NAME_A_MODEL, step=one.id)


def _lacking(step: Step, providers: Providers) -> str | None:
    if step.course.ends is Ending.NEW_PLAN:
        return None if providers.compiler else _NO_COMPILER
    call = step.call
    if call is not None and call.kind is CallKind.MODEL and not providers.model:
        return f"@{call.tool} needs a language model"
    if call is not None and call.kind is CallKind.AGENT and not providers.agent:
        return f"@{call.tool} needs an agent"
    return None


def advised(plan: Plan, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The findings about a plan, with help that names arguments of the Python API."""
    return tuple(_advised(plan, d) for d in diagnostics)


def _advised(plan: Plan, diagnostic: Diagnostic) -> Diagnostic:
    help_ = diagnostic.help or ""
    if diagnostic.code == _UNKNOWN_TOOL:
        step = plan.step(diagnostic.step or "")
        if step is not None and step.call is not None and step.call.tool in _builtin_names():
            help_ = "it is a built-in tool: Runtime(builtins=True)"
        elif help_.startswith("`callsheet tools`"):
            help_ = "give it to the runtime: Runtime(tools=[…]), or mcp=… for servers"
    help_ = _OPTION.sub(r"inputs={'\1': …}", help_)
    return replace(diagnostic, help=help_ or None)


def _builtin_names() -> frozenset[str]:
    from callsheet.ports.builtin import BuiltinSettings, builtin_tools  # noqa: PLC0415 - only for an unknown tool

    folder = Path()
    return frozenset(
        t.spec.name for t in builtin_tools(BuiltinSettings(workspace=folder, data=folder, host=True))
    )
