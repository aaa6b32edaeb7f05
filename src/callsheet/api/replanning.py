"""Makes the plan of a RE-PLAN with the user's compiler, or with a model that may repair its answer.

In: the user's compiler or model. Out: a function from the machine's command to a plan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from callsheet.api.checking import ALL_PROVIDERS
from callsheet.api.compiling import replan_draft
from callsheet.api.language import language_model
from callsheet.api.models import Compiler, Model, ReplanRequest, called
from callsheet.api.plan import Plan
from callsheet.api.sharing import label_of_shared
from callsheet.authoring.prompt import read_answer_plan
from callsheet.authoring.shapes import Shared
from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan as Steps
from callsheet.machine import Compile
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Registry

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
        return await replan_draft(command, model_port, registry, ALL_PROVIDERS, context, shared)

    return ask


def _by_compiler(compiler: Compiler) -> Replan:
    async def compile_again(command: Compile, _context: CallContext, _registry: Registry) -> Steps:
        given = await called(compiler, ReplanRequest(command.reason, command.variables))
        if isinstance(given, Plan):
            return given.ir
        result = read_answer_plan(given, command.variables)
        if result.plan is None:
            raise CallsheetError(result.diagnostics, result.source)
        return result.plan

    return compile_again
