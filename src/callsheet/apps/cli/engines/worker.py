"""`callsheet worker`: executes runs and their calls for a server; `blobs prune`: deletes its large values."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

import callsheet
from callsheet.apps.cli import options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.maintenance import parse_age
from callsheet.apps.cli.options import FiniteRange
from callsheet.apps.cli.output import ignoring_broken_pipe, print_diagnostics, print_json, to_stderr
from callsheet.apps.cli.run_options import (
    TEMPORAL,
    EngineAddress,
    places,
    require_extra,
    whereabouts,
)
from callsheet.apps.rendering.values import format_bytes
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.apps.operations.printed_service_rows import PrunedValues, ServedQueue
    from callsheet.apps.setup import Setup
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.runtime.engines.temporal.worker import Duties
    from callsheet.store.labels import LabelStore
    from callsheet.store.shared.blobs import Swept


class DeploymentVersion(NamedTuple):
    """The deployment version of a worker, and whether new runs use it; empty for none."""

    deployment: str
    build: str
    is_current: bool


def _make_version(deployment: str, build: str, is_current: bool) -> DeploymentVersion:
    if (build or is_current) and not deployment:
        raise click.UsageError("--build and --current need --deployment")
    if "." in deployment:
        raise click.BadParameter("the name must not contain dots", param_hint="'--deployment'")
    return DeploymentVersion(deployment, build, is_current)


_version = options.grouped(
    "version",
    _make_version,
    deployment=click.option(
        "--deployment",
        default="",
        metavar="NAME",
        help="The deployment that the worker belongs to; runs stay with the version that started them.",
    ),
    build=click.option(
        "--build",
        default="",
        metavar="ID",
        help="The version of the deployment; default: the release of callsheet.",
    ),
    is_current=click.option(
        "--current", "is_current", is_flag=True, help="Start new runs on this version from now on."
    ),
)


@click.command()
@click.option(
    "--engine",
    type=click.Choice([TEMPORAL]),
    default=TEMPORAL,
    show_default=True,
    help="The engine that the worker serves.",
)
@whereabouts
@click.option(
    "--serves",
    type=click.Choice(["plans", "tools", "models"]),
    multiple=True,
    help="The kind of tasks that the worker executes; may be repeated. Default: all.",
)
@click.option(
    "--calls",
    type=click.IntRange(1, 2_000),
    default=100,
    show_default=True,
    help="The maximum number of concurrent calls of each kind.",
)
@click.option(
    "--drain",
    type=FiniteRange(0, 3_600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long pending calls may continue when the worker is stopped.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="VARIABLE",
    help="An environment variable that runs may use as a secret; may be repeated.",
)
@click.option(
    "--accept-changed-tools",
    "accepts_changed",
    is_flag=True,
    help="Call tools even if their declaration has changed since the run was started.",
)
@_version
@options.tool_sources
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the address, the queue and the kinds of tasks as a JSON object.",
)
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
    """Execute runs for a Temporal server, until Ctrl-C: drive plans, call tools, ask models.

    Any number of workers share the work, and other workers take over the work of one that dies. The tools are
    those of this process: start all workers of a task queue with the same tools.
    """
    del engine
    require_extra()
    _check_secrets(secrets)
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as all below
    from callsheet.runtime.engines.temporal.worker import Duties, default_build  # noqa: PLC0415

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
        accepts_changed=accepts_changed,
    )
    try:
        run_async(_serve(settings, setup, duties, is_current=version.is_current, as_json=as_json))
    except KeyboardInterrupt as stop:
        to_stderr("stopped; other workers take over its pending work")
        return getattr(stop, "status", Exit.INTERRUPTED)
    return Exit.OK


def _check_secrets(variables: tuple[str, ...]) -> None:
    """Raise CallsheetError (SEC005) for variables that are not set, before a run needs one."""
    for variable in variables:
        if not os.environ.get(variable):
            raise CallsheetError.single(
                "SEC005",
                f"--secret: the environment variable {variable[:60]} is not set",
                help="set it; write only the name of the variable: --secret DEPLOY_TOKEN",
            )


def _labels() -> LabelStore:
    """The labels of files and facts: in the shared store, otherwise beside the user's own journal."""
    from callsheet.store.journal_paths import default_journal_path  # noqa: PLC0415 - as above
    from callsheet.store.label_transfer import open_labels  # noqa: PLC0415 - only for runs under a policy

    journal = default_journal_path()
    journal.parent.mkdir(parents=True, exist_ok=True)
    return open_labels(journal)


