"""`Host`: starts, resumes, ends and watches many runs in one process, and keeps its journal in bounds.

A run is in the journal before its request is answered, so that none is lost if the process dies. What has
expired by the rules of the settings is deleted at the start and then every hour.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from callsheet.api.arguments import id_of_run
from callsheet.api.run_service import cancel, check_plan_file, decide, pause, record
from callsheet.apps.hosting.recorded import (
    Followed,
    RunSource,
    RunState,
    SharedReadings,
    Watched,
    each_event,
    follow,
    recorded_outcome,
)
from callsheet.apps.hosting.run_queue import (
    Capacity,
    Here,
    HostedRun,
    LeftRuns,
    RunQueue,
    Stage,
    runs_left_by,
)
from callsheet.apps.hosting.service import (
    ForkRequest,
    HostConfig,
    RerunRequest,
    ResumeOptions,
    RunRequest,
    UndoRequest,
    branch_in_host,
    foresee_undo_in_host,
    is_slow,
    observer_on_loop,
    ready,
    undo_in_host,
)
from callsheet.apps.hosting.shared import SharedTools
from callsheet.apps.masking import Masker
from callsheet.apps.operations.live_calls import UnderWay
from callsheet.apps.operations.runs import shown_status
from callsheet.apps.rendering.values import format_bytes
from callsheet.apps.settings import RetentionSettings
from callsheet.apps.setup import Setup
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.lazy import deferred
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.ports.tools import Tool
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.cancelling import PATIENCE
from callsheet.runtime.doubt import Resolution, RunOutcome
from callsheet.runtime.event_loop import at_once
from callsheet.runtime.inbox import ProgramQuestions, answer_run, asks_of
from callsheet.store import Journal, JournalError, retention
from callsheet.store.journal_paths import is_owned, place_of
from callsheet.store.label_transfer import forget_notes
from callsheet.store.listing import check_here
from callsheet.store.pauses import RunPause
from callsheet.store.runs import RunInfo, RunOutline
from callsheet.store.writer import RunStatus

if TYPE_CHECKING:
    from callsheet.api import run_branches
    from callsheet.api.run_branches import Rerun, Revised
    from callsheet.runtime.undo import Undoing
else:
    run_branches = deferred("callsheet.api.run_branches")


_T = TypeVar("_T")
_log = logging.getLogger("callsheet.hosting")
_READERS = 8
_CAPACITY = Capacity()


class Started(NamedTuple):
    """A run that is in the journal and queued, with the warnings about its plan."""

    run_id: str
    diagnostics: tuple[Diagnostic, ...] = ()


class Host:
    """Runs plans with one journal and the tools of one setup; an async context manager.

    Runs beyond its `capacity` are refused (API011). All are subject to `policy` and `limits`. Leaving the
    context interrupts the runs in progress, which can be resumed here or elsewhere. `say` is called with log
    messages. `more_tools` are available besides those of the setup. A host with a `name` records it with its
    runs, and a later host of that name can `revive` them.
    """

    def __init__(
        self,
        setup: Setup,
        journal: Journal,
        *,
        limits: Limits | None = None,
        policy: Policy | None = None,
        capacity: Capacity = _CAPACITY,
        say: Callable[[str], None] = _log.info,
        more_tools: Iterable[Tool] = (),
        name: str = "",
    ) -> None:
        self.journal = journal
        self.tools = SharedTools(setup, more_tools)
        self.masker = Masker(setup.settings.secrets.shapes)
        self.program_questions = ProgramQuestions()
        self.under_way = UnderWay(journal)
        bounds = limits or setup.settings.limits
        self.config = HostConfig(self.tools, bounds, policy, say, self.beside, journal.path, name)
        self._readings = SharedReadings(journal, self.beside, self.state)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="callsheet-host")
        self._queue = RunQueue(journal, self.config, self.masker, self.asks, capacity)

    async def __aenter__(self) -> Host:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, patience: float = 0.0) -> None:
        """Refuse further requests, wait `patience` seconds for the running runs, then interrupt them."""
        await self._queue.close(patience)
        await self.tools.close()
        self._readers.shutdown(wait=True, cancel_futures=True)

    async def beside(self, look: Callable[[], _T], /) -> _T:
        """Run `look` in a thread, so that the event loop is not blocked; returns or raises what it does."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, look)

    # ------------------------------------------------------------ new runs

    async def start(self, request: RunRequest) -> Started:
        """Check a plan, record its run, and queue it.

        Raises CallsheetError: the errors of the plan, JRN001 or JRN003 for its run id, API011 if the queue is
        full, API016 if the host is closing.
        """
        self._queue.check_open()
        run_id = id_of_run(request.run_id)
        if request.run_id is not None:
            run_branches.require_new_id(self.journal, run_id)
        steps = len(request.text.require().steps)
        hold = self._queue.hold(steps)
        hold.begin()
        try:
            prepared, ports = await ready(request, self.config)
            self.masker.add_secrets(prepared.launch.known + prepared.known)
            with self._queue.reserved():
                observer = observer_on_loop(request.listeners.observer, self.masker)
                beside = self.beside if is_slow(request, prepared.launch.policy) else at_once
                begun = await record(prepared, self.journal, run_id, observer, beside)
                hold.built(steps)
                here = None if begun is None else Here(begun, ports)
                self._queue.enqueue(
                    run_id, ResumeOptions(as_recorded=True, listeners=request.listeners), hold, here=here
                )
        except BaseException:
            hold.release()
            raise
        return Started(run_id, prepared.diagnostics)

    async def rerun(self, run_id: str, request: RerunRequest) -> Started:
        """Run a plan again from a step as a new run; raises what `callsheet rerun` raises."""
        self._queue.check_open()
        return await self._branch_off(
            run_id,
            _rerun_of(request),
            request.run_id,
            request.terms,
            request.effects,
        )

    async def fork(self, run_id: str, request: ForkRequest) -> Started:
        """Continue from an event in a new run, with edits; raises what `callsheet fork` raises."""
        self._queue.check_open()
        return await self._branch_off(
            run_id,
            run_branches.Fork(request.at, request.edits),
            request.run_id,
            request.terms,
            request.effects,
        )

    async def _branch_off(
        self,
        run_id: str,
        what: Rerun | run_branches.Fork | Revised,
        name: str | None,
        terms: ResumeOptions,
        effects: bool | str,
    ) -> Started:
        made = await branch_in_host(self.journal, run_id, what, terms, self.config)
        new_id = id_of_run(name)
        run_branches.require_new_id(self.journal, new_id)
        with self._queue.reserved():
            if isinstance(what, run_branches.Revised) and what.verb == "resume":
                made.require_consent(effects, _ALLOW)
                is_final = self.info(run_id).status.is_final
                if not is_final and await self.cancel(run_id, run_branches.why_superseded(new_id)) is None:
                    raise JournalError("JRN004", f"run {run_id} is still under way")
            ended = await run_branches.record_branch(
                self.journal,
                made,
                new_id,
                consent=effects,
                hint=_ALLOW,
                host=self.config.name,
                offload=self.beside,
            )
            if ended is None:
                self._queue.enqueue(new_id, replace(terms, as_recorded=True))
        return Started(new_id)

    async def undo(self, run_id: str, request: UndoRequest) -> Started:
        """Take back what the calls of a run did; raises what `callsheet undo` raises, and UndoNeedsConsent.

        An earlier undoing that has not ended goes on instead, unless it is under way.
        """
        self._queue.check_open()
        await self.beside(lambda: self.info(run_id))

        def agrees(undoing: Undoing) -> bool:
            if request.effects is not True and request.effects != run_branches.consent_to(undoing):
                raise run_branches.UndoNeedsConsent(undoing, _ALLOW)
            return True

        with self._queue.reserved():
            name = await undo_in_host(self.journal, run_id, request.place, agrees, self.config)
            if self._queue.get(name) is None:
                if await self._is_elsewhere(name):
                    raise JournalError("JRN004", f"run {name} is running already", "watch it")
                self._queue.enqueue(name, replace(request.terms, as_recorded=True))
        return Started(name)

    async def foresee_undo(self, run_id: str, start: str = "") -> Undoing:
        """What undoing a run from a step on takes; nothing is done. Raises as `undo` does."""
        await self.beside(lambda: self.info(run_id))
        return await foresee_undo_in_host(self.journal, run_id, start, self.config)

    # ------------------------------------------------------------ recorded runs

    def info(self, run_id: str) -> RunInfo:
        """The run with exactly this id; raises JournalError (JRN002) if there is none."""
        info = self.journal.find_run(run_id)
        if info.run_id != run_id:
            raise self.journal.parts.reader.runs.unknown(run_id)
        return info

    def state(self, run_id: str) -> RunState:
        """The current state of a run, as `callsheet runs` shows it, or `queued`."""
        info = self.info(run_id)
        return RunState(self.status(info), info.events, info.status.is_final)

    def stage(self, run_id: str) -> str:
        """The status as `state` gives it, without a look into the journal for a run that is here."""
        run = self._queue.get(run_id)
        return self.state(run_id).status if run is None else str(run.stage)

    def status(self, info: RunInfo | RunOutline) -> str:
        """The status of a run as shown to people."""
        run = self._queue.get(info.run_id)
        if run is not None and not info.status.is_final:
            return str(run.stage)
        return shown_status(self.journal, info)

    def problem(self, run_id: str) -> CallsheetError | None:
        """Why the last attempt to run it here failed; None if it did not."""
        return self._queue.problem(run_id)

    def hosted(self, run_id: str) -> HostedRun | None:
        """The run if it is queued or running here, else None."""
        return self._queue.get(run_id)

    def hosted_runs(self) -> list[HostedRun]:
        """The runs that are queued or running here."""
        return self._queue.all()

    def watch(self, run_id: str, after: int = 0) -> AsyncGenerator[Watched]:
        """The events of a run after the number `after`, and new ones; see `recorded.follow`."""
        return each_event(self.follow(run_id, after))

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[Followed]:
        """The same, with events that were read together in one."""
        return follow(RunSource(self._readings, self.hosted), run_id, after)

    async def resume(self, run_id: str, terms: ResumeOptions | None = None) -> None:
        """Queue a run to be resumed; `problem` tells later if that failed.

        Raises CallsheetError: JRN002 for an unknown run, JRN004 for one that is running here or elsewhere,
        JRN024 for one whose plan was edited in its file since, TMP007 for one of another engine, API011 and
        API016 as `start` does. A run that has ended is not changed.
        """
        self._queue.check_open()
        await self.beside(lambda: self.info(run_id))
        await self.beside(lambda: check_here(self.journal, run_id))
        terms = terms or ResumeOptions()
        is_elsewhere = await self._is_elsewhere(run_id)
        if not (is_elsewhere or self._queue.get(run_id) is not None):
            await self.beside(lambda: check_plan_file(self.journal, run_id, terms))
        if is_elsewhere or self._queue.get(run_id) is not None:  # nothing is awaited from here to the queue
            raise JournalError(
                "JRN004",
                f"run {run_id} is running already",
                "watch it; it can be resumed when it has stopped",
            )
        self._queue.enqueue(run_id, replace(terms, as_recorded=True))

    async def revive(self) -> LeftRuns:
        """Resume the runs that a host of this `name` left when it ended, as far as there is room.

        Runs that were queued or running are resumed; those that wait for people, when an answer comes or
        their time is up. A run during which the server died repeatedly is not resumed, and `problem` says so.
        Returns the ids of all three kinds.
        """
        return self._queue.revive(await self.beside(lambda: runs_left_by(self.config.name, self.journal)))

    async def wait(self, run_id: str, patience: float | None = None) -> bool:
        """Wait at most `patience` seconds until a run has stopped here; whether it has."""
        run = self._queue.get(run_id)
        return run is None or await run.stopped(patience)

    async def outcome(self, run_id: str) -> RunOutcome:
        """Wait until a run has stopped here, and return its outcome from the journal, with secrets sealed.

        Raises the error that kept it from running, and JournalError as `Journal.events` does.
        """
        await self.wait(run_id)
        problem = self._queue.problem(run_id)
        if problem is not None:
            raise problem
        return self.masker.outcome(await self.beside(lambda: recorded_outcome(self.journal, run_id)))

    async def cancel(
        self, run_id: str, reason: str = "cancelled", patience: float = PATIENCE
    ) -> RunOutcome | None:
        """End a run for good, wherever it runs; None if it has not ended within `patience` seconds.

        Raises JournalError: JRN002 for an unknown run, JRN032 for one that has ended, JRN012 if its journal
        is damaged.
        """
        before = await self.beside(lambda: self.info(run_id))
        run = self._queue.get(run_id)
        if run is None or before.status.is_final:
            return await cancel(self.journal, run_id, reason, patience)
        began = time.monotonic()
        run.cancel(reason)
        if not await run.stopped(patience):
            return None
        task = run.task
        if not task.cancelled() and task.exception() is None and task.result().result is not None:
            return task.result()
        left = max(0.0, patience - (time.monotonic() - began))
        return await cancel(self.journal, run_id, reason, left)

    async def pause(
        self, run_id: str, by: str, reason: str = "", patience: float = PATIENCE
    ) -> RunPause | None:
        """Pause a run, wherever it runs; None if calls are still under way after `patience` seconds.

        One that is queued here leaves the queue. Raises JournalError as `run_service.pause` does.
        """
        await self.beside(lambda: self.info(run_id))
        run = self._queue.get(run_id)
        if run is not None and run.stage is Stage.QUEUED:
            await run.interrupt()
        on_asked = None if run is None else run.look
        return await pause(self.journal, run_id, by, reason, patience, on_asked)

    async def decide(
        self, run_id: str, calls: list[str], verdict: Resolution, *, every: bool = False
    ) -> RunOutcome:
        """Decide on calls in doubt, as `callsheet decide` does; `resume` continues the run."""
        await self.beside(lambda: self.info(run_id))
        return await decide(self.journal, run_id, calls, verdict, every=every, offload=self.beside)

    async def answer(
        self,
        run_id: str,
        answer: Answer | Callable[[PendingAsk], Answer],
        which: str | None = None,
        *,
        digest: str | None = None,
        roles: frozenset[str] = frozenset(),
    ) -> PendingAsk:
        """Answer a question of a run, as `callsheet approve` does, and resume the run if it had stopped.

        `roles` are those of the person. Raises CallsheetError: JRN002 for an unknown run, RUN030 if no such
        question is pending, RUN031 for an answer that does not fit, RUN039 for one that needs another role.
        """
        await self.beside(lambda: self.info(run_id))
        ask = await self.beside(
            lambda: answer_run(self.journal, run_id, answer, which, digest=digest, roles=roles)
        )
        self._queue.go_on(run_id)
        return ask

    async def asks(self, run_id: str) -> list[PendingAsk]:
        """The questions of a run that it has not continued from."""
        return await self.beside(lambda: asks_of(self.journal, run_id))

    async def _is_elsewhere(self, run_id: str) -> bool:
        place = place_of(self.journal.path)
        return await self.beside(lambda: is_owned(place, run_id))


