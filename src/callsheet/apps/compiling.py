"""Compiles a goal for the command line: looks in the plan library first, then asks the setup's model.

In: a goal, a setup. Out: the plan or the errors, with the pins of the tools that it was checked against.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from callsheet.api.checking import ALL_MEANS, check_plan
from callsheet.api.compiling import Compiled, CompileFailed, compiled, draft_for, offered
from callsheet.api.language import language_model
from callsheet.api.proving import objections_by, prove
from callsheet.api.requirements import pin_lookup, pins_for_library
from callsheet.apps.models import model_of, with_fetched
from callsheet.apps.session import Setup, Toolbox, open_toolbox
from callsheet.authoring.compiler.request import Options, Request
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import Plan
from callsheet.policy.model import Policy
from callsheet.ports.models.model import LanguageModel, Syntax
from callsheet.ports.tools import Registry
from callsheet.store.library import PlanLibrary, StoredPlan
from callsheet.store.library.goals import GoalMatch, find_by_goal

_WAY_OUT = (
    "name one: --model provider:model, CALLSHEET_MODEL, or [model] in config.toml; "
    "without a key, with the extra `local`: `callsheet models get qwen2.5-coder-0.5b`, which is then asked"
    " where no other is named; "
    "`callsheet compile --prompt GOAL` prints what to ask by hand"
)


@dataclass(frozen=True, slots=True)
class LibraryMatch:
    """A plan of the library that fits a goal: its id, the goal it was saved for, its score, its text."""

    id: str
    goal: str
    score: float
    is_exact: bool
    described: str
    text: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class CompileOutcome:
    """The result for a goal: a plan of the library (`kept`), or of compiling (`result`).

    `doubts` are diagnostics about the tools; `tools` are the pins of those that the plan calls.
    """

    kept: LibraryMatch | None
    result: Compiled | CompileFailed | None
    doubts: tuple[Diagnostic, ...] = ()
    tools: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])

    @property
    def text(self) -> str | None:
        """The text of the plan, if there is one."""
        if self.kept is not None:
            return self.kept.text
        return self.result.text if isinstance(self.result, Compiled) else None

    @property
    def plan(self) -> Plan | None:
        """The plan, if there is one."""
        if self.kept is not None:
            return self.kept.plan
        return self.result.plan.ir if isinstance(self.result, Compiled) else None


def language_of(setup: Setup) -> LanguageModel:
    """The model of a setup that can be asked for plans; raises CallsheetError (CMP001) without one."""
    given = model_of(setup)
    model = None if given is None else language_model(given)
    if model is None:
        raise no_model()
    return model


def no_model() -> CallsheetError:
    """The error for a missing model (CMP001), with the ways to get one."""
    message = "no model is configured that could be asked for a plan"
    return CallsheetError.single("CMP001", message, help=_WAY_OUT)


async def compiled_for(
    goal: str,
    context: str,
    setup: Setup,
    library: PlanLibrary | None,
    takes: Callable[[LibraryMatch], bool],
    policy: Policy | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> CompileOutcome:
    """A plan for a goal: from the library if it has one, else a new one.

    A plan saved for the same goal is used; one for a similar goal if `takes` returns True. Neither needs a
    model. If none is configured, a downloaded local model is asked, and `say` is called with a note of it.
    What the `policy` refuses counts as an error in a new plan; for a kept plan it raises PolicyRefused.
    """
    async with open_toolbox(setup) as toolbox:
        return await compiled_on(toolbox, goal, context, setup, library, takes, policy, say)


async def compiled_on(
    toolbox: Toolbox,
    goal: str,
    context: str,
    setup: Setup,
    library: PlanLibrary | None,
    takes: Callable[[LibraryMatch], bool],
    policy: Policy | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> CompileOutcome:
    """Like `compiled_for`, with tools that are already open."""
    registry = toolbox.registry
    if library is not None and not context:
        kept = await asyncio.to_thread(_kept, library, goal, registry, takes)
        if kept is not None and policy is not None:
            prove(kept.plan, policy, registry).raise_if_refused()
        if kept is not None:
            return CompileOutcome(kept, None, toolbox.diagnostics, pins_for_library(kept.plan, registry))
    model = language_of(with_fetched(setup, say))
    request = Request(goal, offered(registry), context)
    verify = None if policy is None else objections_by(policy, registry, ())
    draft = await draft_for(request, model, registry, ALL_MEANS, verify=verify)
    result = compiled(goal, draft, registry)
    pins = pins_for_library(result.plan.ir, registry) if isinstance(result, Compiled) else {}
    return CompileOutcome(None, result, toolbox.diagnostics, pins)


def saved_as(name: str, goal: str, made: CompileOutcome, library: PlanLibrary) -> StoredPlan | None:
    """Save the plan for a goal under an id, as a new version if the id exists; None if there is no plan.

    Raises CallsheetError for what the library refuses (PLN001, PLN022) or cannot write (PLN004).
    """
    plan, how = made.plan, made.result.accounting.to_json() if made.result is not None else None
    if plan is None:
        return None
    return library.save(plan, name, replaces=True, tools=made.tools, goal=goal, compiled=how)


def _kept(
    library: PlanLibrary, goal: str, registry: Registry, takes: Callable[[LibraryMatch], bool]
) -> LibraryMatch | None:
    """The plan of the library to use for a goal; never one that could not run here."""
    found = find_by_goal(library, goal, pin_lookup(registry))
    if found.exact is not None:
        kept = _loaded(library, found.exact)
        if kept is not None and _can_run(kept.plan, registry, found.exact):
            return kept
    for match in found.near:
        kept = _loaded(library, match) if match.is_usable else None
        if kept is not None and _can_run(kept.plan, registry, match) and takes(kept):
            return kept
    return None


def _loaded(library: PlanLibrary, match: GoalMatch) -> LibraryMatch | None:
    try:
        stored = library.load(match.name)
        plan = stored.require()
    except CallsheetError:  # changed since it was found
        return None
    return LibraryMatch(match.name, match.goal, match.score, match.is_exact, str(match), stored.text, plan)


def _can_run(plan: Plan, registry: Registry, match: GoalMatch) -> bool:
    given = [param.name for param in match.params]
    return not any(d.is_error for d in check_plan(plan, registry, given, means=ALL_MEANS))


async def prompt_of(goal: str, context: str, setup: Setup) -> list[dict[str, str]]:
    """The prompt for the model of a setup, or for a model without constraints if there is none."""
    given = model_of(with_fetched(setup, lambda _: None))
    model = None if given is None else language_model(given)
    accepts = () if model is None else tuple(model.accepts)
    async with open_toolbox(setup) as toolbox:
        return prompt_on(toolbox, goal, context, accepts)


def prompt_on(
    toolbox: Toolbox, goal: str, context: str = "", accepts: tuple[Syntax, ...] = ()
) -> list[dict[str, str]]:
    """The prompt for a model that accepts constraints of these kinds, with tools that are open."""
    from callsheet.authoring.compiler.compile import prompt_for  # noqa: PLC0415 - brings grammars

    return prompt_for(Request(goal, offered(toolbox.registry), context), accepts, Options()).messages
