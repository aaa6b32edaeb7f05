"""`callsheet run`: turns command-line arguments into a prepared run, executes it and prints the outcome.

The answer goes to standard output, everything else to standard error. The setup of the tools is recorded
with the run, so that `resume` needs no options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, live_export, options
from callsheet.apps.cli import run_options as limit_options
from callsheet.apps.cli.arguments import NamedPlan, as_declared, parse_variables, warn_of_typed_secrets
from callsheet.apps.cli.debugging.faces import Stops, debugger_of, face_of, is_stopped, stops
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import ProgressMode
from callsheet.apps.cli.output import print_diagnostics, to_stderr
from callsheet.apps.cli.progress import choose_progress
from callsheet.apps.cli.proofs import Assumptions, DryRunRules, assumptions, print_dry_run
from callsheet.apps.cli.run_options import Engine, PlanCommand, StartOptions, engine, start
from callsheet.apps.operations.library import bound, origin_note, other_tools
from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import CallsheetError, Diagnostic, to_json
from callsheet.ir import JSON, Order, Plan
from callsheet.lazy import dataclass
from callsheet.sealing.keys import MASK

if TYPE_CHECKING:
    from callsheet.api.admission import Request
    from callsheet.apps.cli.debugging.model import Debugger, Face
    from callsheet.apps.cli.engines.temporal_runs import SecretReference
    from callsheet.apps.cli.progress import Progress
    from callsheet.apps.masking import Masker
    from callsheet.apps.setup import Setup
    from callsheet.machine.limits import Limits
    from callsheet.planning.results import Checkpoint
    from callsheet.policy.model import Policy
    from callsheet.ports.tools import Registry
    from callsheet.runtime.doubt import RunOutcome
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.sealing.credentials import Shapes


@dataclass(frozen=True, slots=True)
class Job:
    """A run that is about to start."""

    text: PlanText
    plan: Plan
    inputs: dict[str, Any]
    setup: Setup
    limits: Limits
    run_id: str
    recording: journals.RunJournal
    progress: Progress
    quiet: bool
    approve: tuple[str, ...]
    approval_timeout: dict[str, float]
    waits: bool
    accepts_changed_tools: bool
    on_in_doubt: str
    policy: Policy | None
    policy_name: str
    approved: tuple[str, ...]
    secrets: dict[str, str]
    """The secret inputs, which are also in `inputs`."""
    masker: Masker
    engine: TemporalSettings | None
    """The engine that executes the run; None for this process."""
    detaches: bool
    completed_steps: Mapping[str, Any] | None
    """The results of steps that were completed by another program; None for a run from the start."""
    tags: Mapping[str, str]
    worker_secrets: Mapping[str, str]
    """Environment variables of remote workers, by the placeholders of their values."""
    debugger: Debugger | None
    """What the run is executed under, statement by statement; its face also asks the questions."""


def execute_job(job: Job, *, hint: str, as_json: bool, is_strict: bool) -> Exit:
    """Check the plan against the tools, run it, and print the outcome. Returns the exit status."""
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as all below
    from callsheet.apps.cli.outcome import place_in, report, with_recovery_help  # noqa: PLC0415
    from callsheet.store.errors import JournalWriteFailed  # noqa: PLC0415

    try:
        with job.masker.masking_output(), job.progress:
            outcome, diagnostics = run_async(_run(job, hint))
    except KeyboardInterrupt as stop:
        return journals.report_interrupt(stop, _recorded_run_id(job), hint, on_server=job.engine is not None)
    except JournalWriteFailed as error:
        raise with_recovery_help(error, _recorded_run_id(job), hint) from error
    except CallsheetError as error:
        raise job.masker.error(error) from None
    finally:
        job.recording.close()
    if outcome is None:
        from callsheet.apps.cli.engines.temporal_runs import report_detached  # noqa: PLC0415 - as above

        return report_detached(job.run_id, hint, as_json=as_json)
    warnings = to_json(job.masker.diagnostics(diagnostics), job.text.source)
    reopens = job.plan.order is Order.DAG
    outcome = job.masker.outcome(outcome)
    return report(
        outcome,
        job.recording.path,
        as_json=as_json,
        hint=hint,
        diagnostics=warnings,
        reopens=reopens,
        is_strict=is_strict,
        locate=lambda step: place_in(job.plan, job.text.source, step),
    )


def _recorded_run_id(job: Job) -> str | None:
    """The id of the run if it is in the journal, or if the journal cannot be read."""
    from callsheet.store.errors import JournalError  # noqa: PLC0415 - as above

    journal = job.recording.journal
    if journal is None:
        return None
    try:
        return job.run_id if any(i.run_id == job.run_id for i in journal.runs(limit=100)) else None
    except JournalError:
        return job.run_id


async def _run(job: Job, hint: str) -> tuple[RunOutcome | None, tuple[Diagnostic, ...]]:
    from callsheet.api.admission import prepare  # noqa: PLC0415 - as above
    from callsheet.api.run_service import run_prepared  # noqa: PLC0415
    from callsheet.apps.cli.outcome import question_printer  # noqa: PLC0415
    from callsheet.apps.equipment import equip, needs_of  # noqa: PLC0415
    from callsheet.apps.operations.live_calls import BothListeners, LiveCalls, shared  # noqa: PLC0415
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415
    from callsheet.runtime.asking import Respondents  # noqa: PLC0415
    from callsheet.runtime.launch import Watch  # noqa: PLC0415

    prints_questions = job.waits and not job.quiet
    printer = question_printer(job.masker, hint)
    debugger = job.debugger

    asks = printer if prints_questions else None
    respondents = Respondents(
        asks if debugger is None else debugger.asked,
        job.waits or debugger is not None,
        shows=None if job.quiet else printer,
    )
    needs, place = needs_of(job.setup, job.plan, job.limits, to_stderr), job.recording.place

    def tell(diagnostics: tuple[Diagnostic, ...]) -> None:
        if not job.quiet:
            print_diagnostics(job.masker.diagnostics(diagnostics), job.text.source)

    def hear(diagnostic: Diagnostic) -> None:
        tell((diagnostic,))

    shows, calls = job.progress.listener, LiveCalls()
    if job.recording.records:
        shows = calls if shows is None else BothListeners(shows, calls)
    async with open_toolbox(needs.setup, needs.plan, needs.agents, tell=hear) as toolbox:
        job.masker.add_secrets(toolbox.known)
        equipment, ports, setup = equip(
            needs,
            toolbox,
            place,
            on_in_doubt=job.on_in_doubt,
            keeps_labels=job.recording.records,
            listener=job.masker.masked_listener(shows),
        )
        try:
            prepared = prepare(_request(job, setup, equipment.registry), equipment, tell=tell)
        except CallsheetError as refused:
            raise (refused if job.policy is None else _with_way_out(refused, job.policy_name)) from None
        opened = [server.name for server in toolbox.servers if server.is_open]
        if opened and not job.quiet:
            to_stderr(f"MCP servers: {', '.join(opened)} (from {', '.join(map(str, toolbox.configs))})")
        watch = Watch(observer=job.masker.masked_observer(job.progress.observer), pace=debugger)
        journal = job.recording.open()
        if job.completed_steps is None:
            job.progress.begin()
        else:
            watch = replace(watch, on_driver=job.progress.begin)
        outcome: RunOutcome | None
        if job.engine is not None and journal is not None:
            from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - as above

            outcome = await temporal_runs.run_on_temporal(
                prepared,
                journal,
                job.run_id,
                job.engine,
                waits=job.waits,
                secrets=job.worker_secrets,
                observer=None if job.detaches else job.masker.masked_observer(job.progress.note),
            )
        else:
            with nullcontext() if journal is None else shared(calls, journal.path, job.run_id):
                outcome = await run_prepared(
                    prepared, ports, journal, job.run_id, watch, respondents, labels=place
                )
        job.progress.end()
    return outcome, prepared.diagnostics


def _with_way_out(refused: CallsheetError, policy: str) -> CallsheetError:
    """An error, which ends with what to change so that the plan passes if it is a policy's refusal."""
    from callsheet.api.proving import PolicyRefused  # noqa: PLC0415 - only under a policy
    from callsheet.apps.operations.proofs import way_out  # noqa: PLC0415 - as above

    proof = refused.proof if isinstance(refused, PolicyRefused) else None
    lines = [] if proof is None else way_out(proof, policy)
    if not lines:
        return refused
    *others, last = refused.diagnostics
    told = "\n".join(lines)
    last = replace(last, help=told if last.help is None else f"{last.help}\n{told}")
    return PolicyRefused([*others, last], refused.source, proof)


