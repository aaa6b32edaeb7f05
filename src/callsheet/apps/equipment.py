"""The equipment of a run from a setup: its models, its open tools, what the runtime guarantees.

In: a setup, a plan, its limits. Out: what the run service needs to admit, resume or branch off a run, with
the files that determine what plans may do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.api.admission import Equipment
from callsheet.api.requirements import AgentRules
from callsheet.apps.config_file import settings_path
from callsheet.apps.models import RunModels, models_for_plan, setup_for_resume, with_local_model
from callsheet.apps.projects import NAME, trusted_file
from callsheet.apps.settings import pins_path
from callsheet.apps.setup import LOCK_NAME, Setup
from callsheet.apps.toolbox import Toolbox, setup_of_run
from callsheet.ir import OnInDoubt, Plan
from callsheet.lazy import NamedTuple
from callsheet.machine import Limits
from callsheet.ports.calls import CallListener
from callsheet.ports.tools import Registry
from callsheet.runtime.gateway import Ports

if TYPE_CHECKING:
    from callsheet.api.proving import Guarantees
    from callsheet.passes.verify import PersistedLabels
    from callsheet.store.start import Start


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
