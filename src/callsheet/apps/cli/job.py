"""Starts a run from the command line: checks its plan against the tools, verifies it, and launches it.

Input: a job with all arguments of the command line. Output: an exit status; the outcome is printed. The setup
of the tools is recorded with the run, so that `resume` needs no options.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, to_stderr
from callsheet.apps.cli.progress import Progress
from callsheet.apps.operations.library import other_tools
from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import CallsheetError, Diagnostic, to_json
from callsheet.ir import Order, Plan

if TYPE_CHECKING:
    from callsheet.apps.masking import Masker
    from callsheet.apps.models import RunModels
    from callsheet.apps.setup import Setup
    from callsheet.apps.toolbox import Toolbox
    from callsheet.machine.limits import Limits
    from callsheet.policy.model import Policy
    from callsheet.runtime.asking import Respondents
    from callsheet.runtime.doubt import RunOutcome
    from callsheet.runtime.engines.temporal.settings import TemporalSettings
    from callsheet.runtime.gateway import Ports
    from callsheet.runtime.launch import Launch, Watch
    from callsheet.sealing.known import Known
    from callsheet.store.journal import Journal


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
    approved: tuple[str, ...]
    secrets: dict[str, str]
    """The secret inputs, which are also in `inputs`."""
    masker: Masker
    engine: TemporalSettings | None
    """The engine that executes the run; None for this process."""
    detaches: bool
    completed_steps: Mapping[str, Any] | None
    """The results of steps that were completed by another program; None for a run from the start."""
    worker_secrets: Mapping[str, str]
    """Environment variables of remote workers, by the placeholders of their values."""


def execute_job(job: Job, *, hint: str, as_json: bool, is_strict: bool) -> Exit:
    """Check the plan against the tools, run it, and print the outcome. Returns the exit status."""
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as all below
    from callsheet.apps.cli.outcome import report, with_recovery_help  # noqa: PLC0415
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
    from callsheet.apps.cli.outcome import question_printer  # noqa: PLC0415 - as above
    from callsheet.apps.models import models_for_plan  # noqa: PLC0415
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415
    from callsheet.runtime.asking import Respondents  # noqa: PLC0415
    from callsheet.runtime.doubt import RunOutcome  # noqa: PLC0415
    from callsheet.runtime.launch import Watch  # noqa: PLC0415
    from callsheet.runtime.runs import run_unrecorded, start_run  # noqa: PLC0415
    from callsheet.store.label_transfer import noted_before  # noqa: PLC0415

    prints_questions = job.waits and not job.quiet
    respondents = Respondents(question_printer(job.masker, hint) if prints_questions else None, job.waits)
    models = models_for_plan(job.setup, job.plan, job.limits)
    plan = None if models.may_call_any_tool(job.plan) else job.plan
    async with open_toolbox(job.setup, plan, models.agents) as toolbox:
        job.masker.add_secrets(toolbox.known)
        diagnostics = _check(job, toolbox, models)
        compiler = models.compiler(toolbox.registry, job.on_in_doubt)
        policy = _prove(job, toolbox)
        launch = _launch(job, toolbox, models, policy)
        listener = job.masker.masked_listener(job.progress.listener)
        ports = toolbox.ports(models.model, compiler, models.turns(toolbox.registry), listener)
        watch = Watch(observer=job.masker.masked_observer(job.progress.note))
        if job.engine is not None:
            _check_for_temporal(job)
        journal = job.recording.open()
        if job.completed_steps is None:
            job.progress.begin()
        outcome: RunOutcome | None
        if job.engine is not None and journal is not None:
            from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - as above

            outcome = await temporal_runs.run_on_temporal(
                job.plan,
                launch,
                journal,
                job.run_id,
                job.engine,
                waits=job.waits,
                secrets=job.worker_secrets,
                observer=None if job.detaches else watch.observer,
            )
        elif journal is None:
            noted = () if policy is None else noted_before(job.recording.place)
            result = await run_unrecorded(job.plan, ports, launch, watch, job.run_id, noted=noted)
            outcome = RunOutcome(job.run_id, result, usage=result.usage)
        elif job.completed_steps is not None:
            outcome = await _resume_adopted(
                job, journal, job.completed_steps, launch, ports, toolbox.known, watch, respondents
            )
        else:
            outcome = await start_run(job.plan, ports, launch, journal, job.run_id, watch, respondents)
        job.progress.end()
    return outcome, diagnostics


def _check_for_temporal(job: Job) -> None:
    """Raise CallsheetError (TMP008) for a condition that the driver on Temporal cannot evaluate."""
    from callsheet.apps.cli.engines.temporal_runs import check_secret_conditions  # noqa: PLC0415 - as above

    check_secret_conditions(job.plan, job.secrets)


async def _resume_adopted(
    job: Job,
    journal: Journal,
    done: Mapping[str, Any],
    launch: Launch,
    ports: Ports,
    known: Known,
    watch: Watch,
    respondents: Respondents,
) -> RunOutcome:
    """Record the run with the completed steps of another program, and continue it."""
    from callsheet.runtime.adopting import adopt_run  # noqa: PLC0415 - as above
    from callsheet.runtime.runs import resume_run  # noqa: PLC0415

    adopt_run(job.plan, known, launch, journal, job.run_id, done, ports.workspace)
    watch = replace(watch, hears_all=False, on_driver=job.progress.begin)
    return await resume_run(
        journal,
        job.run_id,
        lambda start, plan: nullcontext(ports),
        watch=watch,
        present=respondents,
    )


def _check(job: Job, toolbox: Toolbox, models: RunModels) -> tuple[Diagnostic, ...]:
    """Raise CallsheetError for a plan with errors; otherwise print the remarks and the opened servers."""
    from callsheet.api.agents import wrong_tools  # noqa: PLC0415 - as above
    from callsheet.api.checking import check_plan, idle_inputs, idle_rules  # noqa: PLC0415 - as above
    from callsheet.apps.cli.secret_inputs import short_secret_warnings  # noqa: PLC0415 - as above
    from callsheet.machine.approvals import approval_rules  # noqa: PLC0415 - as above

    configured = set(approval_rules(job.setup.settings.approve))
    diagnostics = (
        *toolbox.diagnostics,
        *check_plan(
            job.plan, toolbox.registry, job.inputs, not_asked=toolbox.not_asked, providers=models.providers
        ),
        *wrong_tools(job.plan, toolbox.registry, models.agents),
        *other_tools(job.text, toolbox.registry, is_accepted=job.accepts_changed_tools),
        *idle_inputs(job.plan, job.inputs),
        *idle_rules(job.plan, set(job.approve) - configured, _tools_with_limits(job)),
        *short_secret_warnings(job.secrets),
    )
    if any(d.is_error for d in diagnostics):
        raise CallsheetError(diagnostics, job.text.source)
    remarks = (*job.text.diagnostics, *diagnostics)
    if not job.quiet:
        print_diagnostics(job.masker.diagnostics(remarks), job.text.source)
        if toolbox.servers:
            names = ", ".join(server.name for server in toolbox.servers)
            to_stderr(f"MCP servers: {names} (from {', '.join(map(str, toolbox.configs))})")
    return remarks


def _tools_with_limits(job: Job) -> list[str]:
    """The tools that options of this command limit; limits of the configuration may be for other plans."""
    limits, configured = job.limits, job.setup.settings.limits
    limited = {**limits.max_calls_by_tool, **limits.max_concurrency_by_tool}
    return sorted(
        limited.keys() - configured.max_calls_by_tool.keys() - configured.max_concurrency_by_tool.keys()
    )


def _prove(job: Job, toolbox: Toolbox) -> Policy | None:
    """The policy bound to the available tools, after the plan was verified. Raises PolicyRefused."""
    if job.policy is None:
        return None
    from callsheet.api.proving import Assumptions, prove  # noqa: PLC0415 - only under a policy
    from callsheet.apps.guarantees import guarantees_of  # noqa: PLC0415 - as above

    options.check_approved(job.plan, job.approved)
    from callsheet.runtime.remaining import left_before  # noqa: PLC0415 - as above
    from callsheet.store.start import secret_labels  # noqa: PLC0415 - as above

    assumed = Assumptions(
        inputs=job.inputs,
        labels=secret_labels(job.policy, job.secrets),
        approved=job.approved,
        can_ask=job.recording.records,
        left=left_before(job.recording.place, job.setup.folder),
    )
    proof = prove(job.plan, job.policy, toolbox.registry, assumed)
    proof = proof.under(guarantees_of(job.setup, toolbox.registry, keeps_labels=job.recording.records))
    proof.raise_if_refused(job.text.source)
    if not job.quiet:
        print_diagnostics(proof.diagnostics, job.text.source)
    return proof.policy


def _launch(job: Job, toolbox: Toolbox, models: RunModels, policy: Policy | None) -> Launch:
    from callsheet.api.requirements import facts_of, pins_of, servers_of  # noqa: PLC0415 - as above
    from callsheet.apps.toolbox import setup_of_run  # noqa: PLC0415
    from callsheet.ir import OnInDoubt, plan_hash  # noqa: PLC0415
    from callsheet.runtime.launch import Launch  # noqa: PLC0415

    opened = toolbox.servers
    servers = servers_of(job.plan, toolbox.registry, opened, models.agents, policy) if opened else {}
    return Launch(
        facts=facts_of(job.plan, toolbox.registry, OnInDoubt(job.on_in_doubt), models.agents),
        pins=pins_of(job.plan, toolbox.registry, models.agents),
        inputs=job.inputs,
        limits=job.limits,
        source=job.text.source.text,
        approve=job.approve,
        approval_timeout=job.approval_timeout,
        note={
            "plan": job.text.source.name,
            "setup": setup_of_run(job.setup, toolbox).to_note(),
            **_file_of(job.text),
            **({"servers": servers} if servers else {}),
        },
        policy=policy,
        verified="" if policy is None else plan_hash(job.plan),
        secret=frozenset(job.secrets),
    )


def _file_of(text: PlanText) -> dict[str, Any]:
    """The note about the plan's file; empty for standard input and for a plan of the library."""
    from callsheet.api.texts import file_note  # noqa: PLC0415 - as above

    if text.path is None or text.stored is not None:
        return {}
    return {"file": file_note(text.path, text.source.text, None if text.is_json else text.syntax)}
