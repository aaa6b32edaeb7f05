"""Compiles a goal into a plan with a language model, and defines the result types of `compile`.

In: a goal, the available tools, a language model. Out: `Compiled` with a checked plan, or `CompileFailed`
with the model's text and its errors; both report model usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from callsheet.api.checking import Providers, check_plan, signatures_of
from callsheet.api.findings import Findings, PlanError
from callsheet.api.models import withheld_variables
from callsheet.api.plan import Plan
from callsheet.authoring.compiler.request import Accounting, Draft, PlanForm, Request
from callsheet.authoring.compiler.request import Options as CompileOptions
from callsheet.authoring.shapes import Shared, described
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.frontends.spelling import Syntax, convert_to, is_python, read_as
from callsheet.ir import JSON, CallKind, call_kind
from callsheet.ir import Plan as Steps
from callsheet.ir.expression import Expression
from callsheet.machine import Compile, Spent
from callsheet.ports.calls import CallContext
from callsheet.ports.models.model import LanguageModel
from callsheet.ports.tools import Registry, ToolSpec

if TYPE_CHECKING:
    from callsheet.api.dryrun import Worlds

__all__ = ["CompileFailed", "CompileOptions", "Compiled", "Verify"]

Verify: TypeAlias = "Callable[[Plan], Iterable[Diagnostic]]"
"""Returns further diagnostics about a plan that passed the checks, such as a policy's; errors refuse it."""

_REASON = (
    "A plan cannot go on as it was written. Why:\n{reason}\n"
    "Write the plan that goes on from here with the variables that are set."
)

