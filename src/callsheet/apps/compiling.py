"""Compiles a goal for the command line: looks in the plan library first, then asks the setup's model.

In: a goal, a setup. Out: the plan or the errors, with the pins of the tools that it was checked against.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from callsheet.api.checking import ALL_PROVIDERS, check_plan
from callsheet.api.compiling import Compiled, CompileFailed, compiled, draft_for, offered
from callsheet.api.models import language_model
from callsheet.api.proving import Assumptions, Proof, objections_by, prove
from callsheet.api.requirements import orderless_pin_lookup, pin_lookup, pins_for_library
from callsheet.apps.equipment import guarantees_of, model_of, with_local_model
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox, open_toolbox
from callsheet.authoring.compiler.request import Options, PlanForm, Request
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.frontends.spelling import Syntax, is_json, is_python
from callsheet.ir import Plan
from callsheet.ir.labels import LITERAL, Label
from callsheet.policy.model import Policy
from callsheet.ports.models.model import LanguageModel, Strength, context_of, identify, strength_of
from callsheet.ports.tools import Registry
from callsheet.runtime.remaining import left_before
from callsheet.store.library import PlanLibrary, StoredPlan
from callsheet.store.library.goals import GoalMatch, find_by_goal

_HELP = (
    "name one: --model provider:model, CALLSHEET_MODEL, or [model] in config.toml; "
    "without a key, with the extra `local`: `callsheet models get qwen2.5-coder-0.5b` downloads a local "
    "model, which is the default; `callsheet compile --prompt GOAL` prints the prompt"
)


@dataclass(frozen=True, slots=True)
class LibraryMatch:
    """A plan of the library that matches a goal.

    `goal` is the one it was saved for, `score` the similarity from 0 to 1, `description` the match as text.
    """

    id: str
    goal: str
    score: float
    is_exact: bool
    description: str
    text: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class CompileOutcome:
    """The result for a goal: a plan from the library, or the `result` of compiling.

    `tools` has the pins of the tools that the plan calls.
    """

    from_library: LibraryMatch | None
    result: Compiled | CompileFailed | None
    tool_diagnostics: tuple[Diagnostic, ...] = ()
    tools: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])

    @property
    def text(self) -> str | None:
        """The text of the plan, if there is one."""
        if self.from_library is not None:
            return self.from_library.text
        return self.result.text if isinstance(self.result, Compiled) else None

    @property
    def syntax(self) -> Syntax | None:
        """The syntax of the plan's text, if there is one."""
        text = self.text
        if text is None:
            return None
        return Syntax.DAG if is_json(text) else Syntax.PYTHON if is_python(text) else Syntax.LTP

    @property
    def plan(self) -> Plan | None:
        """The plan, if there is one."""
        if self.from_library is not None:
            return self.from_library.plan
        return self.result.plan.ir if isinstance(self.result, Compiled) else None


def language_model_of(setup: Setup) -> LanguageModel:
    """The model of a setup that can be asked for plans; raises CallsheetError (CMP001) without one."""
    given = model_of(setup)
    model = None if given is None else language_model(given)
    if model is None:
        raise no_model()
    return model


def no_model() -> CallsheetError:
    """The error for a missing model (CMP001), with the ways to get one."""
    message = "no model is configured that could compile a plan"
    return CallsheetError.single("CMP001", message, help=_HELP)


@dataclass(frozen=True, slots=True)
class ProofTerms:
    """The policy that a plan is proved against, and the journal beside which earlier runs left labels."""

    policy: Policy
    journal: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalRequest:
    """A goal to find or compile a plan for.

    A plan that the `library` has for the same goal is used, or one for a similar goal if `accept` returns
    True, but none if there is a `context`. What the policy of the `terms` refuses is an error of a plan.
    """

    goal: str
    context: str = ""
    form: PlanForm = PlanForm.PYTHON
    library: PlanLibrary | None = None
    accept: Callable[[LibraryMatch], bool] = lambda _: False
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    terms: ProofTerms | None = None


async def compile_for_setup(
    request: GoalRequest, setup: Setup, notify: Callable[[str], None] = lambda _: None
) -> CompileOutcome:
    """A plan for a goal: from the library if it has one, else a new one.

    A plan of the library needs no model. Otherwise the configured model compiles the goal, by default a
    downloaded local model, which `notify` is told. Raises PolicyRefused for a plan of the library that
    violates the policy, CallsheetError without a model (CMP001).
    """
    async with open_toolbox(setup, calls=False) as toolbox:
        return await compile_with_toolbox(toolbox, request, setup, notify)


