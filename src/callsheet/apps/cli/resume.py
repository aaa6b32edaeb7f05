"""`callsheet resume`: continues a run where its journal ends, with the tools it was started with."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from callsheet.apps.cli import journals, live_export, options, run_options
from callsheet.apps.cli.debugging.faces import NOWHERE, Stops, debugger_of_recorded, face_of, stops
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import DECISIONS, ProgressMode
from callsheet.apps.cli.output import print_diagnostics, to_stderr
from callsheet.apps.cli.progress import choose_progress
from callsheet.apps.rendering.values import without_controls
from callsheet.diagnostics import CallsheetError
from callsheet.ir import Order
from callsheet.machine.limits import SEQUENTIAL

if TYPE_CHECKING:
    from callsheet.apps.cli.debugging.model import Debugger, Face
    from callsheet.apps.cli.progress import Progress
    from callsheet.apps.masking import Masker
    from callsheet.apps.setup import Setup
    from callsheet.diagnostics import Diagnostic
    from callsheet.ir import JSON, Plan
    from callsheet.machine import Limits
    from callsheet.policy.model import Policy
    from callsheet.runtime.doubt import Resolution, RunOutcome
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.runtime.telemetry.target import OtelSettings
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.store.start import Start

_PATH = click.Path(path_type=Path)
NO_STOPS = "without them the run goes on by itself"
_MISSING = {"CFG100": "--tools FILE.py", "CFG110": "--mcp-config FILE"}


@dataclass(frozen=True, slots=True)
class Moved:
    """The places of a run's tools that differ from those of its start; empty where they are the same."""

    tools_files: tuple[Path, ...]
    mcp_configs: tuple[Path, ...]
    workspace: Path | None

    @property
    def is_any(self) -> bool:
        """Whether a place was named."""
        return bool(self.tools_files or self.mcp_configs or self.workspace is not None)

    def to_note(self) -> dict[str, JSON]:
        """The named places as absolute paths, as a run's journal records them."""
        return {
            **({"tools": [os.path.abspath(path) for path in self.tools_files]} if self.tools_files else {}),
            **({"mcp_configs": [os.path.abspath(p) for p in self.mcp_configs]} if self.mcp_configs else {}),
            **({} if self.workspace is None else {"workspace": os.path.abspath(self.workspace)}),
        }

    def setup(self, start: Start) -> Setup:
        """The setup of the start, with these places.

        Raises click.UsageError for another workspace of a run under a policy: the labels of its files are
        kept by their paths. Raises CallsheetError (CFG017) for a start without a setup.
        """
        from callsheet.apps.setup import Setup  # noqa: PLC0415 - brings the tools

        if self.workspace is not None and start.policy is not None:
            raise click.UsageError(
                "a run under a policy keeps its workspace, as the labels of its files belong to their paths:"
                " leave --workspace out"
            )
        return Setup.from_note(start.at_places(self.to_note()).launch)


def with_hint(error: CallsheetError) -> CallsheetError:
    """The error, with the option that names the new place of a file of the start that is missing."""
    if not any(d.code in _MISSING for d in error.diagnostics):
        return error
    return CallsheetError(
        [
            replace(d, help=f"if it was moved, name it: {_MISSING[d.code]}") if d.code in _MISSING else d
            for d in error.diagnostics
        ]
    )


moved = options.grouped(
    "moved",
    Moved,
    tools_files=click.option(
        "--tools",
        "tools_files",
        multiple=True,
        type=_PATH,
        metavar="FILE.py",
        help="The Python files of tools, if they were moved; may be repeated. Default: the original ones.",
    ),
    mcp_configs=click.option(
        "--mcp-config",
        "mcp_configs",
        multiple=True,
        type=_PATH,
        metavar="FILE",
        help="The MCP configuration, if it was moved; may be repeated. Default: the original one.",
    ),
    workspace=click.option(
        "--workspace",
        type=_PATH,
        metavar="DIR",
        help="The folder of the file tools, if it was moved. Default: the original one.",
    ),
)
"""The options as one argument `moved`."""


