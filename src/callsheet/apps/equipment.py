"""The equipment of a run from a setup: its models, its open tools, what the runtime guarantees.

In: a setup, a plan, its limits. Out: what the run service needs to admit, resume or branch off a run, with
the files that determine what plans may do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.api.admission import Equipment, admit_new_plan
from callsheet.api.checking import Providers, check_plan
from callsheet.api.requirements import AgentRules, asks_for_all_tools, spec_lookup, with_inverses
from callsheet.apps.config_file import settings_path
from callsheet.apps.projects import NAME, project_of, settings_of, trusted_file
from callsheet.apps.settings import pins_path
from callsheet.apps.setup import LOCK_NAME, Setup, default_local_model
from callsheet.apps.toolbox import Toolbox, setup_of_run
from callsheet.diagnostics import CallsheetError
from callsheet.ir import CallKind, OnInDoubt, Order, Plan
from callsheet.lazy import NamedTuple, dataclass
from callsheet.machine import Compile, Limits, ToolFacts
from callsheet.ports.calls import CallContext, CallListener, ToolFailed
from callsheet.ports.models.settings import named_model
from callsheet.ports.tools import Registry
from callsheet.runtime.gateway import Ports

if TYPE_CHECKING:
    from callsheet.api.models import Model
    from callsheet.api.planning import GraphPlanner, Replan
    from callsheet.api.proving import Guarantees
    from callsheet.passes.verify import PersistedLabels
    from callsheet.ports.models.model import LanguageModel
    from callsheet.ports.models.prompts import Messages
    from callsheet.runtime.gateway import CompilePort, ModelPort, TurnPort
    from callsheet.store.start import Start

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


def with_local_model(setup: Setup, notify: Callable[[str], None], plan: Plan | None = None) -> Setup:
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

    def may_call_any_tool(self, plan: Plan) -> bool:
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
        ) -> tuple[Plan, Mapping[str, ToolFacts]]:
            new_plan = self._replanned if command.progress is None else self._revised
            from callsheet.api.planning import going_on  # noqa: PLC0415 - only for a run that plans

            steps, given = going_on(command, await new_plan(command, registry, context))
            steps = with_inverses(steps, registry)
            return steps, admit_new_plan(steps, given, registry, self.agents, OnInDoubt(on_in_doubt))

        return compile_again

    async def _replanned(self, command: Compile, registry: Registry, context: CallContext) -> Plan:
        if self.replan is None:
            raise ToolFailed("RE-PLAN needs a language model, and this run has none")
        return await self.replan(command, context, registry)

    async def _revised(self, command: Compile, registry: Registry, context: CallContext) -> Plan:
        if self.planner is None:
            raise ToolFailed("a new plan needs a language model, and this run was given none")

        from callsheet.api.compiling import offered  # noqa: PLC0415 - only with a model

        return await self.planner.revise(
            command, offered(registry), context, lambda plan: check_plan(plan, registry, command.variables)
        )


def models_for_plan(setup: Setup, plan: Plan, limits: Limits, *, must_plan: bool = True) -> RunModels:
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


def _asks(plan: Plan) -> bool:
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


def guarantees_of(setup: Setup, registry: Registry, *, keeps_labels: bool = True) -> Guarantees:
    """The guarantees of a run with this setup on which a proof may rely."""
    from callsheet.api.proving import Guarantees  # noqa: PLC0415 - only under a policy

    settings = setup.settings
    return Guarantees(
        registry,
        settings.fetch,
        settings.execution,
        keeps_labels=keeps_labels,
        workspace=setup.folder,
        files=policy_relevant_files(setup),
    )


def policy_relevant_files(setup: Setup) -> tuple[str, ...]:
    """The files that determine what plans may do here, other than policy files; they need not exist."""
    from callsheet.ports.mcp import looked_for  # noqa: PLC0415 - only under a policy

    folders = (setup.workspace, *([] if setup.project is None else [setup.project]))
    found = (file for folder in folders for file in looked_for(folder))
    named = (*setup.tools_files, *setup.mcp_configs, *found)
    own = (settings_path(), pins_path(setup.settings), trusted_file(), *_project_files(setup))
    return tuple(dict.fromkeys(os.path.abspath(path) for path in (*named, *own)))


def _project_files(setup: Setup) -> tuple[Path, ...]:
    """The files that configure the project, here and in the workspace; they need not exist."""
    folders = (setup.workspace, *([] if setup.project is None else [setup.project]))
    names = (NAME, LOCK_NAME)
    own = () if setup.lock is None else (setup.lock,)
    return (*own, *(folder / name for folder in folders for name in names))


class Needs(NamedTuple):
    """What has to be opened for a run: with which setup, for which models, and which plan's tools.

    `plan` is None if all tools are needed.
    """

    setup: Setup
    models: RunModels
    plan: Plan | None

    @property
    def agents(self) -> AgentRules | None:
        """The rules for agents; None without a model."""
        return self.models.agents


def needs_of(
    setup: Setup, plan: Plan, limits: Limits, say: Callable[[str], None], *, must_plan: bool = True
) -> Needs:
    """The needs of a run of a plan; `say` hears of a local model that is used because none is named.

    Raises CallsheetError as `models_for_plan` does.
    """
    setup = with_local_model(setup, say, plan)
    models = models_for_plan(setup, plan, limits, must_plan=must_plan)
    return Needs(setup, models, None if models.may_call_any_tool(plan) else plan)


def needs_of_recorded(
    start: Start, setup: Setup, plan: Plan, limits: Limits, say: Callable[[str], None], model: str = ""
) -> Needs:
    """The needs of a recorded run that was started with this setup; `model` is used instead of its own.

    A session of a client may still wait for the tools that it was begun with.
    """
    needs = needs_of(setup_for_resume(setup, model), plan, limits, say, must_plan=False)
    loops = (fact.loop for fact in start.facts.values())
    loop = next((loop for loop in loops if loop is not None and loop.is_session), None)
    if loop is None:
        return needs
    from callsheet.ports.mcp.declarations import OFFERS  # noqa: PLC0415 - only for a session

    offers = {offer.name for offer in OFFERS.values()}  # not every server has such
    tools = tuple(name for name in loop.tools if name not in offers)
    return needs._replace(models=replace(needs.models, agents=AgentRules(tools)))


class Equipped(NamedTuple):
    """A run's equipment and ports, and the setup that opens the same tools again."""

    equipment: Equipment
    ports: Ports
    setup: Setup