async def compile_with_toolbox(
    toolbox: Toolbox, request: GoalRequest, setup: Setup, notify: Callable[[str], None] = lambda _: None
) -> CompileOutcome:
    """Like `compile_for_setup`, with tools that are already open."""
    registry, goal, terms = toolbox.registry, request.goal, request.terms
    prove_plan = None if terms is None else await asyncio.to_thread(_proving, terms, setup, registry)
    told = toolbox.diagnostics
    if request.library is not None and not request.context and not request.answers:
        match, unused = await asyncio.to_thread(
            _match_in_library, request.library, goal, registry, request.accept
        )
        told = (*told, *unused)
        if match is not None and prove_plan is not None:
            prove_plan(match.plan).raise_if_refused()
        if match is not None:
            return CompileOutcome(match, None, told, pins_for_library(match.plan, registry))
    try:
        model = language_model_of(with_local_model(setup, notify))
    except CallsheetError as error:
        raise CallsheetError((*told[len(toolbox.diagnostics) :], *error.diagnostics)) from error
    verify = None if prove_plan is None else objections_by(prove_plan)
    draft = await draft_for(
        Request(goal, offered(registry), request.context),
        model,
        registry,
        ALL_PROVIDERS,
        verify=verify,
        options=Options(form=request.form, answers=request.answers),
    )
    result = compiled(goal, draft, registry, request.form)
    pins = pins_for_library(result.plan.ir, registry) if isinstance(result, Compiled) else {}
    return CompileOutcome(None, result, told, pins)


def _proving(terms: ProofTerms, setup: Setup, registry: Registry) -> Callable[[Plan], Proof]:
    """A function that proves a plan as a run of it would, with the labels that earlier runs have left."""
    guarantees = guarantees_of(setup, registry)
    assumed = Assumptions(left=left_before(terms.journal, setup.folder))

    def prove_plan(plan: Plan) -> Proof:
        return prove(plan, terms.policy, registry, assumed).under(guarantees)

    return prove_plan


def save_compiled(
    name: str, goal: str, outcome: CompileOutcome, library: PlanLibrary, label: Label = LITERAL
) -> StoredPlan | None:
    """Save the plan for a goal under an id, as a new version if the id exists; None if there is no plan.

    `label` is that of what the author of the goal had read. Raises CallsheetError for what the library
    refuses (PLN001, PLN022) or cannot write (PLN004).
    """
    plan, accounting = (
        outcome.plan,
        outcome.result.accounting.to_json() if outcome.result is not None else None,
    )
    if plan is None:
        return None
    return library.save(
        plan,
        name,
        text=outcome.text,
        syntax=outcome.syntax,
        replaces=True,
        tools=outcome.tools,
        goal=goal,
        compiled=accounting,
        label=label,
    )


def _match_in_library(
    library: PlanLibrary, goal: str, registry: Registry, accept: Callable[[LibraryMatch], bool]
) -> tuple[LibraryMatch | None, tuple[Diagnostic, ...]]:
    """The plan of the library to use for a goal; only one that passes the checks against these tools.

    The diagnostics say why plans for the same goal are not used.
    """
    orderless = orderless_pin_lookup(registry)
    goal_matches = find_by_goal(library, goal, pin_lookup(registry), orderless_pin_of=orderless)
    if goal_matches.exact is not None:
        stored_plan = _loaded(library, goal_matches.exact)
        if stored_plan is not None and _can_run(stored_plan.plan, registry, goal_matches.exact):
            return stored_plan, ()
    unused = tuple(_not_used(match) for match in goal_matches.near if match.is_exact and match.differences)
    for match in goal_matches.near:
        stored_plan = _loaded(library, match) if match.is_usable else None
        if stored_plan is not None and _can_run(stored_plan.plan, registry, match) and accept(stored_plan):
            return stored_plan, unused
    return None, unused


def _not_used(match: GoalMatch) -> Diagnostic:
    message = f"the plan {match.name} of the library is for this goal, but not used: " + "; ".join(
        match.differences
    )
    hint = f"check its tools (`callsheet tools`), then save it again, or run it: callsheet run {match.name}"
    return Diagnostic("PLN025", Severity.WARNING, message, help=hint)


def _loaded(library: PlanLibrary, match: GoalMatch) -> LibraryMatch | None:
    try:
        stored = library.load(match.name)
        plan = stored.require()
    except CallsheetError:  # changed since it was found
        return None
    return LibraryMatch(match.name, match.goal, match.score, match.is_exact, str(match), stored.text, plan)


def _can_run(plan: Plan, registry: Registry, match: GoalMatch) -> bool:
    given = [param.name for param in match.params]
    return not any(d.is_error for d in check_plan(plan, registry, given, providers=ALL_PROVIDERS))


async def prompt_of(
    goal: str, context: str, setup: Setup, form: PlanForm = PlanForm.PYTHON
) -> list[dict[str, str]]:
    """The prompt for the model of a setup, or for a strong model if there is none."""
    given = model_of(with_local_model(setup, lambda _: None))
    model = None if given is None else language_model(given)
    if model is not None:
        await identify(model)
    strength = Strength.STRONG if model is None else strength_of(model)
    window = None if model is None else context_of(model)
    async with open_toolbox(setup, calls=False) as toolbox:
        return prompt_with_toolbox(toolbox, goal, context, strength, form, window)


def prompt_with_toolbox(
    toolbox: Toolbox,
    goal: str,
    context: str = "",
    strength: Strength = Strength.STRONG,
    form: PlanForm = PlanForm.PYTHON,
    window: int | None = None,
) -> list[dict[str, str]]:
    """The prompt for a model of this strength and context in tokens, with tools that are open."""
    from callsheet.authoring.compiler.compile import prompt_for  # noqa: PLC0415 - brings grammars

    return prompt_for(
        Request(goal, offered(toolbox.registry), context), strength, Options(form=form), window
    ).messages