class ResolutionType(click.ParamType[Any]):
    """A decision: `retry`, `skip`, `fail` or `value=JSON`."""

    name = DECISIONS

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Resolution:
        """The decision; fails with a usage error for any other text."""
        from callsheet.machine import Decision, TookPlace  # noqa: PLC0415 - not for --help

        if not isinstance(value, str):
            return value
        word, equals, json_text = value.partition("=")
        if word == "value" and equals:
            return TookPlace(_json(json_text))
        if value not in list(Decision):
            self.fail(f"{value!r} is not a decision; write one of {DECISIONS}", param, ctx)
        return Decision(value)


def _json(json_text: str) -> Any:
    try:
        return json.loads(json_text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise CallsheetError.single(
            "CFG011",
            f"value={json_text[:60]} is not JSON",
            help='quote a text: \'value="paid"\'; other values: null, true, 3, [1, 2], {"id": 7}',
        ) from None


def _refuse(name: str) -> None:
    raise ValueError(name)


@dataclass(frozen=True, slots=True)
class ResumeJob:
    """A run that is about to continue."""

    run_id: str
    journal: Journal
    verdict: Resolution | None
    accepts_changed_tools: bool
    moved: Moved
    progress: Progress
    quiet: bool
    waits: bool
    masker: Masker
    model: str
    limits: Callable[[Limits], Limits]
    policy: Policy | None
    accepts_changed_policy: bool
    engine: TemporalSettings | None
    debugger: Debugger | None
    unpaused_by: str | None
    """Who lets the run go on if it is paused; None leaves it so."""


_OPTIONS: tuple[options.Decorator, ...] = (
    click.option(
        "--in-doubt",
        type=ResolutionType(),
        metavar=DECISIONS,
        help="The decision about all calls in doubt, which may or may not have taken place.",
    ),
    click.option(
        "--accept-changed-tools",
        is_flag=True,
        help="Continue although the declaration of a tool has changed.",
    ),
    click.option(
        "--as-recorded",
        is_flag=True,
        help="Continue with the recorded plan although it was edited since, in its file or the library.",
    ),
    moved,
    click.option(
        "--model",
        default="",
        metavar="MODEL",
        help="Continue with this model; as for `run`. Default: the original one.",
    ),
    click.option(
        "--policy",
        default="",
        metavar="POLICY",
        help="Continue under this policy: strict, workspace, open, or a file; default: the original one.",
    ),
    click.option(
        "--accept-changed-policy",
        is_flag=True,
        help="Continue although --policy differs from the original one, if the remaining plan satisfies it.",
    ),
    live_export.otlp,
    options.waits,
    options.show_secrets,
    journals.journal_path,
    run_options.changes,
    options.strict,
    options.progress,
    options.as_json,
)


def resume_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options of `resume`, which `execute_resume` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--plan",
    "plan_file",
    type=_PATH,
    metavar="FILE",
    help="Go on with this edited plan with blocks, as a new run that keeps the finished calls of RUN.",
)
@click.option("--yes", "assume_yes", is_flag=True, help="With --plan: do not ask about side effects.")
@click.option("--run-id", "new_id", metavar="ID", help="With --plan: the id of the new run.")
@click.option("--leave-paused", is_flag=True, help="Do nothing if the run is paused; for scripts.")
@stops
@resume_options
def resume(
    run: str,
    plan_file: Path | None,
    assume_yes: bool,
    new_id: str | None,
    leave_paused: bool,
    **arguments: Any,
) -> int:
    """Continue RUN where its journal ends, with the tools it was started with.

    RUN is a run id, a unique prefix of one, or `last`. Completed calls are not repeated. A call that was
    pending and may have changed something is in doubt: decide about it with `callsheet decide` or --in-doubt.

    The exit status is 4 if calls remain undecided, or if the run waits for answers of people (`callsheet
    inbox`). A run that was paused (`callsheet pause`) goes on, and the journal says by whom.

    If the plan was edited since, in its file or the library, nothing is done, unless --as-recorded is
    given. With --plan FILE a plan with blocks goes on as it is now: RUN is ended, and a new run keeps each of
    its finished calls that the edited plan makes too, with the same tool and arguments. What is kept, made
    again, new and gone is shown first, and calls with side effects need confirmation.

    Limits are those of the start unless options change them, and earlier usage counts. A different --policy
    is checked against the remaining plan first.

    \b
    Examples:
      callsheet resume last
      callsheet resume last --in-doubt retry --max-time 1h
      callsheet resume last --plan mended.ltp
    """
    if plan_file is not None:
        from callsheet.apps.cli.arguments import actor_name  # noqa: PLC0415 - not for --help
        from callsheet.apps.cli.time_travel import edited_plan, start_branch  # noqa: PLC0415 - as above

        what = edited_plan(plan_file, "", actor_name(), "resume")
        return start_branch(run, what, new_id=new_id, assume_yes=assume_yes, **arguments)
    if assume_yes or new_id is not None:
        raise click.UsageError("--yes and --run-id need --plan")
    return execute_resume(lambda journal: journal.find_run(run), leave_paused=leave_paused, **arguments)