def _request(job: Job, setup: Setup, registry: Registry) -> Request:
    """The request to the run service, with the setup that opens the same tools again."""
    from callsheet.api.admission import Request, own_limits, own_rules  # noqa: PLC0415 - as above
    from callsheet.machine.questions import approval_rules  # noqa: PLC0415

    text, settings = job.text, job.setup.settings
    changed = other_tools(text, registry, is_accepted=job.accepts_changed_tools)
    return Request(
        plan=job.plan,
        source=text.source,
        findings=(*text.diagnostics, *changed),
        inputs=job.inputs,
        secret=frozenset(job.secrets),
        limits=job.limits,
        policy=job.policy,
        approve=job.approve,
        approval_timeout=job.approval_timeout,
        own_approve=own_rules(
            (*job.approve, *(tool for tool in job.approval_timeout if tool)),
            (*approval_rules(settings.approve), *settings.approval_timeouts()),
        ),
        own_limits=own_limits(job.limits, settings.limits),
        approved=job.approved,
        can_ask=job.recording.records,
        note={
            "plan": text.source.name,
            "setup": setup.to_note(),
            **origin_note(text),
            **({"tags": dict(job.tags)} if job.tags else {}),
        },
        done=job.completed_steps,
    )


_OPTIONS: tuple[options.Decorator, ...] = (
    options.tool_sources,
    options.variables,
    options.secrets,
    options.show_secrets,
    options.no_secret_patterns,
    click.option("--dry-run", "is_dry", is_flag=True, help="Show what the plan would do; execute nothing."),
    assumptions,
    journals.recording,
    limit_options.limits,
    start,
    stops,
    engine,
    live_export.otlp,
    click.option(
        "--on-in-doubt",
        type=click.Choice(["ask", "fail", "retry"]),
        help="The default for calls in doubt, if their tools declare none; default: ask. retry applies only "
        "to tools with a declared effect.",
    ),
    options.strict,
    options.progress,
    options.as_json,
)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options of a run, the fields of `RunArguments`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(cls=PlanCommand)
@options.plan
@run_options
def run(**arguments: Any) -> int:
    """Check PLAN and run it.

    PLAN is a file, - for standard input, or a plan of the library: its id, or ID@N for version N. A file of
    that name takes precedence.

    The answer is printed on standard output, progress on standard error. `callsheet resume` continues an
    interrupted run. A run that waits for people ends with exit status 4.

    \b
    Examples:
      callsheet run plan.ltp --tools tools.py --var name=Ada
      callsheet run plan.ltp --mcp-config mcp.json --policy workspace --approve SEND
      callsheet run plan.ltp --secret token=env:API_TOKEN --max-time 10m
    """
    return execute_run(RunArguments(**arguments))


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The arguments of a run: a field for each option or group of options."""

    plan: NamedPlan
    setup: Setup
    variables: tuple[str, ...]
    secrets: tuple[str, ...]
    shows_secrets: bool
    no_secret_patterns: bool
    is_dry: bool
    assumptions: Assumptions
    recording: journals.Recording
    limits: Limits
    start: StartOptions
    stops: Stops
    engine: Engine
    otlp: str
    on_in_doubt: str | None
    is_strict: bool
    progress: str
    as_json: bool


def execute_run(arguments: RunArguments) -> int:
    """Check a plan and run it, or print its dry run. Returns the exit status.

    Raises click.UsageError for options that exclude each other, CallsheetError for a plan that cannot be run.
    """
    if arguments.is_dry:
        return _print_dry_run(arguments)
    temporal = _validate_options(arguments)
    face = _face(arguments, temporal)
    setup = live_export.with_collector(arguments.setup, arguments.otlp)
    target = setup.settings.otel.target()
    hint, otel = journals.journal_hint(arguments.recording.journal), setup.settings.otel
    with ExitStack() as exports:

        def export(journal: Path) -> None:
            quiet = arguments.as_json
            exports.enter_context(
                live_export.export_while_running(otel, target, journal, job.run_id, hint, quiet=quiet)
            )

        job = _make_job(arguments, setup, temporal, export, face)
        return execute_job(job, hint=hint, as_json=arguments.as_json, is_strict=arguments.is_strict)


def _face(arguments: RunArguments, temporal: TemporalSettings | None) -> Face | None:
    """Who steers the run statement by statement: an editor, the terminal, or nobody."""
    stops = arguments.stops
    if temporal is not None and is_stopped(stops):
        raise click.UsageError("a run on Temporal cannot be stopped at a statement: remove --engine")
    if arguments.recording.no_journal and is_stopped(stops):
        raise click.UsageError("a run that is stopped must be in the journal: remove --no-journal")
    return face_of(stops, otherwise="--approve STEP stops a run in the journal")


def _print_dry_run(arguments: RunArguments) -> int:
    """Print a dry run; secrets are not read, and their values are masked."""
    start, recording = arguments.start, arguments.recording
    if start.state is not None:
        raise click.UsageError("a dry run starts at the first step: remove --state")
    secret = tuple(each.partition("=")[0] for each in arguments.secrets)
    variables = (*arguments.variables, *(f"{name}={MASK}" for name in secret))
    rules = DryRunRules(
        start.approve,
        start.policy,
        start.approved,
        secret,
        is_recorded=not recording.no_journal,
        journal=recording.journal,
    )
    return print_dry_run(
        arguments.plan, arguments.setup, variables, arguments.assumptions, rules, as_json=arguments.as_json
    )


def _validate_options(arguments: RunArguments) -> TemporalSettings | None:
    """The settings of Temporal, if it executes the run. Raises click.UsageError for options that conflict."""
    recording, start = arguments.recording, arguments.start
    if arguments.assumptions.is_given:
        raise click.UsageError("--assume, --price, --ask-servers and --worlds need --dry-run")
    if recording.no_journal and start.waits:
        raise click.UsageError("--wait needs a journal: remove --no-journal")
    if recording.no_journal and (recording.journal is not None or start.run_id is not None):
        raise click.UsageError("--no-journal records nothing: remove --journal and --run-id")
    if recording.no_journal and arguments.otlp:
        raise click.UsageError("--otlp needs a journal: remove --no-journal")
    if recording.no_journal and start.state is not None:
        raise click.UsageError("--state needs a journal: remove --no-journal")
    temporal = arguments.engine.settings(arguments.setup.settings)
    if temporal is not None and start.state is not None:
        raise click.UsageError(
            "--state continues on this machine only, and a run on Temporal begins at the first step:"
            " remove --engine or --state"
        )
    if temporal is not None and recording.no_journal:
        raise click.UsageError("--no-journal and --engine temporal cannot be combined")
    return temporal


def _make_job(
    arguments: RunArguments,
    setup: Setup,
    temporal: TemporalSettings | None,
    on_open: Callable[[Path], None],
    face: Face | None,
) -> Job:
    """The job of the arguments; a run on Temporal has references to secrets instead of their values.

    `on_open` is called with the path of the journal once it is open.
    """
    from callsheet.apps.cli.arguments import read_secrets  # noqa: PLC0415 - not for --help
    from callsheet.apps.operations.checking import require_plan  # noqa: PLC0415 - as above
    from callsheet.machine.questions import approval_rules  # noqa: PLC0415 - as above

    start, settings = arguments.start, setup.settings
    typed = parse_variables(arguments.variables)
    references = _named(arguments.secrets) if temporal is not None else {}
    secret_values = read_secrets(() if references else arguments.secrets, typed)
    secret_values |= {name: secret.text for name, secret in references.items()}
    inputs = typed | secret_values
    shapes = None if arguments.no_secret_patterns else settings.secrets.shapes
    text = arguments.plan.read(inputs)
    done = None
    if start.state is not None:
        done, recorded = read_state(start.state, text.require())
        inputs = recorded | inputs
    inputs = bound(text, inputs, arguments.variables)
    inputs = as_declared(text.plan, inputs, arguments.variables)
    plan = require_plan(text, setup, inputs)
    warn_of_typed_secrets((plan,), typed)
    options.check_approved(plan, start.approved)
    masker = _make_masker(
        shapes, {**secret_values, **_declared(plan, inputs)}, shows_all=arguments.shows_secrets
    )
    masker.hide_inputs(plan)
    limits, progress = arguments.limits, ProgressMode(arguments.progress)
    debugger = None if face is None else debugger_of(plan, text.source, text.path, face, masker)
    if debugger is not None:
        limits = replace(limits, schedule="sequential")
        progress = ProgressMode.PLAIN if progress in (ProgressMode.AUTO, ProgressMode.LIVE) else progress
    policy = options.resolve_policy(start.policy, setup, start.approved)
    return Job(
        text=text,
        plan=plan,
        inputs=inputs,
        setup=setup,
        limits=limits,
        run_id=_run_id(start.run_id),
        progress=choose_progress(progress, text.require(), as_json=arguments.as_json),
        quiet=arguments.as_json,
        approve=approval_rules((*settings.approve, *start.approve)),
        approval_timeout={**settings.approval_timeouts(), **_timeouts(start.approval_timeout)},
        waits=start.waits,
        accepts_changed_tools=start.accepts_changed_tools,
        on_in_doubt=arguments.on_in_doubt or settings.on_in_doubt,
        policy=None if policy is None else text.under(policy),
        policy_name=start.policy or setup.settings.policy or "",
        approved=start.approved,
        secrets=secret_values,
        masker=masker,
        engine=temporal,
        detaches=arguments.engine.detaches,
        completed_steps=done,
        tags=_tags(start.tags),
        worker_secrets={reference.text: reference.variable for reference in references.values()},
        recording=journals.RunJournal(arguments.recording, shapes, on_open),
        debugger=debugger,
    )


def _named(secrets: tuple[str, ...]) -> dict[str, SecretReference]:
    from callsheet.apps.cli.engines.temporal_runs import secret_references  # noqa: PLC0415 - only for runs on Temporal

    return secret_references(secrets)


def _declared(plan: Plan, inputs: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The values of the inputs that the plan declares as SECRET."""
    if plan.tree is None:
        return {}
    from callsheet.ir.inputs import secret_inputs  # noqa: PLC0415 - only for version 2

    return secret_inputs(plan.tree, inputs)


