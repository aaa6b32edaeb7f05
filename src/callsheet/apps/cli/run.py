"""`callsheet run`: a plan, checked against the tools that are there, then run.

The answer goes to standard output, everything else to standard error. What is needed to open
the same tools again is kept with the run, so that `resume` needs no options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import limiting, options
from callsheet.apps.cli.dry_run import Assumptions, Rules, assumptions, tell_dry_run
from callsheet.apps.cli.engines.choice import Engine, engine
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.given import parse_variables
from callsheet.apps.cli.output import print_diagnostics, say
from callsheet.apps.cli.progress import Progress, choose_progress
from callsheet.apps.cli.stage import Stage
from callsheet.apps.cli.trace import beside
from callsheet.apps.operations.library import bound, changed_tools, other_tools
from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, to_json
from callsheet.ir import Order, Plan
from callsheet.sealing.placeholders import MASK

if TYPE_CHECKING:
    from callsheet.apps.cli.engines.running import Reference
    from callsheet.apps.models import Asked
    from callsheet.apps.session import Setup, Toolbox
    from callsheet.apps.veil import Veil
    from callsheet.machine.limits import Limits
    from callsheet.policy.model import Policy
    from callsheet.runtime.doubt import RunOutcome
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.runtime.runs import Launch
    from callsheet.sealing.shapes import Shapes
    from callsheet.store.journal import Journal


_FIRST_SIGHT = "TOL022"


@dataclass(frozen=True, slots=True)
class Start:
    """How a run begins: its id, what it is held against, before which calls a person is asked, and so on."""

    run_id: str | None
    approve: tuple[str, ...]
    approval_timeout: tuple[str, ...]
    waits: bool
    accepts_changed_tools: bool
    policy: str
    approved: tuple[str, ...]


_start = options.folded(
    "start",
    Start,
    run_id=click.option("--run-id", metavar="ID", help="The run's id; default: a new one."),
    approve=click.option(
        "--approve",
        multiple=True,
        metavar="TOOL",
        help="Ask a person before each call of this tool; may be repeated.",
    ),
    approval_timeout=click.option(
        "--approval-timeout",
        multiple=True,
        metavar="TIME|TOOL=TIME",
        help="Deny a call that nobody has approved in this time, such as 12h or 3d; default: never.",
    ),
    waits=options.waits,
    accepts_changed_tools=click.option(
        "--accept-changed-tools",
        "accepts_changed_tools",
        is_flag=True,
        help="Run a plan of the library though tools are declared differently than when it was saved.",
    ),
    policy=click.option(
        "--policy",
        default="",
        metavar="POLICY",
        help="Prove the plan against it and hold each call to it: strict, workspace, open, or a file. "
        "Default: policy in config.toml, else none.",
    ),
    approved=options.approved,
)


@dataclass(frozen=True, slots=True)
class Job:
    """A run that is about to begin. `journal` is None where nothing is to be recorded."""

    text: PlanText
    plan: Plan
    inputs: dict[str, Any]
    setup: Setup
    limits: Limits
    run_id: str
    journal: Journal | None
    progress: Progress
    quiet: bool
    approve: tuple[str, ...]
    approval_timeout: dict[str, float]
    waits: bool
    accepts_changed_tools: bool
    on_in_doubt: str
    policy: Policy | None
    approved: tuple[str, ...]
    secrets: dict[str, str]
    """The inputs that are secret, which `inputs` has as well."""
    veil: Veil
    engine: TemporalSettings | None
    """Where the run is carried out, None for here."""
    detaches: bool
    named: Mapping[str, str]
    """Variables of the environment of workers elsewhere by the text in their place."""


_OPTIONS: tuple[options.Decorator, ...] = (
    options.tool_sources,
    options.variables,
    options.secrets,
    options.show_secrets,
    options.no_secret_patterns,
    click.option("--dry-run", "is_dry", is_flag=True, help="Say what the plan would do, and do nothing."),
    assumptions,
    options.recording,
    limiting.limits,
    _start,
    engine,
    beside.otlp,
    click.option(
        "--on-in-doubt",
        type=click.Choice(["ask", "fail", "retry"]),
        help="What becomes of calls that may have taken place, if their tools say nothing; default: ask. "
        "retry holds for tools whose effect is declared.",
    ),
    options.progress,
    options.as_json,
)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options of a run, as `carry_out` takes them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@options.plan
@run_options
def run(**given: Any) -> int:
    """Check PLAN and run it on real tools.

    PLAN is a file, - for standard input, or a plan of the library: its id, or ID@N for version N of it. Where
    a file has that name, it is the file.

    The answer is printed on standard output, progress on standard error. A run that was
    interrupted goes on with `callsheet resume`. One that waits for people ends with exit status 4.
    """
    return carry_out(**given)


def carry_out(  # noqa: PLR0913 - an argument for each group of options
    *,
    plan: options.NamedPlan,
    setup: Setup,
    variables: tuple[str, ...],
    secrets: tuple[str, ...],
    shows_secrets: bool,
    no_secret_patterns: bool,
    is_dry: bool,
    assumptions: Assumptions,
    recording: options.Recording,
    limits: Limits,
    start: Start,
    engine: Engine,
    otlp: str,
    on_in_doubt: str | None,
    progress: str,
    as_json: bool,
) -> int:
    """Check a plan and run it, or tell what it would do; gives the exit status."""
    from callsheet.apps.cli.secret_inputs import read_secrets  # noqa: PLC0415 - not for --help

    if is_dry:
        secret = tuple(each.partition("=")[0] for each in secrets)
        given = (*variables, *(f"{name}={MASK}" for name in secret))
        is_recorded = not recording.no_journal
        rules = Rules(start.approve, start.policy, start.approved, secret, is_recorded=is_recorded)
        return tell_dry_run(plan, setup, given, assumptions, rules, as_json=as_json)
    if assumptions.are_given:
        raise click.UsageError("--assume, --price and --ask-servers belong to a dry run: add --dry-run")
    if recording.no_journal and start.waits:
        raise click.UsageError("--no-journal has no inbox: nobody could answer while the run waits")
    if recording.no_journal and (recording.journal is not None or start.run_id is not None):
        raise click.UsageError("--no-journal records nothing: leave --journal and --run-id out")
    if recording.no_journal and otlp:
        raise click.UsageError("--otlp reads the journal: leave --no-journal out")
    there = engine.settings(setup.settings)
    if there is not None and recording.no_journal:
        raise click.UsageError("--no-journal and --engine temporal contradict each other: leave one out")
    setup = beside.with_collector(setup, otlp)
    target = setup.settings.otel.target()
    from callsheet.apps.models import with_fetched  # noqa: PLC0415 - not for --help
    from callsheet.apps.operations.checking import require_plan  # noqa: PLC0415 - as above

    inputs = parse_variables(variables)
    named = _named(secrets) if there is not None else {}
    held = read_secrets(() if named else secrets, inputs) | {name: told.text for name, told in named.items()}
    inputs |= held
    shapes = None if no_secret_patterns else setup.settings.secrets.shapes
    text = plan.read(inputs)
    inputs = bound(text, inputs, variables)
    job = Job(
        text=text,
        plan=require_plan(text, setup, inputs),
        inputs=inputs,
        setup=with_fetched(setup, say, text.require()),
        limits=limits,
        run_id=_run_id(start.run_id),
        journal=recording.open(shapes),
        progress=choose_progress(Stage(progress), text.require(), as_json=as_json),
        quiet=as_json,
        approve=_rules((*setup.settings.approve, *start.approve)),
        approval_timeout={**setup.settings.approval_timeouts(), **_timeouts(start.approval_timeout)},
        waits=start.waits,
        accepts_changed_tools=start.accepts_changed_tools,
        on_in_doubt=on_in_doubt or setup.settings.on_in_doubt,
        policy=options.policy_named(start.policy, setup, start.approved),
        approved=start.approved,
        secrets=held,
        veil=_veil(shapes, held, shows_all=shows_secrets),
        engine=there,
        detaches=engine.detaches,
        named={told.text: told.variable for told in named.values()},
    )
    hint, otel = options.journal_hint(recording.journal), setup.settings.otel
    place = None if job.journal is None else job.journal.path
    with beside.sent_beside(otel, target, place, job.run_id, hint, quiet=as_json):
        return _carry_out(job, hint=hint, as_json=as_json)


def _named(secrets: tuple[str, ...]) -> dict[str, Reference]:
    from callsheet.apps.cli.engines.running import by_name  # noqa: PLC0415 - only for runs elsewhere

    return by_name(secrets)


def _veil(shapes: Shapes | None, held: dict[str, str], *, shows_all: bool) -> Veil:
    """What is shown of the run, without these secrets."""
    from callsheet.apps.veil import Veil  # noqa: PLC0415 - brings the runtime
    from callsheet.sealing.known import Known  # noqa: PLC0415 - as above
    from callsheet.sealing.sealer import DECLARED  # noqa: PLC0415 - as above

    veil = Veil(shapes, shows_all=shows_all)
    veil.know(Known.of(held.values(), DECLARED))
    return veil


def _rules(names: tuple[str, ...]) -> tuple[str, ...]:
    from callsheet.ir import canonical_tool_name  # noqa: PLC0415 - not for --help

    return tuple(dict.fromkeys(map(canonical_tool_name, names)))


def _timeouts(given: tuple[str, ...]) -> dict[str, float]:
    from callsheet.machine.asking import approval_timeouts  # noqa: PLC0415 - as above

    by_tool = {tool: time for tool, _, time in (each.rpartition("=") for each in given)}
    try:
        return approval_timeouts(by_tool)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--approval-timeout'") from None


def _run_id(given: str | None) -> str:
    from callsheet.store.ids import check_run_id, new_run_id  # noqa: PLC0415 - not for a wrong plan

    return new_run_id() if given is None else check_run_id(given)


def _carry_out(job: Job, *, hint: str, as_json: bool) -> Exit:
    from callsheet.apps.cli.loop import run_to_end  # noqa: PLC0415 - brings asyncio, as all below
    from callsheet.apps.cli.outcome import report, with_way_on  # noqa: PLC0415
    from callsheet.store.errors import JournalWriteFailed  # noqa: PLC0415

    try:
        with job.veil.over_prints(), job.progress:
            outcome, diagnostics = run_to_end(_run(job))
    except KeyboardInterrupt as stop:
        return options.interrupted(stop, _recorded(job), hint)
    except JournalWriteFailed as error:
        raise with_way_on(error, _recorded(job), hint) from error
    except CallsheetError as error:
        raise job.veil.error(error) from None
    finally:
        if job.journal is not None:
            job.journal.close()
    place = None if job.journal is None else job.journal.path
    if outcome is None:
        from callsheet.apps.cli.engines.running import detached  # noqa: PLC0415 - as above

        return detached(job.run_id, hint, as_json=as_json)
    warnings = to_json(job.veil.diagnostics(diagnostics), job.text.source)
    reopens = job.plan.order is Order.DAG
    outcome = job.veil.outcome(outcome)
    return report(outcome, place, as_json=as_json, hint=hint, diagnostics=warnings, reopens=reopens)


def _recorded(job: Job) -> str | None:
    """The id of the run, if it is in the journal, or if nobody can tell."""
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - as above

    if job.journal is None:
        return None
    try:
        return job.run_id if any(i.run_id == job.run_id for i in job.journal.runs(limit=100)) else None
    except JournalError:
        return job.run_id


async def _run(job: Job) -> tuple[RunOutcome | None, tuple[Diagnostic, ...]]:
    from callsheet.apps.models import asked_by  # noqa: PLC0415 - as above
    from callsheet.apps.session import open_toolbox  # noqa: PLC0415
    from callsheet.runtime.asking import Respondents  # noqa: PLC0415
    from callsheet.runtime.doubt import RunOutcome  # noqa: PLC0415
    from callsheet.runtime.runs import Watch, run_unrecorded, start_run  # noqa: PLC0415

    present = Respondents(waits=job.waits)
    asked = asked_by(job.setup, job.plan, job.limits)
    plan = None if asked.knows_all_tools(job.plan) else job.plan
    async with open_toolbox(job.setup, plan, asked.agents) as toolbox:
        job.veil.know(toolbox.known)
        diagnostics = _check(job, toolbox, asked)
        compiler = asked.compiler(toolbox.registry, job.on_in_doubt)
        policy = _proved(job, toolbox)
        launch = _launch(job, toolbox, asked, policy)
        ports = toolbox.ports(asked.model, compiler, asked.turns(toolbox.registry))
        watch = Watch(observer=job.veil.observing(job.progress.note))
        job.progress.begin()
        outcome: RunOutcome | None
        if job.engine is not None and job.journal is not None:
            from callsheet.apps.cli.engines import running  # noqa: PLC0415 - as above

            running.check_blind(job.plan, job.secrets)
            outcome = await running.run_there(
                job.plan,
                launch,
                job.journal,
                job.run_id,
                job.engine,
                detaches=job.detaches,
                waits=job.waits,
                secrets=job.named,
            )
        elif job.journal is None:
            result = await run_unrecorded(job.plan, ports, launch, watch, job.run_id)
            outcome = RunOutcome(job.run_id, result, usage=result.usage)
        else:
            outcome = await start_run(job.plan, ports, launch, job.journal, job.run_id, watch, present)
        job.progress.end()
    return outcome, diagnostics


def _check(job: Job, toolbox: Toolbox, asked: Asked) -> tuple[Diagnostic, ...]:
    """Refuse a plan with errors; else print the warnings, and which servers were opened."""
    from callsheet.api.agents import wrong_tools  # noqa: PLC0415 - as above
    from callsheet.api.checking import check_plan, idle_rules  # noqa: PLC0415 - as above
    from callsheet.apps.cli.secret_inputs import short_ones  # noqa: PLC0415 - as above

    found = (
        *toolbox.diagnostics,
        *check_plan(job.plan, toolbox.registry, job.inputs, not_asked=toolbox.not_asked, means=asked.means),
        *wrong_tools(job.plan, toolbox.registry, asked.agents),
        *_other_tools(job, toolbox),
        *idle_rules(job.plan, set(job.approve) - set(_rules(job.setup.settings.approve)), _limited(job)),
        *short_ones(job.secrets),
    )
    if any(d.is_error for d in found):
        raise CallsheetError(found, job.text.source)
    warnings = tuple(
        d for d in (*job.text.diagnostics, *found) if d.severity is Severity.WARNING or d.code == _FIRST_SIGHT
    )
    if not job.quiet:
        print_diagnostics(job.veil.diagnostics(warnings), job.text.source)
        if toolbox.servers:
            names = ", ".join(server.name for server in toolbox.servers)
            say(f"MCP servers: {names} (from {', '.join(map(str, toolbox.configs))})")
    return warnings


def _limited(job: Job) -> list[str]:
    """The tools whose calls the command limits; those of the configuration are meant for other plans too."""
    own, usual = job.limits, job.setup.settings.limits
    named = {**own.max_calls_by_tool, **own.max_concurrency_by_tool}
    return sorted(named.keys() - usual.max_calls_by_tool.keys() - usual.max_concurrency_by_tool.keys())


def _other_tools(job: Job, toolbox: Toolbox) -> tuple[Diagnostic, ...]:
    names = changed_tools(job.text, toolbox.registry)
    return (other_tools(job.text, names, is_accepted=job.accepts_changed_tools),) if names else ()


def _proved(job: Job, toolbox: Toolbox) -> Policy | None:
    """The policy on the tools that there are, once the plan has been proved; raises PolicyRefused."""
    if job.policy is None:
        return None
    from callsheet.api.proving import prove  # noqa: PLC0415 - only under a policy
    from callsheet.apps.session import undertaking  # noqa: PLC0415 - as above

    options.check_approved(job.plan, job.approved)
    from callsheet.store.records import secret_labels  # noqa: PLC0415 - as above

    proof = prove(
        job.plan,
        job.policy,
        toolbox.registry,
        inputs=job.inputs,
        labels=secret_labels(job.policy, job.secrets),
        approved=job.approved,
        can_ask=job.journal is not None,
    )
    proof = proof.under(undertaking(job.setup, toolbox.registry, keeps_labels=job.journal is not None))
    proof.raise_if_refused(job.text.source)
    if not job.quiet:
        print_diagnostics(proof.diagnostics, job.text.source)
    return proof.policy


def _launch(job: Job, toolbox: Toolbox, asked: Asked, policy: Policy | None) -> Launch:
    from callsheet.api.reach import facts_of, pins_of, servers_of  # noqa: PLC0415 - as above
    from callsheet.apps.session import setup_of_run  # noqa: PLC0415
    from callsheet.ir import OnInDoubt, plan_hash  # noqa: PLC0415
    from callsheet.runtime.runs import Launch  # noqa: PLC0415

    servers = servers_of(job.plan, toolbox.registry, toolbox.servers, asked.agents) if toolbox.servers else {}
    return Launch(
        facts=facts_of(job.plan, toolbox.registry, OnInDoubt(job.on_in_doubt), asked.agents),
        pins=pins_of(job.plan, toolbox.registry, asked.agents),
        inputs=job.inputs,
        limits=job.limits,
        source=job.text.source.text,
        approve=job.approve,
        approval_timeout=job.approval_timeout,
        note={
            "plan": job.text.source.name,
            "setup": setup_of_run(job.setup, toolbox).to_note(),
            **({"servers": servers} if servers else {}),
        },
        policy=policy,
        verified="" if policy is None else plan_hash(job.plan),
        secret=frozenset(job.secrets),
    )
