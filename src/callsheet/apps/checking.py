"""A plan against the tools that are reachable: the passes' findings and what only a face knows.

In: a plan, a registry, the names of given variables. Out: diagnostics. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Call, CallKind, Order, Plan, Replan, Step
from callsheet.passes import ToolSignature, check
from callsheet.ports.tools import Registry

_UNKNOWN_TOOL = "CHK040"


def check_plan(
    plan: Plan, registry: Registry | None, inputs: Collection[str] = (), *, not_asked: str | None = None
) -> tuple[Diagnostic, ...]:
    """All that is wrong with a plan, or could be better, before a run.

    Without a `registry` tools are not looked at. `not_asked` says where else a tool might be,
    in words, that nobody has asked: then a tool that is missing here is a warning.
    """
    tools = None if registry is None else _signatures(plan, registry)
    found = check(plan, tools=tools, inputs=inputs)
    if registry is not None:
        steps = {step.id: step for step in plan.steps}
        found = tuple(_explained(d, steps, registry, not_asked) for d in found)
    return (*found, *_what_cannot_run(plan, registry))


def _signatures(plan: Plan, registry: Registry) -> dict[str, ToolSignature]:
    """The catalogue: every tool by its name, and by its second name where the plan calls it so."""
    tools = dict(zip(registry.names(), registry, strict=True))
    for step in plan.steps:
        if isinstance(step.action, Call) and step.action.tool not in tools:
            tool = registry.get(step.action.tool)
            if tool is not None:
                tools[step.action.tool] = tool
    return {
        name: ToolSignature.from_schema(tool.spec.parameters, tool.spec.effect)
        for name, tool in tools.items()
    }


def _explained(
    diagnostic: Diagnostic, steps: dict[str, Step], registry: Registry, not_asked: str | None
) -> Diagnostic:
    """An unknown tool in the registry's words: offered twice, or perhaps offered elsewhere."""
    step = steps.get(diagnostic.step or "")
    if diagnostic.code != _UNKNOWN_TOOL or step is None or not isinstance(step.action, Call):
        return diagnostic
    said = registry.missing(step.action.tool)
    if said.code != "TOL001":
        return replace(diagnostic, code=said.code, message=said.message, help=said.help)
    if not_asked is None:
        return diagnostic
    message = f"no tool is called @{step.action.tool} here, and {not_asked} was not asked"
    return replace(diagnostic, severity=Severity.WARNING, message=message)


def _what_cannot_run(plan: Plan, registry: Registry | None) -> Iterator[Diagnostic]:
    """RUN010 for what this version has no way to carry out, RUN001 for a plan it cannot run."""
    if plan.order is not Order.TEXT:
        message = "this plan is a graph of dependencies, and only plans of text order can be run"
        yield Diagnostic("RUN001", Severity.WARNING, message)
    for step in plan.steps:
        what = _lacking(step, registry)
        if what is not None:
            span = step.action.span or step.span
            message = f"{what}, which this version of callsheet does not have; the step will fail"
            yield Diagnostic("RUN010", Severity.WARNING, message, span, step=step.id)


def _lacking(step: Step, registry: Registry | None) -> str | None:
    match step.action:
        case Replan():
            return "RE-PLAN needs a language model"
        case Call(tool=tool) as call:
            match call.kind:
                case CallKind.MODEL:
                    return f"@{tool} needs a language model"
                case CallKind.AGENT:
                    return f"@{tool} needs an agent"
                case CallKind.TRANSFORM if registry is not None and registry.get(tool) is None:
                    return f"@{tool} needs the transforms"
                case _:
                    return None
        case _:
            return None
