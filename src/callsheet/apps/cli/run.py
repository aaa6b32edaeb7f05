"""`callsheet run`: turns command-line arguments into a job and runs it.

The answer goes to standard output, everything else to standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import journals, limit_options, options
from callsheet.apps.cli.assignments import parse_variables
from callsheet.apps.cli.dry_run import Assumptions, DryRunRules, assumptions, print_dry_run
from callsheet.apps.cli.engines.engine_options import Engine, engine
from callsheet.apps.cli.job import Job, canonical_names, execute_job
from callsheet.apps.cli.output import to_stderr
from callsheet.apps.cli.progress import choose_progress
from callsheet.apps.cli.progress_mode import ProgressMode
from callsheet.apps.cli.trace import live_export
from callsheet.apps.operations.library import bound
from callsheet.sealing.placeholders import MASK

if TYPE_CHECKING:
    from callsheet.apps.cli.engines.temporal_runs import SecretReference
    from callsheet.apps.masking import Masker
    from callsheet.apps.session import Setup
    from callsheet.machine.limits import Limits
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.sealing.shapes import Shapes


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a run begins: its id, what it is held against, before which calls a person is asked, and so on."""

    run_id: str | None
    approve: tuple[str, ...]
    approval_timeout: tuple[str, ...]
    waits: bool
    accepts_changed_tools: bool
    policy: str
    approved: tuple[str, ...]
    state: Path | None


_start = options.grouped(
    "start",
    StartOptions,
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
    state=click.option(
        "--state",
        type=click.Path(dir_okay=False, exists=True, path_type=Path),
        metavar="FILE",
        help="Begin where this state file (ID_state.json of another program) says that the plan stood: its "
        "completed steps are not run again.",
    ),
)