def _make_masker(shapes: Shapes | None, secret_values: Mapping[str, JSON], *, shows_all: bool) -> Masker:
    """The masker of the run, which knows these secrets."""
    from callsheet.apps.masking import Masker  # noqa: PLC0415 - imports the runtime
    from callsheet.sealing.known import Known  # noqa: PLC0415 - as above
    from callsheet.sealing.sealer import DECLARED  # noqa: PLC0415 - as above

    masker = Masker(shapes, shows_all=shows_all)
    masker.add_secrets(Known.of(secret_values.values(), DECLARED))
    return masker


def _timeouts(texts: tuple[str, ...]) -> dict[str, float]:
    from callsheet.machine.questions import approval_timeouts  # noqa: PLC0415 - as above

    by_tool = {tool: time for tool, _, time in (each.rpartition("=") for each in texts)}
    try:
        return approval_timeouts(by_tool)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--approval-timeout'") from None


def _tags(options: tuple[str, ...]) -> dict[str, str]:
    if not options:
        return {}
    from callsheet.store.run_index import check_tags  # noqa: PLC0415 - imports the store

    bare = next((text for text in options if "=" not in text), None)
    if bare is not None:
        raise click.BadParameter(f"{bare[:60]!r} has no =; write --tag name=text", param_hint="'--tag'")
    try:
        return check_tags((name, text) for name, _, text in (each.partition("=") for each in options))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--tag'") from None


def _run_id(option: str | None) -> str:
    from callsheet.store.journal_paths import check_run_id, new_run_id  # noqa: PLC0415 - not for a wrong plan

    return new_run_id() if option is None else check_run_id(option)


_MAX_BYTES = 100_000_000


def read_state(path: Path, plan: Plan) -> Checkpoint:
    """The state of the plan. Raises CallsheetError (PLN028) if the file cannot be read or does not fit."""
    from callsheet.planning.results import read_checkpoint  # noqa: PLC0415 - imports the store

    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise _unreadable(path, f"it is larger than {_MAX_BYTES // 1_000_000} MB")
        return read_checkpoint(data.decode("utf-8"), plan)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not UTF-8 text") from error


def _unreadable(path: Path, reason: str) -> CallsheetError:
    return CallsheetError.single(
        "PLN028",
        f"the run cannot be taken over: {path} cannot be read: {reason}",
        help="--state takes the ID_state.json that another program has written",
    )
