"""Client operations on Temporal runs: start, wait, answer, decide, cancel, pause, resume.

In: an order or a run. Out: the run in the local journal, up to date.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from temporalio.client import WorkflowHandle, WorkflowHistoryEventFilterType
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan
from callsheet.ir.canon import canonical_bytes
from callsheet.machine import Decided, Limits
from callsheet.machine.limits import bounded
from callsheet.machine.machine import Observer
from callsheet.policy.canon import policy_to_json
from callsheet.runtime.answers import Answer, PendingAsk, message_payload
from callsheet.runtime.cancelling import has_ended
from callsheet.runtime.doubt import Resolution, RunOutcome, decided_already, named_doubts
from callsheet.runtime.engines.temporal.call_rules import check_secrets
from callsheet.runtime.engines.temporal.connection import TemporalConnection, refused
from callsheet.runtime.engines.temporal.history import (
    RunHistory,
    Watching,
    first_answer,
    first_decision,
    is_same_decision,
    journaled_outcome,
    machine_of,
    note_happenings,
    note_order,
    run_history,
)
from callsheet.runtime.engines.temporal.run_order import (
    MEMO,
    PAUSED,
    RESTING,
    RUNNING,
    WORKFLOW,
    Reopening,
    RunOrder,
    workflow_id,
)
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.engines.temporal.wire import kept_of
from callsheet.runtime.inbox import answered_already, fitting, not_asked
from callsheet.store import EventType, Journal, RunStatus
from callsheet.store.pauses import RunPause
from callsheet.store.records import event_record
from callsheet.store.replay import start_from
from callsheet.store.start import Start

_PAUSE = 0.25
_LONGEST_PAUSE = 2.0
_LOOKS = 4.0
"""The minimum pause between two fetches of a history, as a multiple of a fetch's duration."""
_LONG = 15.0
"""Seconds after which a run without a worker is reported; longer than the time to detect a lost worker."""
_PATIENCE = 5.0
"""Seconds to wait until a signal is in the history; the server holds it back while a worker acts."""
_ENDED = "ended"
_T = TypeVar("_T")

Handle = WorkflowHandle[Any, Any]


class TemporalRun(NamedTuple):
    """A run on a server, and the journal that has a copy of its events."""

    connection: TemporalConnection
    journal: Journal
    run_id: str

    @property
    def handle(self) -> Handle:
        """The handle of the run's workflow."""
        return self.connection.client.get_workflow_handle(workflow_id(self.run_id))


def order_of(run_id: str, plan: Plan, source: str, start: Start, settings: TemporalSettings) -> RunOrder:
    """The order of a new run with these settings; raises CallsheetError (TMP008) as `check_secrets` does."""
    check_secrets(plan, start, encrypts=settings.encrypt)
    return RunOrder(run_id, plan, source, start, settings.queue, settings.heartbeat)


async def start(connection: TemporalConnection, journal: Journal, order: RunOrder) -> None:
    """Record a run in the journal and start it; does nothing if it was started before.

    One that was branched off another, in the journal, keeps the finished calls of that one. Raises
    JournalError if the journal cannot take it, CallsheetError (TMP004) if the server refuses it.
    """
    note_order(journal, order)
    order, kept = await _with_rules(connection, order), kept_of(journal, order.run_id)
    try:
        await connection.client.start_workflow(
            WORKFLOW,
            args=[order.to_json()] if kept is None else [order.to_json(), None, None, kept],
            id=order.workflow_id,
            task_queue=order.queue,
            task_timeout=timedelta(seconds=order.task_seconds),
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=_summary(order),
        )
    except WorkflowAlreadyStartedError:
        return
    except RPCError as error:
        raise refused(f"run {order.run_id} cannot be started", error) from error


async def _with_rules(connection: TemporalConnection, order: RunOrder) -> RunOrder:
    """The order with the digest of its policy, which is stored for the workers."""
    if order.start.policy is None:
        return order
    data = canonical_bytes(policy_to_json(order.start.policy))
    return order._replace(rules=await connection.claims.store_bytes(data))