_OPTIONS: tuple[options.Decorator, ...] = (
    options.tool_sources,
    options.variables,
    options.secrets,
    options.show_secrets,
    options.no_secret_patterns,
    click.option("--dry-run", "is_dry", is_flag=True, help="Say what the plan would do, and do nothing."),
    assumptions,
    journals.recording,
    limit_options.limits,
    _start,
    engine,
    live_export.otlp,
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
    """Gives a command the options of a run, the fields of its `RunArguments`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@options.plan
@run_options
def run(**arguments: Any) -> int:
    """Check PLAN and run it on real tools.

    PLAN is a file, - for standard input, or a plan of the library: its id, or ID@N for version N of it. Where
    a file has that name, it is the file.

    The answer is printed on standard output, progress on standard error. A run that was
    interrupted goes on with `callsheet resume`. One that waits for people ends with exit status 4.
    """
    return execute_run(RunArguments(**arguments))


@dataclass(frozen=True, slots=True)
class RunArguments:
    """What the command line says of a run: a field for each option, or group of options."""

    plan: options.NamedPlan
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
    engine: Engine
    otlp: str
    on_in_doubt: str | None
    progress: str
    as_json: bool


def execute_run(arguments: RunArguments) -> int:
    """Check a plan and run it, or tell what it would do; gives the exit status.

    Raises click.UsageError for options that contradict each other, CallsheetError for what cannot be run.
    """
    if arguments.is_dry:
        return _print_dry_run(arguments)
    elsewhere = _validate_options(arguments)
    setup = live_export.with_collector(arguments.setup, arguments.otlp)
    target = setup.settings.otel.target()
    job = _make_job(arguments, setup, elsewhere)
    hint, otel = journals.journal_hint(arguments.recording.journal), setup.settings.otel
    place = None if job.journal is None else job.journal.path
    with live_export.export_while_running(otel, target, place, job.run_id, hint, quiet=arguments.as_json):
        return execute_job(job, hint=hint, as_json=arguments.as_json)


def _print_dry_run(arguments: RunArguments) -> int:
    """Tell what the plan would do; secret inputs are not read, masks stand in their place."""
    start, recording = arguments.start, arguments.recording
    if start.state is not None:
        raise click.UsageError("a dry run begins at the beginning: leave --state out")
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
    """Where the run is given to, if elsewhere; raises click.UsageError for options that contradict."""
    recording, start = arguments.recording, arguments.start
    if arguments.assumptions.is_given:
        raise click.UsageError("--assume, --price and --ask-servers belong to a dry run: add --dry-run")
    if recording.no_journal and start.waits:
        raise click.UsageError("--no-journal has no inbox: nobody could answer while the run waits")
    if recording.no_journal and (recording.journal is not None or start.run_id is not None):
        raise click.UsageError("--no-journal records nothing: leave --journal and --run-id out")
    if recording.no_journal and arguments.otlp:
        raise click.UsageError("--otlp reads the journal: leave --no-journal out")
    if recording.no_journal and start.state is not None:
        raise click.UsageError("--state takes a run over into the journal: leave --no-journal out")
    elsewhere = arguments.engine.settings(arguments.setup.settings)
    if elsewhere is not None and start.state is not None:
        raise click.UsageError("--state and --engine temporal contradict each other: leave one out")
    if elsewhere is not None and recording.no_journal:
        raise click.UsageError("--no-journal and --engine temporal contradict each other: leave one out")
    return elsewhere


def _make_job(arguments: RunArguments, setup: Setup, elsewhere: TemporalSettings | None) -> Job:
    """The job that the command line asks for; of a run `elsewhere` secrets are told by their names."""
    from callsheet.apps.cli.secret_inputs import read_secrets  # noqa: PLC0415 - not for --help
    from callsheet.apps.models import with_fetched  # noqa: PLC0415 - as above
    from callsheet.apps.operations.checking import require_plan  # noqa: PLC0415 - as above

    start, settings = arguments.start, setup.settings
    inputs = parse_variables(arguments.variables)
    references = _named(arguments.secrets) if elsewhere is not None else {}
    secret_values = read_secrets(() if references else arguments.secrets, inputs)
    secret_values |= {name: secret.text for name, secret in references.items()}
    inputs |= secret_values
    shapes = None if arguments.no_secret_patterns else settings.secrets.shapes
    text = arguments.plan.read(inputs)
    done = None
    if start.state is not None:
        from callsheet.apps.cli.state_file import read_state  # noqa: PLC0415 - only where there is one

        done, recorded = read_state(start.state, text.require())
        inputs = recorded | inputs
    inputs = bound(text, inputs, arguments.variables)
    return Job(
        text=text,
        plan=require_plan(text, setup, inputs),
        inputs=inputs,
        setup=with_fetched(setup, to_stderr, text.require()),
        limits=arguments.limits,
        run_id=_run_id(start.run_id),
        journal=arguments.recording.open(shapes),
        progress=choose_progress(ProgressMode(arguments.progress), text.require(), as_json=arguments.as_json),
        quiet=arguments.as_json,
        approve=canonical_names((*settings.approve, *start.approve)),
        approval_timeout={**settings.approval_timeouts(), **_timeouts(start.approval_timeout)},
        waits=start.waits,
        accepts_changed_tools=start.accepts_changed_tools,
        on_in_doubt=arguments.on_in_doubt or settings.on_in_doubt,
        policy=options.resolve_policy(start.policy, setup, start.approved),
        approved=start.approved,
        secrets=secret_values,
        masker=_make_masker(shapes, secret_values, shows_all=arguments.shows_secrets),
        engine=elsewhere,
        detaches=arguments.engine.detaches,
        completed_steps=done,
        worker_secrets={reference.text: reference.variable for reference in references.values()},
    )


def _named(secrets: tuple[str, ...]) -> dict[str, SecretReference]:
    from callsheet.apps.cli.engines.temporal_runs import secret_references  # noqa: PLC0415 - only for runs elsewhere

    return secret_references(secrets)


def _make_masker(shapes: Shapes | None, secret_values: dict[str, str], *, shows_all: bool) -> Masker:
    """What is shown of the run, without these secrets."""
    from callsheet.apps.masking import Masker  # noqa: PLC0415 - brings the runtime
    from callsheet.sealing.known import Known  # noqa: PLC0415 - as above
    from callsheet.sealing.sealer import DECLARED  # noqa: PLC0415 - as above

    masker = Masker(shapes, shows_all=shows_all)
    masker.know(Known.of(secret_values.values(), DECLARED))
    return masker


def _timeouts(texts: tuple[str, ...]) -> dict[str, float]:
    from callsheet.machine.approvals import approval_timeouts  # noqa: PLC0415 - as above

    by_tool = {tool: time for tool, _, time in (each.rpartition("=") for each in texts)}
    try:
        return approval_timeouts(by_tool)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--approval-timeout'") from None


def _run_id(option: str | None) -> str:
    from callsheet.store.ids import check_run_id, new_run_id  # noqa: PLC0415 - not for a wrong plan

    return new_run_id() if option is None else check_run_id(option)