def execute_resume(  # noqa: PLR0913 - an argument for each option
    find: Callable[[Journal], RunInfo],
    *,
    in_doubt: Resolution | None,
    accept_changed_tools: bool,
    as_recorded: bool,
    moved: Moved,
    model: str,
    policy: str,
    accept_changed_policy: bool,
    otlp: str,
    waits: bool,
    shows_secrets: bool,
    journal: Path | None,
    changes: Callable[[Limits], Limits],
    is_strict: bool,
    progress: str,
    as_json: bool,
    stops: Stops = NOWHERE,
    leave_paused: bool = False,
) -> int:
    """Continue the run that `find` returns. Returns the exit status."""
    from callsheet.apps.cli.arguments import actor_name  # noqa: PLC0415 - not for --help
    from callsheet.apps.masking import Masker  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.settings import load_settings  # noqa: PLC0415 - as above

    with journals.open_recorded(journal) as opened:
        info = find(opened)
        plan = opened.plan_of(info.plan_hash)
        from callsheet.api.run_service import ResumeTerms, check_plan_file  # noqa: PLC0415 - as above

        check_plan_file(opened, info.run_id, ResumeTerms(as_recorded=as_recorded))
        terms = checked_terms(
            opened,
            info.run_id,
            accept_changed_tools=accept_changed_tools,
            moved=moved,
            model=model,
            policy=policy,
            accept_changed_policy=accept_changed_policy,
            otlp=otlp,
            stops=stops,
        )
        masker = Masker(load_settings().secrets.shapes, shows_all=shows_secrets)
        masker.hide_inputs(plan)
        debugger = None
        if terms.face is not None and not info.status.is_final:
            debugger = debugger_of_recorded(opened, info, terms.face, masker)
        mode = ProgressMode(progress)
        if debugger is not None and mode in (ProgressMode.AUTO, ProgressMode.LIVE):
            mode = ProgressMode.PLAIN
        job = ResumeJob(
            run_id=info.run_id,
            journal=opened,
            verdict=in_doubt,
            accepts_changed_tools=accept_changed_tools,
            moved=moved,
            progress=choose_progress(mode, plan, as_json=as_json),
            quiet=as_json,
            waits=waits,
            masker=masker,
            model=terms.model,
            limits=changes  # under the debugger no call leaves before its turn
            if debugger is None
            else lambda given: replace(changes(given), schedule=SEQUENTIAL),
            policy=terms.policy,
            accepts_changed_policy=accept_changed_policy,
            engine=terms.engine,
            debugger=debugger,
            unpaused_by=None if leave_paused else actor_name(),
        )
        if job.unpaused_by is not None and not as_json:
            _tell_pause(opened, info)
        _restore(job, info, plan)
        reopens, hint = plan.order is Order.DAG, journals.journal_hint(journal)
        otel = _collector_of(opened, info.run_id, otlp)
        target = otel.target() if otlp else live_export.target_or_warning(otel)
        with live_export.export_while_running(otel, target, opened.path, info.run_id, hint, quiet=as_json):
            status = _execute(job, hint=hint, as_json=as_json, reopens=reopens, is_strict=is_strict)
    if info.status.is_final and not as_json and not (reopens and info.status == "failed"):
        to_stderr(f"run {info.run_id} had already ended: no call was made and nothing was changed")
        if info.status == "failed" or info.has_failures:
            again = f"callsheet rerun {info.run_id} {_from_where(journal, info)}"
            items = "--failed-items: only the items of loops that failed"
            to_stderr(f"run it again, as a new run: {again}{hint} ({items})")
    return status


