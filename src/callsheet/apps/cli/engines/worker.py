"""`callsheet worker`: a process that drives runs and makes their calls for an engine's server."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

import callsheet
from callsheet.apps.cli import options
from callsheet.apps.cli.engines.engine_options import TEMPORAL, EngineAddress, require_extra, whereabouts
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.number_types import FiniteRange
from callsheet.apps.cli.output import print_diagnostics, to_stderr
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.session import Setup
    from callsheet.runtime.engines.temporal.serving import Duties
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.store.labels import LabelStore


class DeploymentVersion(NamedTuple):
    """Of which version of a deployment a worker is, and whether new runs go to it; empty for none."""

    deployment: str
    build: str
    is_current: bool


def _make_version(deployment: str, build: str, is_current: bool) -> DeploymentVersion:
    if (build or is_current) and not deployment:
        raise click.UsageError("--build and --current are about a deployment: add --deployment")
    if "." in deployment:
        raise click.BadParameter("it is a name without dots", param_hint="'--deployment'")
    return DeploymentVersion(deployment, build, is_current)


_version = options.grouped(
    "version",
    _make_version,
    deployment=click.option(
        "--deployment",
        default="",
        metavar="NAME",
        help="The worker is of a version of this deployment: runs stay with the version that began them.",
    ),
    build=click.option(
        "--build", default="", metavar="ID", help="Which version it is; default: the release of callsheet."
    ),
    is_current=click.option(
        "--current", "is_current", is_flag=True, help="New runs go to this version from now on."
    ),
)


@click.command()
@click.option(
    "--engine",
    type=click.Choice([TEMPORAL]),
    default=TEMPORAL,
    show_default=True,
    help="Whose server the worker serves.",
)
@whereabouts
@click.option(
    "--serves",
    type=click.Choice(["plans", "tools", "models"]),
    multiple=True,
    help="What this worker is there for; may be repeated. Default: all.",
)
@click.option(
    "--calls",
    type=click.IntRange(1, 2_000),
    default=100,
    show_default=True,
    help="Calls at once, of each kind.",
)
@click.option(
    "--drain",
    type=FiniteRange(0, 3_600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long calls under way may go on when the worker is stopped.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="VARIABLE",
    help="A variable of this environment that runs may name as a secret; may be repeated.",
)
@click.option(
    "--accept-changed-tools",
    "accepts_changed",
    is_flag=True,
    help="Call tools also if their declaration is not what it was when the run began.",
)
@_version
@options.tool_sources
@click.option("--json", "as_json", is_flag=True, help="Print what it serves as a JSON object.")
def worker(  # noqa: PLR0913 - an argument for each option
    *,
    engine: str,
    whereabouts: EngineAddress,
    serves: tuple[str, ...],
    calls: int,
    drain: float,
    secrets: tuple[str, ...],
    accepts_changed: bool,
    version: DeploymentVersion,
    setup: Setup,
    as_json: bool,
) -> int:
    """Carry runs on for a Temporal server: drive plans, call tools, ask models, until Ctrl-C.

    Any number of workers share the work; what one leaves when it dies another takes over. The tools are
    those of this process: give all workers of a task queue the same.
    """
    del engine
    require_extra()
    _check_secrets(secrets)
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - brings asyncio, as all below
    from callsheet.runtime.engines.temporal.serving import Duties  # noqa: PLC0415
    from callsheet.runtime.engines.temporal.versions import default_build  # noqa: PLC0415

    settings = whereabouts.apply_to(setup.settings.temporal)
    kinds = serves or ("plans", "tools", "models")
    duties = Duties(
        settings.queue,
        plans="plans" in kinds,
        tools="tools" in kinds,
        models="models" in kinds,
        calls=calls,
        drain=drain,
        secrets=secrets,
        deployment=version.deployment,
        build=version.build or default_build(callsheet.__version__),
    )
    terms = _WorkerOptions(version.is_current, accepts_changed)
    try:
        run_async(_serve(settings, setup, duties, terms, as_json=as_json))
    except KeyboardInterrupt as stop:
        to_stderr("stopped; other workers carry on what it had under way")
        return getattr(stop, "status", Exit.INTERRUPTED)
    return Exit.OK


def _check_secrets(variables: tuple[str, ...]) -> None:
    """Refuse variables that the worker has not, before a run asks it for one (SEC005)."""
    for variable in variables:
        if not os.environ.get(variable):
            raise CallsheetError.single(
                "SEC005",
                f"--secret: there is no variable {variable[:60]} in the environment of this worker",
                help="set it there; a worker takes the variable's name alone: --secret DEPLOY_TOKEN",
            )


def _labels() -> LabelStore:
    """The labels of files and facts: in the shared store, else beside this user's own journal."""
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above
    from callsheet.store.label_transfer import open_labels  # noqa: PLC0415 - only for runs under a policy

    journal = default_journal_path()
    journal.parent.mkdir(parents=True, exist_ok=True)
    return open_labels(journal)


class _WorkerOptions(NamedTuple):
    """Whether new runs go to this version of workers, and whether tools may have changed under a run."""

    is_current: bool
    accepts_changed: bool


async def _serve(
    settings: TemporalSettings, setup: Setup, duties: Duties, terms: _WorkerOptions, *, as_json: bool
) -> None:
    from callsheet.api.requirements import pin_lookup  # noqa: PLC0415 - as above
    from callsheet.apps.models import asked_by_all, with_fetched  # noqa: PLC0415 - as above
    from callsheet.apps.session import open_toolbox  # noqa: PLC0415
    from callsheet.runtime.engines.temporal.connecting import reach  # noqa: PLC0415
    from callsheet.runtime.engines.temporal.serving import serve  # noqa: PLC0415
    from callsheet.runtime.engines.temporal.versions import make_current  # noqa: PLC0415

    reached = await reach(settings)
    setup = with_fetched(setup, to_stderr) if duties.models else setup
    models = asked_by_all(setup)
    async with open_toolbox(setup) as toolbox:
        print_diagnostics(toolbox.diagnostics, None)
        compiler = models.compiler(toolbox.registry, setup.settings.on_in_doubt)
        ports = toolbox.ports(models.model, compiler, models.turns(toolbox.registry))
        ports = replace(ports, blocks=None)  # blocks stand in a journal, and a worker has none
        if not terms.accepts_changed:
            duties = replace(duties, pin_of=pin_lookup(toolbox.registry))
        address = reached.client.service_client.config.target_host

        def announce() -> None:
            kinds = [name for name in ("plans", "tools", "models") if getattr(duties, name)]
            if as_json:
                click.echo(json.dumps({"address": address, "queue": duties.queue, "serves": kinds}))
            else:
                to_stderr(
                    f"serves {', '.join(kinds)} on the task queue {duties.queue} of {address}; Ctrl-C ends it"
                )

        serving = asyncio.create_task(serve(reached.client, ports, reached.claims, duties, announce, _labels))
        try:
            if terms.is_current:
                await make_current(reached.client, duties.deployment, duties.build)
            await serving
        finally:
            serving.cancel()
            await asyncio.wait({serving})
    await asyncio.sleep(0)
