"""Starts a run within a tool call and waits for it, until it ends or has a question for the person.

In: an operation that starts a run, the request of a client. Out: the result of the call; progress
notifications before it. Effects outside need consent: from the person at the client if it can ask one, else
by the argument `effects`. A call that is cancelled, or whose client disconnects, interrupts its run, which
can be resumed from the journal.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from mcp_types import ElicitResult, InputRequiredResult, ResourceLink

from callsheet.api.run_branches import UndoNeedsConsent, undo_lines
from callsheet.apps.hosting import ResumeOptions
from callsheet.apps.hosting.service import Listeners
from callsheet.apps.masking import Masker
from callsheet.apps.mcp.elicitation import open_forms, record_answers
from callsheet.apps.mcp.server_context import ClientRequest, Form, ServerContext
from callsheet.apps.mcp.tasks import PATIENCE, RunTask, task_of
from callsheet.apps.operations.outcomes import outcome_json
from callsheet.apps.rendering.runs import doubt_lines, failures_line, unanswered_lines
from callsheet.apps.rendering.values import without_controls
from callsheet.apps.table.answers import pending_lines, running_data
from callsheet.apps.table.arguments import WaitArguments
from callsheet.apps.table.extent import Extent, extent_lines
from callsheet.apps.table.operation import Context, Operation, Reply, with_diagnostics
from callsheet.apps.table.starts import Recorded, plan_in
from callsheet.diagnostics import Diagnostic, to_json
from callsheet.ir import Order, Plan
from callsheet.machine import Status
from callsheet.machine.notes import Note, NoteKind, StepOutcome
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.forking import Forking, NeedsConsent
from callsheet.runtime.undo import Undoing
from callsheet.views.describe import ActionTexts

Answer: TypeAlias = "Reply | InputRequiredResult | RunTask"
_log = logging.getLogger("callsheet.mcp")
_ASKED = "effects"
"""The name of the question for consent to effects."""
_MOST_EFFECTS = 20
_MOST_WAITING = 1_000
"""The maximum number of queued notifications; further ones are dropped for a slow client."""


class Progress:
    """Counts the finished steps of a run and reports them to the client.

    `note` never blocks the run. The first `reported` steps, which an earlier call has reported, are skipped.
    """

    def __init__(self, plan: Plan | None = None, reported: int = 0) -> None:
        self._plan, self._actions = plan, ActionTexts(plan)
        self._ended, self._reported = 0, reported
        self._updates: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()

    def note(self, note: Note) -> None:
        """Queue a notification for a finished step; a resumed run repeats the notes from its start."""
        is_graph = self._plan is not None and self._plan.order is Order.DAG
        if note.kind is NoteKind.REPLANNED and not is_graph:
            self._actions.forget()
        outcome = note.outcome
        if outcome is None or not note.step:
            return
        word = "done" if outcome is StepOutcome.OK else outcome
        self._ended += 1
        if self._ended > self._reported and self._updates.qsize() < _MOST_WAITING:
            self._reported = self._ended
            action = self._actions.of(note.step)
            self._updates.put_nowait((self._ended, f"{note.step} {word}: {action}".removesuffix(": ")))

    @property
    def reported(self) -> int:
        """The number of steps that were reported to the client."""
        return self._reported

    def restart(self) -> None:
        """Reset the count, because a resumed run repeats its notes."""
        self._ended, self._actions = 0, ActionTexts(self._plan)

    def set_plan(self, plan: Plan) -> None:
        """Report the steps of another plan from now on."""
        self._plan, self._actions = plan, ActionTexts(plan)

    @asynccontextmanager
    async def reporting(self, caller: ClientRequest) -> AsyncGenerator[None]:
        """Send notifications during the block; queued ones are sent before it ends."""
        task = asyncio.create_task(self._report_all(caller))
        try:
            yield
            self._updates.put_nowait(None)
            await task
        finally:
            task.cancel()

    async def _report_all(self, caller: ClientRequest) -> None:
        total = 0 if self._plan is None else len(self._plan.steps)
        while (update := await self._updates.get()) is not None:
            ended, message = update
            try:
                await caller.report_progress(ended, total if ended <= total else None, message)
            except Exception as error:  # notifications are best effort
                _log.debug("the client cannot be notified of progress: %s", error)


# ---------------------------------------------------------------- starting


@dataclass(frozen=True, slots=True)
class ToolRun:
    """The run of a tool call, with the request, the progress reports, and diagnostics for the result."""

    context: Context
    caller: ClientRequest
    run_id: str
    progress: Progress
    extent: Extent
    diagnostics: tuple[Diagnostic, ...] = ()


async def start_and_wait(
    server_context: ServerContext,
    caller: ClientRequest,
    operation: Operation[Any, Recorded],
    args: WaitArguments,
) -> Answer:
    """Start a run, with consent if needed, and wait for it if the call waits.

    The consent is to the calls that the form shows: if others lie ahead by then, the call is refused.
    """
    extent, progress = Extent.of(args.show_variables), Progress()
    context = server_context.context(
        caller.client_name,
        runs=progress.set_plan,
        listeners=Listeners(progress.note if args.wait else None),
    )
    if caller.state is not None:
        state = json.loads(caller.state)
        if _ASKED not in state:
            return await continue_run(context, caller, extent)
        if _has_consent(caller.answers.get(_ASKED)):
            args = args.model_copy(update={"consent": str(state[_ASKED])})
    try:
        started = await operation.work(context, args)
    except (NeedsConsent, UndoNeedsConsent) as needed:
        if caller.state is not None or not caller.supports_forms:
            raise
        if isinstance(needed, UndoNeedsConsent):
            form, consent = _undo_form(needed.undoing, context.host.masker), needed.consent
        else:
            form, consent = _consent_form(needed.forking, context.host.masker), needed.forking.consent
        if caller.has_input_required:
            requests: dict[str, Any] = {_ASKED: form.request()}
            return InputRequiredResult(input_requests=requests, request_state=json.dumps({_ASKED: consent}))
        if not _has_consent(await caller.elicit(form)):
            raise
        started = await operation.work(context, args.model_copy(update={"consent": consent}))
    progress.set_plan(plan_in(context.host.journal, started.run_id))
    run = ToolRun(context, caller, started.run_id, progress, extent, started.diagnostics)
    if args.wait and caller.supports_tasks and not await _stops_soon(run):
        return await context.host.beside(lambda: task_of(server_context, run.run_id))
    return await _wait_for_run(run) if args.wait else _started_reply(run)


async def _stops_soon(run: ToolRun) -> bool:
    """Whether a run stops before it becomes a task; its progress is reported until then."""
    async with run.progress.reporting(run.caller):
        try:
            return await run.context.host.wait(run.run_id, PATIENCE)
        except asyncio.CancelledError:
            hosted = run.context.host.hosted(run.run_id)
            if hosted is not None:
                with anyio.CancelScope(shield=True):
                    await hosted.interrupt()
            raise


def reply_of_run(context: Context, caller: ClientRequest, run_id: str, outcome: RunOutcome) -> Reply:
    """The reply that a call would have had whose run has stopped."""
    run = ToolRun(context, caller, run_id, Progress(), Extent())
    return _reply(run, outcome)


def _has_consent(result: ElicitResult | None) -> bool:
    return result is not None and result.action == "accept" and (result.content or {}).get("agree") is True


def _consent_form(forking_plan: Forking, masker: Masker) -> Form:
    parent, at = forking_plan.parent.run_id, forking_plan.at
    lines = [f"A new run from {parent}, up to event {at}, may change something outside:"]
    if forking_plan.kept:
        lines = [f"A new run keeps calls of {parent}:", *forking_plan.kept]
        lines.append("It may change something outside:")
    for effect in forking_plan.effects[:_MOST_EFFECTS]:
        lines += [f"  {effect.title}", *(f"      {line}" for line in effect.lines())]
    remaining = len(forking_plan.effects) - _MOST_EFFECTS
    lines += [f"  and {remaining} more steps"] if remaining > 0 else []
    return _form(lines, masker)


def _undo_form(undoing: Undoing, masker: Masker) -> Form:
    masker.add_secrets(undoing.known)
    return _form(undo_lines(undoing), masker)


def _form(lines: list[str], masker: Masker) -> Form:
    """A form that asks to allow what these lines say."""
    field = {"type": "boolean", "title": "Allow it"}
    schema = {"type": "object", "properties": {"agree": field}, "required": ["agree"]}
    return Form("\n".join(map(masker.value, lines)), schema)


# ---------------------------------------------------------------- waiting


async def continue_run(context: Context, caller: ClientRequest, extent: Extent) -> Answer:
    """Continue the run of an earlier result of this call, with the answers of the person."""
    state = json.loads(caller.state or "{}")
    run_id = str(state["run_id"])
    has_recorded, diagnostics = await record_answers(context.host, run_id, caller.answers, caller.client_name)
    run = ToolRun(
        context,
        caller,
        run_id,
        Progress(plan_in(context.host.journal, run_id), int(state["told"])),
        extent,
        diagnostics,
    )
    if has_recorded:
        await _resume_if_stopped(run)
        return await _wait_for_run(run)
    return _reply(run, await context.host.outcome(run_id))


async def _wait_for_run(run: ToolRun) -> Answer:
    """Wait for a run and pass its questions to the person at the client, as long as they answer."""
    async with run.progress.reporting(run.caller):
        while True:
            outcome = await _wait_until_stopped(run)
            is_asking = outcome.result is None and outcome.pause is None and run.caller.supports_forms
            forms = await open_forms(run.context.host, outcome) if is_asking else {}
            if not forms:
                return _reply(run, outcome)
            if run.caller.has_input_required:
                requests = {name: form.request() for name, form in forms.items()}
                state = json.dumps({"run_id": run.run_id, "told": run.progress.reported})
                return InputRequiredResult(input_requests=dict(requests), request_state=state)
            results = {name: await run.caller.elicit(form) for name, form in forms.items()}
            has_recorded, diagnostics = await record_answers(
                run.context.host, run.run_id, results, run.caller.client_name
            )
            if not has_recorded:
                return _reply(run, await run.context.host.outcome(run.run_id), diagnostics)
            await _resume_if_stopped(run)


async def _resume_if_stopped(run: ToolRun) -> None:
    """Resume a run, unless it is running."""
    host = run.context.host
    if host.hosted(run.run_id) is None:
        run.progress.restart()
        options = ResumeOptions(as_recorded=True, listeners=Listeners(run.progress.note))
        await host.resume(run.run_id, options)


async def _wait_until_stopped(run: ToolRun) -> RunOutcome:
    """Wait until the run has stopped; cancelling the wait interrupts the run."""
    host = run.context.host
    try:
        await host.wait(run.run_id)
    except asyncio.CancelledError:
        hosted = host.hosted(run.run_id)
        if hosted is not None:
            with anyio.CancelScope(shield=True):
                await hosted.interrupt()
        raise
    return await host.outcome(run.run_id)


# ---------------------------------------------------------------- replies


def run_links(run_id: str) -> tuple[ResourceLink, ...]:
    """The links to the resources of a run."""
    return (
        ResourceLink(
            uri=f"callsheet://runs/{run_id}/report",
            name=f"run {run_id}",
            description="the run as one HTML page",
            mime_type="text/html",
        ),
    )


def _started_reply(run: ToolRun) -> Reply:
    """The reply of a call that does not wait for its run."""
    data = running_data(run.context, run.run_id)
    data["diagnostics"] = to_json(run.diagnostics)
    text = f"run {run.run_id} is running; explain_run shows its state, cancel_run cancels it"
    return Reply(with_diagnostics(text, run.diagnostics, None), data, run_id=run.run_id)


def _reply(run: ToolRun, outcome: RunOutcome, further: tuple[Diagnostic, ...] = ()) -> Reply:
    """The reply with the state of a run; an error if its plan has failed."""
    diagnostics = (*run.diagnostics, *further)
    whole = outcome_json(outcome, run.context.journal_path, to_json(diagnostics))
    data = run.extent.limited(whole)
    lines = [
        *_result_lines(run, outcome, data["response"]),
        *extent_lines(run.extent, whole, data, run.run_id),
    ]
    text = "\n".join(map(without_controls, lines))
    has_failed = outcome.result is not None and outcome.result.status is not Status.DONE
    return Reply(with_diagnostics(text, diagnostics, None), data, has_failed, run.run_id)


def _result_lines(run: ToolRun, outcome: RunOutcome, response: str | None) -> Iterator[str]:
    result, hint = outcome.result, run.context.hint
    if result is None:
        yield from _pending_lines(run, outcome)
        return
    if response:
        yield response
    if result.status is Status.DONE:
        if result.failed_steps:
            yield failures_line(result.failed_steps)
        yield f"run {run.run_id}: {result.outcome.words}, used {outcome.usage.describe()}"
        return
    where = f" at {result.ended_at}" if result.ended_at else ""
    why = f": {result.error}" if result.error and result.error != result.response else ""
    yield f"run {run.run_id}: {result.status}{where}{why}"
    if result.objection is not None and result.objection.help is not None:
        yield f"help: {result.objection.help}"
    yield f"explain_run shows what happened; on the command line: callsheet show {run.run_id}{hint}"


def _pending_lines(run: ToolRun, outcome: RunOutcome) -> Iterator[str]:
    hint = run.context.hint
    if outcome.pause is not None:
        yield f"run {run.run_id} is {outcome.pause.words}"
    if outcome.waiting:
        yield f"run {run.run_id} waits for a person:"
        yield from pending_lines(outcome, hint)
    if outcome.in_doubt:
        yield f"run {run.run_id} has calls in doubt:"
        yield from doubt_lines(outcome.in_doubt, run.run_id, hint)
    if outcome.unanswered:
        yield from unanswered_lines(outcome.unanswered, run.run_id, hint)
    if not (outcome.pause or outcome.waiting or outcome.in_doubt or outcome.unanswered):
        yield f"run {run.run_id} was interrupted"
    answer = "answer_run records answers; then " if run.context.clients_may_answer else ""
    yield f"{answer}resume_run continues it"
