"""Starts a run from the command line: checks its plan against the tools, verifies it, and launches it.

Input: a job with all arguments of the command line. Output: an exit status; the outcome is printed. The setup
of the tools is recorded with the run, so that `resume` needs no options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from callsheet.apps.cli import journals
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import print_diagnostics, to_stderr
from callsheet.apps.cli.progress import Progress
from callsheet.apps.operations.library import other_tools
from callsheet.apps.operations.reading import PlanText
from callsheet.diagnostics import CallsheetError, Diagnostic, to_json
from callsheet.ir import Order, Plan

if TYPE_CHECKING:
    from callsheet.api.admission import Request
    from callsheet.apps.masking import Masker
    from callsheet.apps.setup import Setup
    from callsheet.machine.limits import Limits
    from callsheet.policy.model import Policy
    from callsheet.ports.tools import Registry
    from callsheet.runtime.doubt import RunOutcome
    from callsheet.runtime.engines.temporal.settings import TemporalSettings


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
    from callsheet.api.admission import prepare  # noqa: PLC0415 - as above
    from callsheet.api.run_service import run_prepared  # noqa: PLC0415
    from callsheet.apps.cli.outcome import question_printer  # noqa: PLC0415
    from callsheet.apps.equipment import equip, needs_of  # noqa: PLC0415
    from callsheet.apps.toolbox import open_toolbox  # noqa: PLC0415
    from callsheet.runtime.asking import Respondents  # noqa: PLC0415
    from callsheet.runtime.launch import Watch  # noqa: PLC0415

    prints_questions = job.waits and not job.quiet
    respondents = Respondents(question_printer(job.masker, hint) if prints_questions else None, job.waits)
    needs, place = needs_of(job.setup, job.plan, job.limits, to_stderr), job.recording.place
    async with open_toolbox(needs.setup, needs.plan, needs.agents) as toolbox:
        job.masker.add_secrets(toolbox.known)
        equipment, ports, setup = equip(
            needs,
            toolbox,
            place,
            on_in_doubt=job.on_in_doubt,
            keeps_labels=job.recording.records,
            listener=job.masker.masked_listener(job.progress.listener),
        )

        def tell(diagnostics: tuple[Diagnostic, ...]) -> None:
            if not job.quiet:
                print_diagnostics(job.masker.diagnostics(diagnostics), job.text.source)

        prepared = prepare(_request(job, setup, equipment.registry), equipment, tell=tell)
        if toolbox.servers and not job.quiet:
            names = ", ".join(server.name for server in toolbox.servers)
            to_stderr(f"MCP servers: {names} (from {', '.join(map(str, toolbox.configs))})")
        watch = Watch(observer=job.masker.masked_observer(job.progress.note))
        if job.engine is not None:
            _check_for_temporal(job)
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
                observer=None if job.detaches else watch.observer,
            )
        else:
            outcome = await run_prepared(
                prepared, ports, journal, job.run_id, watch, respondents, labels=place
            )
        job.progress.end()
    return outcome, prepared.diagnostics


def _check_for_temporal(job: Job) -> None:
    """Raise CallsheetError (TMP008) for a condition that the driver on Temporal cannot evaluate."""
    from callsheet.apps.cli.engines.temporal_runs import check_secret_conditions  # noqa: PLC0415 - as above

    check_secret_conditions(job.plan, job.secrets)


def _request(job: Job, setup: Setup, registry: Registry) -> Request:
    """The request to the run service, with the setup that opens the same tools again."""
    from callsheet.api.admission import Request, own_limits, own_rules  # noqa: PLC0415 - as above
    from callsheet.machine.approvals import approval_rules  # noqa: PLC0415

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
        own_approve=own_rules(job.approve, approval_rules(settings.approve)),
        own_limits=own_limits(job.limits, settings.limits),
        approved=job.approved,
        can_ask=job.recording.records,
        note={"plan": text.source.name, "setup": setup.to_note(), **_file_of(text)},
        done=job.completed_steps,
    )


def _file_of(text: PlanText) -> dict[str, Any]:
    """The note about the plan's file; empty for standard input and for a plan of the library."""
    from callsheet.api.plan_changes import file_note  # noqa: PLC0415 - as above

    if text.path is None or text.stored is not None:
        return {}
    return {"file": file_note(text.path, text.source.text, None if text.is_json else text.syntax)}
