"""The models of a run: which model a setup uses, and for what.

In: a setup, a plan, its limits. Out: the ports for model operations, turns of agents, and new plans.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.api.admission import admit_new_plan
from callsheet.api.checking import Providers, check_plan
from callsheet.api.requirements import AgentRules, asks_for_all_tools, spec_lookup, with_inverses
from callsheet.apps.projects import project_of, settings_of
from callsheet.apps.setup import Setup, default_local_model
from callsheet.diagnostics import CallsheetError
from callsheet.ir import CallKind, OnInDoubt, Order
from callsheet.ir import Plan as Steps
from callsheet.lazy import dataclass
from callsheet.machine import Compile, Limits, ToolFacts
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.settings import named_model
from callsheet.ports.tools import Registry

if TYPE_CHECKING:
    from callsheet.api.models import Model
    from callsheet.api.planning import GraphPlanner, Replan
    from callsheet.ports.models.model import LanguageModel
    from callsheet.ports.models.prompts import Messages
    from callsheet.runtime.gateway import CompilePort, ModelPort, TurnPort

_HELP = (
    "set `model` in [model] of config.toml, or pass --model provider:model or --model FILE.py:FUNCTION; "
    "`callsheet plan create --prompt` prints the prompt"
)


def model_of(setup: Setup) -> Model | None:
    """The model of a setup, None if it names none; raises CallsheetError for one that cannot be used."""
    if is_function(setup.model):
        from callsheet.api.models import ChatModel  # noqa: PLC0415 - only with such a model

        return ChatModel(_function(setup.model))
    if not setup.names_model:
        return None
    from callsheet.ports.models.opening import open_model  # noqa: PLC0415 - only with a model

    return open_model(setup.model, setup.settings.model)


def is_function(named: str) -> bool:
    """Whether a model name refers to a function in a Python file."""
    return named.rpartition(":")[0].endswith(".py")


def with_local_model(setup: Setup, notify: Callable[[str], None], plan: Steps | None = None) -> Setup:
    """The setup, with a downloaded local model if none is configured, which `notify` is told.

    With a `plan`, only if one of its steps needs a model.
    """
    if setup.names_model or (plan is not None and not _asks(plan)):
        return setup
    local = default_local_model()
    if local is None:
        return setup
    notify(f"no model is configured; {local} is on this machine and is used")
    return replace(setup, model=local)


def required_model(setup: Setup) -> Model:
    """The model of a setup; raises CallsheetError (PLN011) if it names none."""
    model = model_of(setup)
    if model is None:
        message = "no model is configured that could create a plan"
        raise CallsheetError.single("PLN011", message, help=_HELP)
    return model


def required_planner(setup: Setup) -> GraphPlanner:
    """The planner of dependency plans; raises CallsheetError (PLN011) without a configured model."""
    from callsheet.api.planning import graph_planner  # noqa: PLC0415 - only with a model

    planner = graph_planner(None, required_model(setup))
    assert planner is not None
    return planner


def setup_for_resume(setup: Setup, model: str) -> Setup:
    """The setup of a resumed run, with another model if one is named.

    A run that was started without a model gets the one that is configured now.
    """
    if model:
        return replace(setup, model=model)
    if setup.names_model:
        return setup
    settings = replace(setup.settings, model=settings_of(project_of(Path.cwd())).model)
    return replace(setup, settings=settings, model=named_model("", os.environ))


@dataclass(frozen=True, slots=True)
class RunModels:
    """The models of a run: for operations and agents, and the planners of new plans."""

    model: ModelPort | None = None
    replan: Replan | None = None
    planner: GraphPlanner | None = None
    language: LanguageModel | None = None
    """The model for the turns of agents."""
    agents: AgentRules | None = None
    """The rules for agents; None without a model."""

    @property
    def providers(self) -> Providers:
        """Whether there is a model, an agent and a compiler."""
        has_model = self.model is not None
        return Providers(model=has_model, agent=self.agents is not None, compiler=self.replan is not None)

    def may_call_any_tool(self, plan: Steps) -> bool:
        """Whether new plans or agents may call any tool, so that all tools must be open."""
        replans = self.planner is not None or (self.replan is not None and plan.may_plan_anew)
        return replans or asks_for_all_tools(plan, self.agents)

    def turns(self, registry: Registry) -> TurnPort | None:
        """The port for the turns of agents; None without a model."""
        if self.language is None:
            return None
        from callsheet.ports.models.agents import AgentTurns, asking  # noqa: PLC0415 - only with a model

        return AgentTurns(asking(self.language), spec_lookup(registry))

    def compiler(self, registry: Registry, on_in_doubt: str) -> CompilePort | None:
        """The port that creates new plans, checked against these tools; None without a planner."""
        if self.planner is None and self.replan is None:
            return None

        async def compile_again(
            command: Compile, context: CallContext
        ) -> tuple[Steps, Mapping[str, ToolFacts]]:
            new_plan = self._replanned if command.progress is None else self._revised
            from callsheet.api.planning import going_on  # noqa: PLC0415 - only for a run that plans

            steps, given = going_on(command, await new_plan(command, registry, context))
            steps = with_inverses(steps, registry)
            return steps, admit_new_plan(steps, given, registry, self.agents, OnInDoubt(on_in_doubt))

        return compile_again

    async def _replanned(self, command: Compile, registry: Registry, context: CallContext) -> Steps:
        if self.replan is None:
            raise ToolFailed("RE-PLAN needs a language model, and this run has none")
        return await self.replan(command, context, registry)

    async def _revised(self, command: Compile, registry: Registry, context: CallContext) -> Steps:
        if self.planner is None:
            raise ToolFailed("a new plan needs a language model, and this run was given none")

        from callsheet.api.compiling import offered  # noqa: PLC0415 - only with a model

        return await self.planner.revise(
            command, offered(registry), context, lambda plan: check_plan(plan, registry, command.variables)
        )


def models_for_plan(setup: Setup, plan: Steps, limits: Limits, *, must_plan: bool = True) -> RunModels:
    """The models of a run of this plan; empty if it needs none.

    Raises CallsheetError for a model that cannot be used, and with `must_plan` PLN011 if the limits allow
    new plans for a failed graph and there is no model.
    """
    plans_anew = plan.order is Order.DAG and limits.replans_on_failure > 0
    if not plans_anew and not _asks(plan):
        return RunModels()
    model = required_model(setup) if plans_anew and must_plan else model_of(setup)
    if model is None:
        return RunModels()
    return _models(model, setup, plans_graphs=plans_anew)


def models_for_any_plan(setup: Setup) -> RunModels:
    """The models for runs of any plan; empty without a configured model."""
    model = model_of(setup)
    if model is None:
        return RunModels()
    return _models(model, setup, plans_graphs=True)


def _models(model: Model, setup: Setup, *, plans_graphs: bool) -> RunModels:
    from callsheet.api.models import language_model, model_port  # noqa: PLC0415 - only with a model
    from callsheet.api.planning import graph_planner, replan_by  # noqa: PLC0415 - as above

    planner = graph_planner(None, model) if plans_graphs else None
    return RunModels(model_port(model), replan_by(None, model), planner, language_model(model), setup.agents)


def _asks(plan: Steps) -> bool:
    return plan.may_plan_anew or any(
        step.call is not None and step.call.kind in (CallKind.MODEL, CallKind.AGENT) for step in plan.steps
    )


def _function(named: str) -> Callable[[Messages], Any]:
    from callsheet.api.models import called  # noqa: PLC0415 - only with such a model
    from callsheet.ports.python_tools import load_function  # noqa: PLC0415 - as above

    path, _, name = named.rpartition(":")
    function = load_function(Path(path), name)
    if function is None:
        message = f"{path} has no function {name} that could be used as a model"
        raise CallsheetError.single("PLN011", message, help=_HELP)

    async def ask(messages: Messages) -> object:
        try:
            return await called(function, messages)
        except CallsheetError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise CallsheetError.single(
                "PLN012", f"the model {name} of {path} cannot be asked: {text}", help="repair the function"
            ) from error

    return ask
