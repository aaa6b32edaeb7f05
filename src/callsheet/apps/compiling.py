"""A goal that is compiled for the command line: the plan library first, then the model of a setup.

In: a goal, a setup. Out: what came of it, with the tools that it was checked against.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from callsheet.api.checking import ALL_MEANS, check_plan
from callsheet.api.compiling import Compiled, CompileFailed, compiled, draft_for, offered
from callsheet.api.language import language_model
from callsheet.apps.models import model_of
from callsheet.apps.session import Setup, open_toolbox
from callsheet.authoring.compiler.request import Options, Request
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.frontends.spelling import Syntax, format_as
from callsheet.ir import Plan
from callsheet.ports.models.model import LanguageModel
from callsheet.ports.tools import Registry
from callsheet.store.library import PlanLibrary

_WAY_OUT = (
    "name one: --model provider:model, CALLSHEET_MODEL, or [model] in config.toml; "
    "`callsheet compile --prompt GOAL` prints what to ask by hand"
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A plan of the library for a goal: its id, goal and text."""

    id: str
    goal: str
    text: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Made:
    """What came of a goal: a plan of the library, or what compiling gave; `doubts` are about the tools."""

    kept: Kept | None
    result: Compiled | CompileFailed | None
    doubts: tuple[Diagnostic, ...] = ()


def language_of(setup: Setup) -> LanguageModel:
    """The model of a setup that can be asked for plans; raises CallsheetError (CMP001) where there is none."""
    given = model_of(setup)
    model = None if given is None else language_model(given)
    if model is None:
        message = "no model is configured that could be asked for a plan"
        raise CallsheetError.single("CMP001", message, help=_WAY_OUT)
    return model


async def compiled_for(
    goal: str,
    context: str,
    setup: Setup,
    library: PlanLibrary | None,
    takes: Callable[[Kept], bool],
) -> Made:
    """A plan for a goal: of the library if it has one, else a new one.

    A plan for the very goal is taken; one for a goal that is near is taken if `takes` says so. No model
    is opened for either.
    """
    async with open_toolbox(setup) as toolbox:
        registry = toolbox.registry
        if library is not None and not context:
            kept = await asyncio.to_thread(_kept, library, goal, registry, takes)
            if kept is not None:
                return Made(kept, None, toolbox.diagnostics)
        model = language_of(setup)
        request = Request(goal, offered(registry), context)
        draft = await draft_for(request, model, registry, ALL_MEANS)
        return Made(None, compiled(goal, draft, registry), toolbox.diagnostics)


async def prompt_of(goal: str, context: str, setup: Setup) -> list[dict[str, str]]:
    """What the model of a setup would be asked, or any model that takes plain text where there is none."""
    from callsheet.authoring.compiler.compile import prompt_for  # noqa: PLC0415 - brings grammars

    given = model_of(setup)
    model = None if given is None else language_model(given)
    accepts = () if model is None else tuple(model.accepts)
    async with open_toolbox(setup) as toolbox:
        request = Request(goal, offered(toolbox.registry), context)
        return prompt_for(request, accepts, Options()).messages