async def bring_up_to_date(run: TemporalRun) -> RunOutcome:
    """Update the journal of a run from the server, and return the state of the run.

    Raises CallsheetError: TMP005 for a run that the server does not know, TMP006 for a history that cannot be
    replayed; JournalError.
    """
    await _synchronized(run)
    return journaled_outcome(run.journal, run.run_id)


async def _synchronized(run: TemporalRun) -> RunHistory:
    """Fetch a run's history, update the journal from it, and return it."""
    history, began = await _history_of(run)
    note_order(run.journal, history.order, at=began)
    note_happenings(run.journal, history.order, history.happened)
    return history


async def _history_of(run: TemporalRun) -> tuple[RunHistory, float]:
    """What a run's history contains, and the wall time at which it begins."""
    try:
        history = await run.handle.fetch_history()
    except RPCError as error:
        raise _not_there(run, error) from error
    replayed = await run_history(history, run.connection.client.data_converter, run.connection.claims)
    return replayed, history.events[0].event_time.ToDatetime().timestamp()


async def wait_for(
    run: TemporalRun,
    *,
    waits: bool = False,
    on_idle: Callable[[], Awaitable[None]] | None = None,
    observer: Observer | None = None,
) -> RunOutcome:
    """Wait until a run is paused or has ended or, unless `waits`, only people can continue it; its state.

    `on_idle` is called if no worker has picked the run up for a while. `observer` hears of events, less often
    for longer histories.
    """
    handle, pause, look_at = run.handle, _PAUSE, 0.0
    watching = None if observer is None else Watching(observer)
    closing: asyncio.Task[None] | None = None
    try:
        while True:
            status, unheard = await _status_of(handle)
            if status in (_ENDED, PAUSED) or (status == RESTING and not waits):
                history = await _synchronized(run)
                if watching is not None:
                    watching.notify(history)
                return journaled_outcome(run.journal, run.run_id)
            if unheard is not None and unheard > _LONG and on_idle is not None:
                await on_idle()
            began = time.monotonic()
            if watching is not None and unheard is None and began >= look_at:
                watching.notify((await _history_of(run))[0])
                now = time.monotonic()
                look_at = now + _LOOKS * (now - began)
            if closing is None or closing.done():
                closing = asyncio.create_task(_closed(handle, pause))
            await asyncio.wait((closing,), timeout=pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
    finally:
        if closing is not None:
            closing.cancel()


async def _closed(handle: Handle, pause: float) -> None:
    """Wait until the history closes, or for a moment if the server cannot tell."""
    try:
        async for _ in handle.fetch_history_events(
            wait_new_event=True, event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        ):
            return
    except RPCError:
        await asyncio.sleep(pause)


async def answer(
    run: TemporalRun,
    given_answer: Answer | Callable[[PendingAsk], Answer],
    which: str | None,
    digest: str | None = None,
) -> PendingAsk:
    """Answer a question of a run; returns the question.

    Raises CallsheetError: RUN030 if no such question is open or another answer arrives before this one,
    RUN031 for an answer that does not fit, and what `bring_up_to_date` raises.
    """
    await bring_up_to_date(run)
    ask, fits = fitting(run.journal, run.run_id, given_answer, which, digest)
    key, msg_id = ask.key, f"{ask.key}:{ask.digest[:32]}#{uuid4().hex}"
    await _signal(run, "answer", key, msg_id, message_payload(ask.digest, fits))
    taken = await _first_recorded(run, lambda: first_answer(run.journal, ask))
    if taken is not None and taken != msg_id:
        raise (
            answered_already(run.run_id, key) if taken else not_asked(f"the time to answer {key} has run out")
        )
    if taken is None and run.journal.find_run(run.run_id).status.is_final:
        raise not_asked(f"run {run.run_id} has ended")
    return ask


async def decide(
    run: TemporalRun,
    calls: Sequence[str],
    verdict: Resolution,
    *,
    every: bool = False,
) -> None:
    """Decide about calls in doubt, named as for `decide_calls`.

    Raises CallsheetError: JRN030, also if a different decision arrives before this one, JRN031, and what
    `bring_up_to_date` raises.
    """
    await bring_up_to_date(run)
    sent: list[tuple[str, int, Any, bool]] = []
    for key in named_doubts(run.journal, run.run_id, calls, every=every):
        _, _, body = event_record(Decided(key, verdict))
        doubts = sum(e.type is EventType.IN_DOUBT and e.key == key for e in run.journal.events(run.run_id))
        sent.append((key, doubts, body, await _signal(run, "decide", key, doubts, body)))
    for key, doubt, body, is_delivered in sent:
        first = partial(first_decision, run.journal, run.run_id, key, doubt)
        taken = await _first_recorded(run, first)
        if taken is None and not is_delivered:
            named_doubts(run.journal, run.run_id, [key])  # raises: the run has ended
        if taken is not None and not is_same_decision(taken, body):
            raise decided_already(run.run_id, key, str(taken["decision"]))


async def _first_recorded(run: TemporalRun, first: Callable[[], _T | None]) -> _T | None:
    """What the run took first about one matter; None if that is not known within some seconds, or before
    somebody lets it go on.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        await bring_up_to_date(run)
        taken = first()
        status = run.journal.find_run(run.run_id).status
        is_over = status.is_final or status is RunStatus.PAUSED or time.monotonic() >= deadline
        if taken is not None or is_over:
            return taken
        await asyncio.sleep(_PAUSE)


async def cancel(run: TemporalRun, reason: str) -> None:
    """End a run for good; raises CallsheetError: JRN032 for one that has ended, TMP005 if unknown."""
    outcome = await bring_up_to_date(run)
    if outcome.result is not None:
        raise has_ended(run.run_id, str(outcome.result.status), "cancel")
    if not await _signal(run, "cancel", reason):
        raise has_ended(run.run_id, str(run.journal.find_run(run.run_id).status), "cancel")


async def pause(run: TemporalRun, by: str, reason: str, patience: float) -> RunPause | None:
    """Pause a run; None if calls are under way, or no worker has taken it up, for `patience` seconds.

    A run that is paused already stays as it is. A pause that is recorded counts only if no worker has signals
    left to process: one may let the run go on. Raises CallsheetError: JRN032 if it has ended or ends instead,
    TMP005 if unknown.
    """
    deadline, is_asked = time.monotonic() + patience, False
    while True:
        is_settled = (await _status_of(run.handle))[1] is None  # before the history is read
        outcome = await bring_up_to_date(run)
        if outcome.result is not None:
            raise has_ended(run.run_id, str(outcome.result.status), "pause")
        if outcome.pause is not None and is_settled:
            return outcome.pause
        if not is_asked:
            await _signal(run, "pause", by, reason)
            is_asked = True
        elif time.monotonic() >= deadline:
            return None
        await asyncio.sleep(_PAUSE)


async def resume_and_wait(
    run: TemporalRun,
    verdict: Resolution | None,
    *,
    waits: bool = False,
    on_idle: Callable[[], Awaitable[None]] | None = None,
    limits: Callable[[Limits], Limits] = lambda limits: limits,
    observer: Observer | None = None,
    unpaused_by: str | None = None,
) -> RunOutcome:
    """Resume a run and wait for it, applying a verdict to all of its calls in doubt; returns its state.

    One that is paused goes on if somebody is named that lets it; otherwise nothing happens. A run that never
    reached the server is started; a failed graph retries what failed and what depended on it. Unanswered
    model calls are repeated. `limits` maps the run's limits to those that apply from now on; `observer` hears
    of past and new events. Raises what `bring_up_to_date` raises.
    """
    await _start_again(run)
    history = await _synchronized(run)
    outcome, machine = journaled_outcome(run.journal, run.run_id), machine_of(run.journal, run.run_id)
    if outcome.pause is not None and unpaused_by is None:
        return outcome
    bounds = bounded(limits(machine.limits), history.order.start.policy)
    if outcome.result is not None:
        if not machine.may_reopen:
            return outcome
        await _reopen(run.connection, history, bounds)
        return await wait_for(run, waits=waits, on_idle=on_idle, observer=observer)
    if bounds != machine.limits:
        await _signal(run, "bound", bounds.to_json())
    if verdict is not None and outcome.in_doubt:
        await decide(run, [call.key for call in outcome.in_doubt], verdict)
    if outcome.unanswered:
        await _signal(run, "resume")
    if unpaused_by is not None:
        await _signal(run, "unpause", unpaused_by)
    return await wait_for(run, waits=waits, on_idle=on_idle, observer=observer)


async def _reopen(connection: TemporalConnection, history: RunHistory, limits: Limits) -> None:
    """Continue a failed graph in a new history."""
    order = history.order
    try:
        await connection.client.start_workflow(
            WORKFLOW,
            args=[order.to_json(), None, Reopening(history.happened, limits).to_json()],
            id=order.workflow_id,
            task_queue=order.queue,
            task_timeout=timedelta(seconds=order.task_seconds),
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=_summary(order),
        )
    except RPCError as error:
        raise refused(f"run {order.run_id} cannot continue", error) from error


async def _start_again(run: TemporalRun) -> None:
    """Start a run whose journal has only its start, as after a crash before it reached the server."""
    info = run.journal.find_run(run.run_id)
    if info.events == 1:
        plan, source = run.journal.plan(info.plan_hash)
        begin = start_from(EventType.START, next(iter(run.journal.events(run.run_id))).body)
        order = order_of(run.run_id, plan, source, begin, run.connection.settings)
        await start(run.connection, run.journal, order)


async def settled(run: TemporalRun) -> RunOutcome:
    """The state of a run after a worker has processed pending signals; without a worker, as before."""
    deadline, handle = time.monotonic() + _LONG, run.handle
    while (await _status_of(handle))[1] is not None and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_PAUSE)
    return await bring_up_to_date(run)


async def ended(run: TemporalRun, patience: float) -> RunOutcome | None:
    """How a run has ended; None if it has not within `patience` seconds."""
    try:
        async with asyncio.timeout(patience):
            outcome = await wait_for(run, waits=True)
    except TimeoutError:
        return None
    return None if outcome.result is None else outcome


async def _signal(run: TemporalRun, name: str, *arguments: Any) -> bool:
    """Send a signal; False if the run has ended, as its journal tells then: to the server there is none."""
    try:
        await run.handle.signal(name, args=arguments)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and (await bring_up_to_date(run)).result is not None:
            return False
        raise _not_there(run, error) from error
    return True


async def _status_of(handle: Handle) -> tuple[str, float | None]:
    """The status of a run, and the seconds for which it has waited for a worker, None if it does not."""
    described = await handle.describe()
    if described.status is not None and described.status.name != "RUNNING":
        return _ENDED, None
    raw = described.raw_description
    if not raw.HasField("pending_workflow_task"):
        if raw.pending_activities:  # such as what keeps a history that ends, into which an answer has come
            return RUNNING, None
        return await described.memo_value(MEMO, RUNNING, type_hint=str), None
    since = raw.pending_workflow_task.original_scheduled_time.ToDatetime(UTC)
    return RUNNING, (datetime.now(UTC) - since).total_seconds()


def _not_there(run: TemporalRun, error: RPCError) -> CallsheetError:
    """The error for a run that the server does not return."""
    if error.status is not RPCStatusCode.NOT_FOUND:
        return refused(f"run {run.run_id} cannot be read", error)
    client = run.connection.client
    return CallsheetError.single(
        "TMP005",
        f"the Temporal server {client.service_client.config.target_host} has no run {run.run_id} in its"
        f" namespace {client.namespace}",
        help="the server may have deleted its history, or the run is on another server",
    )


def _summary(order: RunOrder) -> str:
    name = order.plan.title or order.plan.id or str(order.start.launch.get("plan", ""))
    return name.splitlines()[0][:200] if name else order.run_id