_ALLOW = "allow it: `effects` true, or the `consent` to exactly these calls"


def _rerun_of(request: RerunRequest) -> Rerun | Revised:
    """What is run again; raises CallsheetError with the errors of an edited plan."""
    by, limits, items = request.by, request.terms.limits, request.failed_items
    if request.plan is None:
        return (
            run_branches.Revised(by=by, failed_items=True, limits=limits)
            if items
            else run_branches.Rerun(request.place, by, limits)
        )
    plan, text = request.plan.require(), request.plan.source.text
    verb = "resume" if request.ends_parent else "rerun"
    return run_branches.Revised(plan, text, place=request.place, by=by, verb=verb, failed_items=items)


_EVERY = 3_600.0
_CAUTION = 0.8
"""The share of the runs in excess that are deleted before another look: runs differ in size."""
_ENDED = (RunStatus.DONE, RunStatus.FAILED, RunStatus.REFUSED, RunStatus.CANCELLED)


class Deleted(NamedTuple):
    """What was deleted: runs that had expired, or for which there was no room, and large values."""

    expired: int
    for_room: int
    values: int


def keep_within(journal: Journal, rules: RetentionSettings) -> Deleted:
    """Delete what the rules do not keep; raises JournalError (JRN017) if the journal cannot be written."""
    parts = journal.parts
    done, failed, cancelled = rules.ages
    ages: dict[RunStatus, float | None] = dict(zip(_ENDED, (done, failed, failed, cancelled), strict=True))
    due = retention.due_now(parts, ages)
    expired = retention.prune(parts, due) if due.runs or due.values else None
    for_room = list[str]()
    most = rules.most_bytes
    while most is not None and (used := retention.used_bytes(parts)) > most:
        ended = retention.ended_runs(parts)
        first = ended[: max(1, int(len(ended) * (1 - most / used) * _CAUTION))]
        gone = retention.prune(parts, retention.Due((), first)).runs if first else ()
        if not gone:
            break
        for_room += gone
    for run_id in (*for_room, *(expired.runs if expired is not None else ())):
        forget_notes(journal.path, run_id)  # no others: runs that go on may be labelling files right now
    if expired is None:
        return Deleted(0, len(for_room), 0)
    return Deleted(len(expired.runs), len(for_room), expired.blobs)


async def keep_on(host: Host, rules: RetentionSettings, say: Callable[[str], None]) -> None:
    """Keep the journal of a host within the rules until this is cancelled."""
    while True:
        try:
            done = await host.beside(lambda: keep_within(host.journal, rules))
        except CallsheetError as error:
            say(f"old runs could not be deleted: {error.diagnostics[0].message}")
        else:
            if any(done):
                size = await host.beside(lambda: retention.used_bytes(host.journal.parts))
                say(
                    f"deleted {done.expired} expired runs, {done.for_room} runs to make room, and"
                    f" {done.values} large values; the journal has {format_bytes(size)}"
                )
        await asyncio.sleep(_EVERY)