async def _serve(
    settings: TemporalSettings, setup: Setup, duties: Duties, *, is_current: bool, as_json: bool
) -> None:
    from callsheet.api.proving import undertaking  # noqa: PLC0415 - as above
    from callsheet.api.requirements import offer_lookup  # noqa: PLC0415 - as above
    from callsheet.apps.equipment import (  # noqa: PLC0415 - as above
        guarantees_of,
        models_for_any_plan,
        with_local_model,
    )
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415
    from callsheet.runtime.engines.temporal.connection import reach  # noqa: PLC0415
    from callsheet.runtime.engines.temporal.worker import make_current, serve  # noqa: PLC0415

    connection = await reach(settings)
    setup = with_local_model(setup, to_stderr) if duties.models else setup
    models = models_for_any_plan(setup)
    async with open_toolbox(setup) as toolbox:
        print_diagnostics(toolbox.diagnostics, None)
        compiler = models.compiler(toolbox.registry, setup.settings.on_in_doubt)
        ports = toolbox.ports(models.model, compiler, models.turns(toolbox.registry))
        ports = replace(ports, unmet=undertaking(lambda: guarantees_of(setup, toolbox.registry)))
        ports = replace(ports, blocks=None)  # blocks are read from a journal, which a worker does not have
        duties = replace(duties, offer_of=offer_lookup(toolbox.registry))
        address = connection.client.service_client.config.target_host

        def announce() -> None:
            kinds = [name for name in ("plans", "tools", "models") if getattr(duties, name)]
            if as_json:
                served: ServedQueue = {"address": address, "queue": duties.queue, "serves": kinds}
                click.echo(json.dumps(served))
            else:
                to_stderr(
                    f"serving {', '.join(kinds)} on the task queue {duties.queue} of {address}; Ctrl-C stops"
                )

        serving = asyncio.create_task(
            serve(connection.client, ports, connection.claims, duties, announce, _labels)
        )
        try:
            if is_current:
                await make_current(connection.client, duties.deployment, duties.build)
            await serving
        finally:
            serving.cancel()
            await asyncio.wait({serving})
    await asyncio.sleep(0)


_DAY = 86_400.0


class _PruneOutcome(NamedTuple):
    place: str
    histories: dict[str, int]
    swept: Swept


@click.group("blobs")
def blobs() -> None:
    """Manage the large values of runs on Temporal."""


def _parse_age(ctx: click.Context, param: click.Parameter, text: str) -> float:
    age = parse_age(ctx, param, text)
    if age is None or age < _DAY:
        raise click.BadParameter(
            "must be at least 1d: younger values may belong to a run that is starting", ctx, param
        )
    return age


def _make_address(address: str, namespace: str, blobs: str) -> EngineAddress:
    return EngineAddress(address, namespace, "", blobs)


@blobs.command()
@options.grouped("whereabouts", _make_address, **places)
@click.option(
    "--older-than",
    callback=_parse_age,
    metavar="AGE",
    default="30d",
    show_default=True,
    help="The minimum age of values that are deleted: 30d, 8w, 1y.",
)
@click.option(
    "--gone",
    multiple=True,
    metavar="NAME",
    help="A former user of the same storage, by its name in error TMP031; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@options.as_json
def prune(
    whereabouts: EngineAddress, older_than: float, gone: tuple[str, ...], dry_run: bool, as_json: bool
) -> int:
    """Delete large values that no run on Temporal references any more.

    A value is referenced as long as the server keeps the history of its run, whether the run is open or
    closed. All namespaces whose workers use the same storage are queried.
    """
    require_extra()
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above

    settings = whereabouts.apply_to(load_settings().temporal)
    done = run_async(_prune(settings, older_than, gone, dry_run=dry_run))
    with ignoring_broken_pipe():
        if as_json:
            swept = done.swept
            pruned: PrunedValues = {
                "dry_run": dry_run,
                "place": done.place,
                "histories": done.histories,
                "removed": list(swept.removed),
                "bytes": swept.bytes,
                "needed": swept.needed,
                "young": swept.young,
            }
            print_json(pruned)
        else:
            _report(done, dry_run=dry_run)
    return Exit.OK


async def _prune(
    settings: TemporalSettings, age: float, gone: tuple[str, ...], *, dry_run: bool
) -> _PruneOutcome:
    import asyncio  # noqa: PLC0415 - as above

    from callsheet.runtime.engines.temporal.connection import needs, reach  # noqa: PLC0415 - imports Temporal
    from callsheet.store.shared.blobs import sweep  # noqa: PLC0415 - as above
    from callsheet.store.shared.opening import shown  # noqa: PLC0415 - as above

    connection = await reach(settings)
    blobs_store = connection.claims.blobs
    try:
        references = await needs(connection, gone)
        swept = await asyncio.to_thread(sweep, blobs_store, references.digests, age, dry_run=dry_run)
        for name in () if dry_run else gone:
            await asyncio.to_thread(blobs_store.unsign, name)
    except OSError as error:
        why = error.strerror or str(error)
        raise CallsheetError.single("TMP032", f"the large values cannot be read: {why}") from error
    return _PruneOutcome(shown(settings.place), dict(references.histories), swept)


def _report(done: _PruneOutcome, *, dry_run: bool) -> None:
    swept, would = done.swept, "would be deleted" if dry_run else "deleted"
    count = len(swept.removed)
    histories = ", ".join(f"{count} of namespace {name}" for name, count in done.histories.items())
    to_stderr(f"histories read: {histories}")
    to_stderr(
        f"{count} large value{'s' * (count != 1)} ({format_bytes(swept.bytes)}) of {done.place} {would};"
        f" {swept.needed} are referenced, {swept.young} are too young"
    )
