"""Makes plans with the user's planner or compiler, or with a model that may repair its answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.api.checking import ALL_PROVIDERS
from callsheet.api.models import (
    Compiler,
    Model,
    ReplanRequest,
    called,
    label_of_shared,
    language_model,
    withheld_variables,
)
from callsheet.api.plan import Plan
from callsheet.authoring.shapes import Shared
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ir import JSON, CallKind, Order, call_kind
from callsheet.ir import Plan as Steps
from callsheet.lazy import dataclass, deferred
from callsheet.machine import Compile, Progress, Remark
from callsheet.machine.progress import without_past
from callsheet.ports.calls import CallContext
from callsheet.ports.models.model import Constraint, LanguageModel
from callsheet.ports.tools import Registry, ToolSpec

if TYPE_CHECKING:
    from callsheet.api import compiling
    from callsheet.authoring import planner as prompts
    from callsheet.authoring import prompt as answers
    from callsheet.authoring.compiler import asking, catalogue
    from callsheet.authoring.compiler import request as model_requests
    from callsheet.authoring.compiler.asking import Reading
    from callsheet.authoring.compiler.request import Check
    from callsheet.authoring.planner import PlanPrompt
    from callsheet.frontends import dag, spelling
else:
    prompts = deferred("callsheet.authoring.planner")
    asking = deferred("callsheet.authoring.compiler.asking")
    catalogue = deferred("callsheet.authoring.compiler.catalogue")
    answers = deferred("callsheet.authoring.prompt")
    dag = deferred("callsheet.frontends.dag")
    spelling = deferred("callsheet.frontends.spelling")
    compiling = deferred("callsheet.api.compiling")
    model_requests = deferred("callsheet.authoring.compiler.request")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request to a planner.

    `goal` is what the plan is for and `context` data about it. `progress` is the state of a failed graph:
    its steps that are done, failed (with their errors) and remaining; None for a new plan. `variables` are
    the names of the variables that are set. `messages` is the whole request, tools included, as a
    conversation for a model.
    """

    goal: str
    context: str
    progress: Progress | None
    variables: tuple[str, ...]
    messages: tuple[dict[str, str], ...] = ()


Planned: TypeAlias = "Plan | str | Mapping[str, Any]"
"""A plan, its JSON text (prose around it is ignored), or its JSON data."""
Planner: TypeAlias = "Callable[[PlanRequest], Planned | Awaitable[Planned]]"
"""What `Runtime(planner=…)` takes."""


_MANY_TOOLS, _MANY_TOKENS = 60, 6_000
"""How many tools, and tokens of them, a prompt may contain; dependency plans are made by larger models."""


