"""Asks a model for the plan of a goal: as text, or as a graph for the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from callsheet.api.checking import check_plan
from callsheet.api.compiling import Compiled, CompileFailed, offered
from callsheet.api.plan import Plan
from callsheet.api.planning import GraphPlanner
from callsheet.api.requirements import pins_for_library
from callsheet.apps.compiling import (
    CompileOutcome,
    GoalRequest,
    LibraryMatch,
    ProofTerms,
    compile_with_toolbox,
)
from callsheet.apps.equipment import required_planner, with_local_model
from callsheet.apps.operations.schema import Count, DiagnosticRow, Object, Ok, PlanHash, WorldsRow
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox, open_toolbox
from callsheet.authoring.compiler.request import PlanForm
from callsheet.diagnostics import CallsheetError, Diagnostic, Source, to_json
from callsheet.frontends.spelling import Syntax, convert_to
from callsheet.ir import Plan as PlanSteps
from callsheet.ir.labels import LITERAL, Label
from callsheet.machine import Spent, Usage
from callsheet.ports.calls import CallContext
from callsheet.ports.models.model import ModelFailed, as_error
from callsheet.store.library import PlanLibrary, StoredPlan


class NearPlan(TypedDict):
    """A plan of the library for a similar goal."""

    id: str
    goal: str
    score: float


class SavedVersion(TypedDict):
    """A plan that was saved: its id and version."""

    id: str
    version: Count | None


CompileResult = TypedDict(
    "CompileResult",
    {
        "ok": Ok,
        "goal": str,
        "text": Annotated[str | None, "the text of the plan"],
        "effects": NotRequired[
            Annotated[list[str], "a sentence for each call that may change something, with its conditions"]
        ],
        "worlds": NotRequired[Annotated[WorldsRow, "what is changed with each condition true and false"]],
        "syntax": NotRequired[Annotated[Literal["python", "ltp", "micro", "dag"], "the syntax of the text"]],
        "ltp": NotRequired[Annotated[str, "the same plan as LTP text, if it is written in another syntax"]],
        "from": Literal["model", "library"],
        "id": NotRequired[Annotated[str, "the plan's id in the library"]],
        "hash": NotRequired[PlanHash],
        "near": Annotated[list[NearPlan], "plans of the library for similar goals"],
        "answer": NotRequired[Annotated[str, "the answer of the model, if it is not a plan"]],
        "question": NotRequired[Annotated[str, "what the model asks before it writes a plan"]],
        "accounting": NotRequired[Annotated[Object, "the model calls, tokens and cost of compiling"]],
        "saved": NotRequired[SavedVersion | None],
        "diagnostics": NotRequired[list[DiagnosticRow]],
    },
)


@dataclass(frozen=True, slots=True)
class Compilation:
    """The result for a goal; `near` are plans of the library for similar goals, which were not used."""

    goal: str
    made: CompileOutcome
    near: Sequence[LibraryMatch] = ()

    @property
    def ok(self) -> bool:
        """Whether there is a plan."""
        return self.made.text is not None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Those about tools and plans left out, then those of the plan or of the model's invalid answer."""
        result = self.made.result
        return (*self.made.tool_diagnostics, *(() if result is None else result.findings.diagnostics))

    @property
    def source(self) -> Source | None:
        """The text that the diagnostics point into."""
        return None if self.made.result is None else self.made.result.findings.source

    def to_json(self) -> CompileResult:
        """The text, its origin and the model usage, as data."""
        made, result = self.made, self.made.result
        data: dict[str, Any] = {"ok": self.ok, "goal": self.goal, "text": made.text, "from": "model"}
        if made.from_library is not None:
            data |= {"from": "library", "id": made.from_library.id, "hash": Plan(made.from_library.plan).hash}
        data |= _syntax_and_ltp(made)
        data["near"] = [{"id": kept.id, "goal": kept.goal, "score": kept.score} for kept in self.near]
        if result is not None:
            data |= {
                "diagnostics": [*to_json(made.tool_diagnostics), *result.findings.to_json()],
                "accounting": result.accounting.to_json(),
            }
            data |= _plan_or_answer(result)
            if isinstance(result, Compiled) and result.plan.ir.tree is not None:
                data["effects"] = list(result.effects)
                if result.worlds is not None:
                    data["worlds"] = result.worlds.to_json()
        return cast("CompileResult", data)


