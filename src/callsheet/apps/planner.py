"""Who makes plans for the command line: a function of a Python file, or the configured endpoint.

In: a setup. Out: a planner, and the port by which a run gets new steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from callsheet.api.checking import check_plan
from callsheet.api.models import called
from callsheet.api.plan import Plan
from callsheet.api.planning import GraphPlanner, refused
from callsheet.api.reach import facts_of
from callsheet.apps.session import Setup
from callsheet.diagnostics import CallsheetError
from callsheet.ir import OnInDoubt
from callsheet.ir import Plan as Steps
from callsheet.machine import Compile, ToolFacts
from callsheet.ports.models.failures import as_error
from callsheet.ports.models.model import ModelFailed
from callsheet.ports.models.opening import open_model
from callsheet.ports.models.operations import ModelAnswer
from callsheet.ports.models.prompts import Messages
from callsheet.ports.python_tools import load_function
from callsheet.ports.tools import CallContext, Registry, ToolFailed
from callsheet.runtime.gateway import CompilePort

_WAY_OUT = (
    "set [model] url and name in config.toml, or pass --model FILE.py:FUNCTION; "
    "`callsheet plan create --prompt` prints what to ask by hand"
)


def planner_of(setup: Setup) -> GraphPlanner | None:
    """Who makes plans; None where nobody is configured. Raises CallsheetError for a file that is wrong."""
    if setup.planner:
        return GraphPlanner(complete=_function(setup.planner))
    settings = setup.settings.model
    if not settings.is_set:
        return None
    model = open_model("", settings)

    async def ask(messages: Messages) -> object:
        try:
            said = await model.complete(messages)
        except ModelFailed as error:
            raise as_error(error, model.name) from error
        used = said.usage
        return ModelAnswer(said.text, used.input_tokens, used.output_tokens, used.cost or 0.0)

    return GraphPlanner(complete=ask)


def required_planner(setup: Setup) -> GraphPlanner:
    """Who makes plans; raises CallsheetError (PLN011) where nobody is configured."""
    found = planner_of(setup)
    if found is None:
        message = "no model is configured that could make a plan"
        raise CallsheetError.single("PLN011", message, help=_WAY_OUT)
    return found


def compile_port(planner: GraphPlanner, registry: Registry, on_in_doubt: str = "ask") -> CompilePort:
    """Makes the steps that go on from where a graph has failed, checked against these tools."""

    async def compile_again(command: Compile, context: CallContext) -> tuple[Steps, Mapping[str, ToolFacts]]:
        if command.progress is None:
            raise ToolFailed("RE-PLAN needs a language model, and this run was given none")
        steps = await planner.revise(command, [tool.spec for tool in registry], context)
        wrong = refused(Plan(steps), check_plan(steps, registry, command.variables))
        if wrong is not None:
            raise wrong
        return steps, facts_of(steps, registry, OnInDoubt(on_in_doubt))

    return compile_again


def _function(named: str) -> Callable[[Messages], Any]:
    path, _, name = named.rpartition(":")
    function = load_function(Path(path), name)
    if function is None:
        message = f"{path} has no function {name} that could make a plan"
        raise CallsheetError.single("PLN011", message, help=_WAY_OUT)

    async def ask(messages: Messages) -> object:
        try:
            return await called(function, messages)
        except CallsheetError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise CallsheetError.single(
                "PLN012", f"the model {name} of {path} cannot be asked: {said}", help="repair the function"
            ) from error

    return cast("Callable[[Messages], Any]", ask)