_NEXT_PART = (
    "The first part of a plan is done. What is to be done next:\n{reason}\n"
    "Write the next part of the plan. It goes on with the variables that are set."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A goal that was compiled into a plan.

    `plan` has passed every check against the tools that it was compiled for; `text` is its text, by default
    the model's Python program as it was written (`plan.to_ltp()` is the same plan as LTP text).
    `effects` has a sentence for each call of a plan with blocks that may change something, with its
    conditions. `findings` are the remaining warnings and hints. `answer` is what the model wrote;
    `accounting` holds the model calls, tokens, cost and time.
    """

    ok: ClassVar[bool] = True
    goal: str
    plan: Plan
    text: str
    findings: Findings = field(repr=False)
    answer: str = field(repr=False)
    accounting: Accounting = field(repr=False)
    effects: tuple[str, ...] = ()
    worlds: Worlds | None = None
    """What a plan with blocks changes with each condition true and false."""

    def require(self) -> Plan:
        """The plan; `CompileFailed.require` raises instead."""
        return self.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFailed:
    """A goal that could not be compiled into a plan.

    `text` is the model's last answer, empty if it gave none; `findings` say what is wrong with it, or why
    the model did not answer. `accounting` holds the model calls, tokens, cost and time.
    """

    ok: ClassVar[bool] = False
    goal: str
    text: str
    findings: Findings
    accounting: Accounting = field(repr=False)
    question: str = ""
    """What the model asks before it writes a plan, as no tool does it or the goal has two readings. Compile
    the goal again with `CompileOptions(answers={question: "…"})`."""

    def require(self) -> Plan:
        """Raise PlanError with the findings."""
        raise PlanError(self.findings.diagnostics, self.findings.source)


def compiled(
    goal: str, draft: Draft, registry: Registry, form: PlanForm = PlanForm.PYTHON
) -> Compiled | CompileFailed:
    """The public result of a draft, with its plan in the `form`; warns (CMP004) if there are no tools."""
    draft = _converted(draft, form, registry)
    has_tools = any(call_kind(name) is CallKind.TOOL for name in registry.names())
    findings = Findings((*draft.diagnostics, *(() if has_tools else (_without_tools(),))), draft.source)
    if draft.plan is None:
        return CompileFailed(
            goal=goal,
            text=draft.answer,
            findings=findings,
            accounting=draft.accounting,
            question=draft.question,
        )
    return Compiled(
        goal=goal,
        plan=Plan(draft.plan, draft.source),
        effects=effects_of(draft.plan, draft.source, registry),
        worlds=worlds_in(draft.plan, draft.source, registry),
        text=draft.source.text,
        findings=findings,
        answer=draft.answer,
        accounting=draft.accounting,
    )


def effects_of(plan: Steps, source: Source, registry: Registry) -> tuple[str, ...]:
    """A sentence for each call that may change something: what it is and on what it depends."""
    from callsheet.passes.structured.consequences import (  # noqa: PLC0415 - only where a plan was made
        consequences,
        sentences,
        spelled,
    )

    if plan.tree is None:
        return ()
    has_places = is_python(source.text)

    def said(node: Expression) -> str:
        if node.span is None or not has_places:
            return spelled(node)
        return source.text[node.span.start : node.span.end]

    return tuple(sentences(consequences(plan.tree, signatures_of(plan, registry), said)))


def worlds_in(plan: Steps, source: Source, registry: Registry) -> Worlds | None:
    """What a plan changes with each condition true and false, foreseen without calling anything."""
    if plan.tree is None:
        return None
    from callsheet.api.dryrun import dry_run_of  # noqa: PLC0415 - only where a plan was made
    from callsheet.api.requirements import facts_of, with_inverses  # noqa: PLC0415 - as above

    plan = with_inverses(plan, registry)
    return dry_run_of(plan, facts_of(plan, registry), {}, {}, source=source).worlds()


_SYNTAXES = {PlanForm.MICRO: Syntax.MICRO, PlanForm.JSON: Syntax.DAG}


def _converted(draft: Draft, form: PlanForm, registry: Registry) -> Draft:
    """The draft with its plan in the syntax of its form; a failure if it cannot be written in that."""
    syntax = _SYNTAXES.get(form)
    if draft.plan is None or syntax is None:
        return draft
    from callsheet.api.requirements import parameters_of  # noqa: PLC0415 - only to convert

    try:
        text, notes = convert_to(syntax, draft.plan, parameters_of(draft.plan, registry))
        plan = read_as(syntax, text, draft.source.name).require()
    except CallsheetError as error:
        return replace(draft, plan=None, diagnostics=(*draft.diagnostics, *error.diagnostics))
    return replace(
        draft,
        plan=plan,
        source=Source(draft.source.name, text),
        diagnostics=(*(replace(one, span=None) for one in draft.diagnostics), *notes),
    )


def _without_tools() -> Diagnostic:
    return Diagnostic(
        "CMP004",
        Severity.WARNING,
        "no tools are available: the plan can only answer, compute and use models",
        help="give tools with --tools or --mcp-config",
    )


def no_model() -> CallsheetError:
    """The error for a missing model (CMP001)."""
    return CallsheetError.single(
        "CMP001",
        "there is no model to compile with",
        help='give the runtime one: Runtime(model="provider:model"), or a function of a prompt',
    )


def offered(registry: Registry) -> tuple[ToolSpec, ...]:
    """The declarations of all callable tools, under the names that plans use."""
    named = zip(registry.names(), registry, strict=True)
    return tuple(replace(tool.spec, name=name) for name, tool in named if tool.spec.refusal is None)


async def draft_for(
    request: Request,
    model: LanguageModel,
    registry: Registry,
    providers: Providers,
    *,
    verify: Verify | None = None,
    options: CompileOptions | None = None,
) -> Draft:
    """A draft for a goal, checked against a registry and, if the checks find no error, by `verify`."""

    from callsheet.authoring.compiler.compile import compile_goal  # noqa: PLC0415 - brings grammars

    def check(plan: Steps) -> tuple[Diagnostic, ...]:
        diagnostics = check_plan(plan, registry, request.given.keys(), providers=providers)
        if verify is None or any(d.is_error for d in diagnostics):
            return diagnostics
        return (*diagnostics, *verify(Plan(plan)))

    return await compile_goal(request, model, check, options)


async def replan_draft(
    command: Compile,
    model: LanguageModel,
    registry: Registry,
    providers: Providers,
    context: CallContext,
    shared: Shared = (),
) -> Steps:
    """The plan of a RE-PLAN, made by a model; the next part of a plan of version 2 as a Python program.

    The model sees the kinds and sizes of the variables, and the values of those that are `shared`. Its usage
    is charged to the call even if it makes no plan. Raises CallsheetError with the errors of the model's
    last answer, ModelFailed if it gave none.
    """
    given, cuts = described(command.variables, shared, withheld_variables(command))
    is_part = command.has_blocks
    whose = "whole plan is" if is_part else "plan that cannot go on was"
    about = f"The {whose} for this goal:\n{command.goal}" if command.goal else ""
    asked = (_NEXT_PART if is_part else _REASON).format(reason=command.reason)
    if command.refused:
        asked += f"\nYour first answer:\n{command.refused}\nWrite the whole plan again, without these faults."
    request = Request(asked, offered(registry), about, given)
    context.remark(*cuts)
    # its steps take the place of others in a text; a reason tells what went wrong, not what is to be done
    form = PlanForm.PYTHON if is_part else PlanForm.LTP
    options = CompileOptions(form=form, second_look=False, repairs=command.repairs)
    from callsheet.authoring.compiler.compile import compile_goal  # noqa: PLC0415 - brings grammars

    def check(plan: Steps) -> tuple[Diagnostic, ...]:
        names = request.given.keys()
        if plan.tree is not None:  # which need not take all variables
            names &= {one.name for one in plan.tree.inputs}
        return check_plan(plan, registry, names, providers=providers)

    draft = await compile_goal(request, model, check, options)
    report(draft.accounting, context)
    if draft.plan is not None:
        return replace(draft.plan, goal=command.goal or None)
    unanswered = draft.unanswered
    if unanswered is not None:
        raise unanswered
    raise CallsheetError(draft.diagnostics, draft.source)


def report(accounting: Accounting, context: CallContext) -> None:
    """Charge the usage of a compilation to a call, for the budget and the journal of its run."""
    usage = accounting.usage
    context.remark(*accounting.facts)
    context.spend(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
        cached_tokens=usage.cached_tokens,
        requests=usage.tries,
        seconds=usage.seconds,
    )
    if accounting.calls > 1:
        context.charge(Spent(repairs=accounting.calls - 1))


def input_descriptions(inputs: Mapping[str, JSON]) -> dict[str, str]:
    """Descriptions of input variables for a prompt: kinds and sizes, no values."""
    return described(inputs)[0]