def _syntax_and_ltp(made: CompileOutcome) -> dict[str, str]:
    """The syntax of the plan's text, and the plan as LTP text if it is in another one."""
    if made.syntax is None or made.plan is None:
        return {}
    said = {"syntax": made.syntax.value}
    if made.syntax is Syntax.LTP:
        return said
    try:
        return said | {"ltp": convert_to(Syntax.LTP, made.plan)[0]}
    except CallsheetError:  # a graph may have no order
        return said


def _plan_or_answer(result: Compiled | CompileFailed) -> dict[str, str]:
    if isinstance(result, Compiled):
        return {"hash": result.require().hash}
    return {"answer": result.text} | ({"question": result.question} if result.question else {})


async def compile_text(
    goal: str,
    setup: Setup,
    toolbox: Toolbox,
    *,
    context: str = "",
    form: PlanForm = PlanForm.PYTHON,
    library: PlanLibrary | None = None,
    terms: ProofTerms | None = None,
) -> Compilation:
    """A plan for a goal, with open tools: from the `library` if it has one for this goal, else a new one.

    What the policy of the `terms` refuses counts as an error. Plans of the library for similar goals are
    listed, not used. Raises CallsheetError (CMP001) if there is no model to ask.
    """
    near: list[LibraryMatch] = []

    def takes(kept: LibraryMatch) -> bool:
        near.append(kept)
        return False

    request = GoalRequest(goal=goal, context=context, form=form, library=library, accept=takes, terms=terms)
    made = await compile_with_toolbox(toolbox, request, setup)
    return Compilation(goal, made, tuple(near))


# ---------------------------------------------------------------- graphs for the library


@dataclass(frozen=True, slots=True)
class Created:
    """A plan that a model made for a goal and that has passed the checks; it has no id yet.

    `tools` are the pins of the tools that it calls, `doubts` diagnostics about tools, `used` model usage.
    """

    goal: str
    plan: PlanSteps
    tools: Mapping[str, str | None]
    doubts: tuple[Diagnostic, ...]
    used: Usage

    def saved(
        self,
        library: PlanLibrary,
        plan_id: str | None = None,
        *,
        replaces: bool = False,
        label: Label = LITERAL,
    ) -> StoredPlan:
        """Save it in a library, by default under an id made of its title; raises as `PlanLibrary.save`.

        `label` is that of what the author of the goal had read.
        """
        return library.save(
            self.plan, plan_id, replaces=replaces, tools=self.tools, goal=self.goal, label=label
        )


async def plan_for(goal: str, context: str, setup: Setup) -> Created:
    """A plan for a goal, with the tools of a setup, which are opened for it.

    Raises CallsheetError: PLN011 if no model is configured, the model's failure, or the errors of its
    answer.
    """
    planner = required_planner(setup)
    async with open_toolbox(setup, calls=False) as toolbox:
        return await _made(planner, goal, context, toolbox)


async def plan_on(toolbox: Toolbox, goal: str, context: str, setup: Setup) -> Created:
    """Like `plan_for`, with open tools; without a configured model a downloaded local one is asked."""
    return await _made(required_planner(with_local_model(setup, lambda _: None)), goal, context, toolbox)


async def _made(planner: GraphPlanner, goal: str, context: str, toolbox: Toolbox) -> Created:
    registry, call = toolbox.registry, CallContext("", "plan")
    try:
        plan = await planner.create(
            goal, context, offered(registry), call, lambda plan: check_plan(plan, registry)
        )
    except ModelFailed as error:
        raise as_error(error) from error
    used = Usage.of(call.spent or Spent())
    return Created(goal, replace(plan, id=None), pins_for_library(plan, registry), toolbox.diagnostics, used)