def _unchecked(_plan: Steps) -> tuple[Diagnostic, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class GraphPlanner:
    """Makes plans with the user's planner, else with a model, which may repair its answer once.

    A model is told names, kinds and sizes of variables and failures, and the values of `shared` variables.
    """

    planner: Planner | None = None
    model: LanguageModel | None = None
    shared: Shared = ()

    async def create(
        self, goal: str, context: str, tools: Iterable[ToolSpec], call: CallContext, check: Check = _unchecked
    ) -> Steps:
        """A plan for a goal; usage is charged to `call`.

        A model's plan has passed `check`; a planner's has not been checked. Raises CallsheetError for an
        answer that is not a plan, ModelFailed for no answer.
        """
        request = PlanRequest(goal, context, None, ())
        offered, remarks = _offered_tools(goal, tools)
        call.remark(*remarks)
        plan = await self._ask(request, prompts.plan_prompt(goal, offered, context), call, check)
        return plan if plan.goal else replace(plan, goal=goal)

    async def revise(
        self, command: Compile, tools: Iterable[ToolSpec], call: CallContext, check: Check = _unchecked
    ) -> Steps:
        """The steps that continue a failed graph; checks and raises as `create` does."""
        progress = command.progress
        assert progress is not None
        goal = progress.plan.goal or progress.plan.title or ""
        request = PlanRequest(goal, "", progress, tuple(command.variables))
        left = " ".join(
            step.title or "" for step in (*(step for step, _ in progress.failed), *progress.remaining)
        )
        offered, remarks = _offered_tools(f"{goal}. {left}", tools)
        call.remark(*remarks)
        tells = self.planner is not None  # a planner gets the errors in `progress` anyway
        call.shown = None if tells else label_of_shared(command, self.shared)
        prompt = prompts.revision_prompt(
            progress,
            command.variables,
            offered,
            self.shared,
            tells_errors=tells,
            odd=withheld_variables(command),
        )
        plan = await self._ask(
            request, prompt, call, lambda plan: check(without_past(plan, progress)), repairs=command.repairs
        )
        return without_past(plan, progress)

    async def _ask(
        self,
        request: PlanRequest,
        prompt: PlanPrompt,
        call: CallContext,
        check: Check,
        *,
        repairs: bool = True,
    ) -> Steps:
        if self.planner is not None:
            call.remark(*prompt.remarks)
            return _read(await called(self.planner, replace(request, messages=tuple(prompt.messages))))
        if self.model is None:
            raise no_planner()
        accounting = model_requests.Accounting(model=self.model.name, remarks=prompt.remarks)
        draft = await asking.ask_model(
            asking.Ask(prompt.messages, partial(_reading, check), accounting, repairs=repairs), self.model
        )
        compiling.report(draft.accounting, call)
        if draft.plan is not None:
            return draft.plan
        unanswered = draft.unanswered
        if unanswered is not None:
            raise unanswered
        raise CallsheetError(draft.diagnostics, draft.source)


def graph_planner(planner: Planner | None, model: Model | None, shared: Shared = ()) -> GraphPlanner | None:
    """The maker of dependency plans; None with neither a planner nor a model that can be asked."""
    if planner is not None:
        return GraphPlanner(planner, shared=shared)
    asked_for = None if model is None else language_model(model)
    return None if asked_for is None else GraphPlanner(model=asked_for, shared=shared)


def _offered_tools(goal: str, tools: Iterable[ToolSpec]) -> tuple[list[ToolSpec], tuple[Remark, ...]]:
    """The tools that the prompt for a goal contains, in their order, and remarks on those left out."""
    given = list(tools)
    chosen = catalogue.catalogue_for(goal, given, max_tools=_MANY_TOOLS, max_tokens=_MANY_TOKENS)
    names = {offer.name for offer in chosen.offers}
    own = (CallKind.MODEL, CallKind.AGENT, CallKind.TRANSFORM)
    return [spec for spec in given if spec.name in names or call_kind(spec.name) in own], chosen.remarks


def _reading(check: Check, text: str, held_to: Constraint | None) -> Reading:
    """The dependency plan in a model's answer, checked."""
    del held_to  # dependency plans are asked for without a grammar
    result = prompts.read_graph_answer(text)
    if result.plan is None:
        return asking.Reading(None, result.diagnostics, result.source)
    plan = _as_graph(result.plan)
    wrong = refused(Plan(plan, result.source), check(plan))
    return (
        asking.Reading(plan, (), result.source)
        if wrong is None
        else asking.Reading(None, wrong.diagnostics, result.source)
    )


def _as_graph(plan: Steps) -> Steps:
    return plan if plan.order is Order.DAG else dag.to_dag(plan).plan


def no_planner() -> CallsheetError:
    """The error for a missing planner and model (PLN011)."""
    return CallsheetError.single(
        "PLN011",
        "there is no model or planner to make a plan: none was given as model= or planner=",
        help="give one: Runtime(model=…), Runtime(planner=…), PlanningContext(…, model=…); a PlanningContext"
        " without either uses the model that the environment variable CALLSHEET_MODEL names",
    )


def refused(plan: Plan, diagnostics: Iterable[Diagnostic]) -> CallsheetError | None:
    """The error PLN010 for a generated plan with errors or without steps; None if it may run."""
    errors = tuple(d for d in diagnostics if d.is_error)
    if plan.ir.steps and not errors:
        return None
    head = Diagnostic(
        "PLN010",
        Severity.ERROR,
        f"the plan that was made cannot run: {errors[0].message if errors else 'it has no steps'}",
        help="make the goal more precise, or try another model",
    )
    return CallsheetError((head, *errors), plan.source)


def _read(given: Any) -> Steps:
    """The plan in a planner's answer; raises CallsheetError if it is not one."""
    if isinstance(given, Plan):
        plan = given.ir
    else:
        text = json.dumps(given, ensure_ascii=False, default=str) if isinstance(given, Mapping) else given
        plan = prompts.read_graph_answer(cast("object", text)).require()
    return _as_graph(plan)


Replan: TypeAlias = "Callable[[Compile, CallContext, Registry], Awaitable[Steps]]"
"""Makes the plan of a RE-PLAN for the registered tools; a compiler's plan has not been checked."""


def replan_by(compiler: Compiler | None, model: Model | None, shared: Shared = ()) -> Replan | None:
    """What makes the plans of RE-PLANs: the compiler, else a model that takes prompts, else None.

    A model is told kinds and sizes of the variables, and the values of those that are `shared`.
    """
    if compiler is not None:
        return _by_compiler(compiler)
    model_port = None if model is None else language_model(model)
    if model_port is None:
        return None

    async def ask(command: Compile, context: CallContext, registry: Registry) -> Steps:
        context.shown = label_of_shared(command, shared)
        return await compiling.replan_draft(command, model_port, registry, ALL_PROVIDERS, context, shared)

    return ask


def going_on(command: Compile, plan: Steps) -> tuple[Steps, Mapping[str, JSON]]:
    """A plan that was made for a run as one that goes on with its variables, and those that it is given.

    The next part of a plan of version 2 takes what it declares as inputs, and gets an input for what it reads
    without; any other plan has all variables.
    """
    given = command.variables
    if not command.has_blocks or plan.tree is None:
        return plan, given
    from callsheet.ir.tree_edits import with_inputs  # noqa: PLC0415 - only for version 2

    tree = with_inputs(plan.tree, given)
    return replace(plan, tree=tree), {one.name: given[one.name] for one in tree.inputs if one.name in given}


def _by_compiler(compiler: Compiler) -> Replan:
    async def compile_again(command: Compile, _context: CallContext, _registry: Registry) -> Steps:
        given = await called(compiler, ReplanRequest(command.reason, command.variables, command.refused))
        if isinstance(given, Plan):
            return given.ir
        if command.has_blocks and isinstance(given, str) and spelling.is_python(given):
            return spelling.read_as(spelling.Syntax.PYTHON, given, "<plan>").require()
        return answers.read_answer_plan(given, command.variables).require()

    return compile_again