def equip(
    needs: Needs,
    toolbox: Toolbox,
    journal: Path | None,
    *,
    on_in_doubt: str = "",
    keeps_labels: bool = True,
    listener: CallListener | None = None,
) -> Equipped:
    """The equipment of a run, once its toolbox is open.

    The labels of files are those beside the `journal`, and runs store theirs there if it `keeps_labels`.
    `on_in_doubt` is the rule for calls in doubt, by default that of the setup. `listener` follows the calls.
    """
    setup, models, _ = needs
    registry, on_in_doubt = toolbox.registry, on_in_doubt or setup.settings.on_in_doubt

    def left() -> PersistedLabels:
        from callsheet.passes.verify import NOTHING_LEFT  # noqa: PLC0415 - only under a policy
        from callsheet.runtime.remaining import left_before  # noqa: PLC0415 - as above

        return NOTHING_LEFT if journal is None else left_before(journal, setup.folder)

    equipment = Equipment(
        registry=registry,
        guarantees=lambda: guarantees_of(setup, registry, keeps_labels=keeps_labels),
        left=left,
        agents=models.agents,
        providers=models.providers,
        servers=toolbox.servers,
        doubts=toolbox.diagnostics,
        not_asked=toolbox.not_asked,
        on_in_doubt=OnInDoubt(on_in_doubt),
        known=toolbox.known,
        workspace=toolbox.workspace,
    )
    compiler = models.compiler(registry, on_in_doubt)
    ports = toolbox.ports(models.model, compiler, models.turns(registry), listener)
    if compiler is not None:
        from callsheet.api.proving import undertaking  # noqa: PLC0415 - only for a run that may plan anew

        ports = replace(ports, unmet=undertaking(equipment.guarantees))
    return Equipped(equipment, ports, setup_of_run(setup, toolbox))