def _tell_pause(journal: Journal, info: RunInfo) -> None:
    """Say who had paused a run that goes on."""
    from callsheet.store.pauses import pause_of  # noqa: PLC0415 - not for --help

    pause = pause_of(journal, info)
    if pause is not None:
        to_stderr(f"the run was {without_controls(pause.words)}; it goes on")


_MOST_RESTORED = 50_000
"""Events of a longer run are not read again for the display, which then knows only which steps have ended."""


def _restore(job: ResumeJob, info: RunInfo, plan: Plan) -> None:
    """Let the display begin with what the journal knows of a run that goes on."""
    from callsheet.trace.replay import Moment, PlayedNote, play  # noqa: PLC0415 - not for --help

    if info.events > _MOST_RESTORED or info.status.is_final:
        return
    journal, mask = job.journal, job.masker.note

    def moments(take: Callable[[Moment], bool]) -> None:
        def masked(moment: Moment) -> bool:
            return take(moment._replace(notes=tuple(PlayedNote(mask(n.note), n.took) for n in moment.notes)))

        play(plan, journal.events(info.run_id, lenient=True), journal.plan_of, masked)

    job.progress.restore(moments)


def _from_where(journal: Path | None, info: RunInfo) -> str:
    """The option with which `rerun` goes on: the plan as it was edited meanwhile, otherwise a step."""
    from callsheet.api.plan_sources import edited_file  # noqa: PLC0415 - reads plans

    with journals.open_to_read(journal) as opened:
        edited = edited_file(opened, info.run_id)
    return "--from STEP" if edited is None else f"--plan {shlex.quote(edited)}"


def _collector_of(journal: Journal, run_id: str, url: str) -> OtelSettings:
    """The collector of the option, otherwise the one that the run was started with."""
    from callsheet.apps.setup import Setup  # noqa: PLC0415 - imports the tools
    from callsheet.runtime.telemetry.target import OtelSettings, checked_url  # noqa: PLC0415 - as above

    start = next(iter(journal.events(run_id, lenient=True)), None)
    launch = {} if start is None or start.body is None else dict(start.body.get("launch") or {})
    otel = Setup.from_note(launch).settings.otel if "setup" in launch else OtelSettings()
    return replace(otel, url=checked_url(url)) if url else otel


class CheckedTerms(NamedTuple):
    """What the options of a resumption name: the run's engine, another model or policy, a debugger's face."""

    engine: TemporalSettings | None
    model: str
    policy: Policy | None
    face: Face | None


def checked_terms(  # noqa: PLR0913 - an argument for each option
    opened: Journal,
    run_id: str,
    *,
    accept_changed_tools: bool,
    moved: Moved,
    model: str,
    policy: str,
    accept_changed_policy: bool,
    otlp: str,
    stops: Stops,
    **_others: Any,
) -> CheckedTerms:
    """Read what the options name, before anything is changed.

    Raises UsageError for options that do not fit the run or each other, and CallsheetError for a policy that
    cannot be read.
    """
    if accept_changed_policy and not policy:
        raise click.UsageError("--accept-changed-policy needs --policy")
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - as below

    engine = temporal_runs.temporal_settings_of(opened, run_id)
    face = face_of(stops, otherwise=NO_STOPS)
    others = bool(model or policy or otlp or accept_changed_tools or moved.is_any or face is not None)
    if engine is not None and others:
        raise click.UsageError(
            "a run on Temporal keeps the options it was started with: remove --model, --policy, --otlp,"
            " --tools, --mcp-config, --workspace, --accept-changed-tools and where to stop"
        )
    other = None
    if policy:
        from callsheet.api.policies import load_policy  # noqa: PLC0415 - only under another policy

        other = load_policy(policy)
    return CheckedTerms(engine, options.resolve_model(model) if model else "", other, face)


def _execute(job: ResumeJob, *, hint: str, as_json: bool, reopens: bool, is_strict: bool) -> Exit:
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as all below
    from callsheet.apps.cli.outcome import place_in, report, with_recovery_help  # noqa: PLC0415
    from callsheet.store.errors import JournalWriteFailed  # noqa: PLC0415

    def locate(step: str) -> str:
        from callsheet.api.plan_sources import recorded_text  # noqa: PLC0415 - only where a run has failed

        text = recorded_text(job.journal, job.run_id)
        return "" if text.plan is None else place_in(text.plan, text.source, step)

    try:
        with job.masker.masking_output(), job.progress:
            outcome = run_async(_resume(job, hint))
    except KeyboardInterrupt as stop:
        return journals.report_interrupt(stop, job.run_id, hint, on_server=job.engine is not None)
    except JournalWriteFailed as error:
        raise with_recovery_help(error, job.run_id, hint) from error
    except CallsheetError as error:
        raise job.masker.error(with_hint(error)) from None
    outcome = job.masker.outcome(outcome)
    return report(
        outcome,
        job.journal.path,
        as_json=as_json,
        hint=hint,
        reopens=reopens,
        is_strict=is_strict,
        locate=locate,
    )


async def _resume(job: ResumeJob, hint: str) -> RunOutcome:
    if job.engine is not None:
        from callsheet.apps.cli.engines.temporal_runs import resume_on_temporal  # noqa: PLC0415 - as above

        observer = job.masker.masked_observer(job.progress.note)
        job.progress.begin()
        return await resume_on_temporal(
            job.journal, job.run_id, job.engine, job.verdict, job.limits,
            waits=job.waits, observer=observer, unpaused_by=job.unpaused_by,
        )  # fmt: skip
    from callsheet.api.requirements import absent_tools  # noqa: PLC0415 - as above
    from callsheet.api.run_service import Conduct, Opened, ResumeTerms, resume  # noqa: PLC0415 - as above
    from callsheet.apps.cli.outcome import question_printer  # noqa: PLC0415
    from callsheet.apps.equipment import equip, needs_of_recorded  # noqa: PLC0415
    from callsheet.apps.operations.live_calls import BothListeners, LiveCalls, shared  # noqa: PLC0415
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415
    from callsheet.runtime.asking import Respondents  # noqa: PLC0415
    from callsheet.runtime.launch import Watch  # noqa: PLC0415

    shows, calls = job.progress.listener, LiveCalls()

    def hear(diagnostic: Diagnostic) -> None:
        if not job.quiet:
            print_diagnostics(job.masker.diagnostics((diagnostic,)), None)

    @asynccontextmanager
    async def opened(start: Start, plan: Plan, limits: Limits) -> AsyncGenerator[Opened]:
        needs = needs_of_recorded(start, job.moved.setup(start), plan, limits, to_stderr, job.model)
        async with open_toolbox(needs.setup, needs.plan, needs.agents, tell=hear) as toolbox:
            job.masker.add_secrets(toolbox.known)
            if not job.quiet and not absent_tools(plan, toolbox.registry, needs.agents):
                print_diagnostics(toolbox.diagnostics, None)
            listener = job.masker.masked_listener(calls if shows is None else BothListeners(shows, calls))
            equipment, ports, _ = equip(needs, toolbox, job.journal.path, listener=listener)
            yield Opened(equipment, ports)

    watch = Watch(
        observer=job.masker.masked_observer(job.progress.observer),
        hears_all=False,
        on_driver=job.progress.begin,
        on_decided=job.progress.begin,
        on_declared=job.masker.add_secrets,
        pace=job.debugger,
    )
    printer, debugger = question_printer(job.masker, hint), job.debugger
    asks = printer if job.waits and not job.quiet else None
    respondents = Respondents(
        asks if debugger is None else debugger.asked,
        job.waits or debugger is not None,
        shows=None if job.quiet else printer,
    )
    terms = ResumeTerms(
        in_doubt=job.verdict,
        accepts_changed_tools=job.accepts_changed_tools,
        as_recorded=True,  # or checked before the display began
        limits=job.limits,
        policy=job.policy,
        accepts_changed_policy=job.accepts_changed_policy,
        places=job.moved.to_note(),
        unpaused_by=job.unpaused_by,
    )
    tell = None if job.quiet else _print_policy_change
    with shared(calls, job.journal.path, job.run_id):
        return await resume(job.journal, job.run_id, terms, opened, Conduct(watch, respondents, tell=tell))


def _print_policy_change(difference: str) -> None:
    to_stderr(f"the policy changes: {without_controls(difference)}")
