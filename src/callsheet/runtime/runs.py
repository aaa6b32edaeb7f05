"""Runs a plan from start to end, with or without a journal, and resumes journaled runs.

In: a plan or a run's id, the ports, a journal. Out: how the run ended, or the calls and questions that need a
person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext, suppress
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Plan
from callsheet.lazy import dataclass, deferred
from callsheet.machine import (
    Ask,
    Limits,
    LimitsChanged,
    Machine,
    PolicyChanged,
    Reopened,
    Result,
    Started,
    compile_plan,
)
from callsheet.machine.keys import MACHINE_VERSION
from callsheet.machine.limits import bounded
from callsheet.machine.machine import Observer
from callsheet.policy.model import Policy
from callsheet.runtime.asking import People, Respondents, site_in
from callsheet.runtime.cancelling import cancel_asked
from callsheet.runtime.doubt import (
    Resolution,
    RunOutcome,
    settle_doubts,
    verified_state,
)
from callsheet.runtime.driving import (
    JournalOptions,
    drive,
    end_overdue,
    ended,
    gateway_of,
    keep_notes,
    paused_outcome,
    people_of,
    record_waiting,
    remaining_command,
)
from callsheet.runtime.event_loop import Offload, at_once, to_its_end
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.launch import Launch, Watch, start_of
from callsheet.runtime.local import LocalDriver, slice_of
from callsheet.runtime.recording import JournaledNotes, JournalRecorder
from callsheet.sealing.known import Known
from callsheet.store import Journal, RunStatus, RunWriter
from callsheet.store.folded import Folded
from callsheet.store.journal_paths import new_run_id
from callsheet.store.pauses import RunPause, pause_of
from callsheet.store.replay import begin
from callsheet.store.start import Start

if TYPE_CHECKING:
    from callsheet.runtime import pausing
    from callsheet.runtime.pausing import PauseAsked
    from callsheet.store import kept_calls
    from callsheet.store import labels as label_store
    from callsheet.store.kept_calls import KeptCalls
    from callsheet.store.labels import Noted
else:
    pausing = deferred("callsheet.runtime.pausing")
    kept_calls = deferred("callsheet.store.kept_calls")
    label_store = deferred("callsheet.store.labels")

_NOBODY = Watch()
_ABSENT = Respondents()


async def run_unrecorded(
    plan: Plan,
    ports: Ports,
    launch: Launch,
    watch: Watch = _NOBODY,
    run_id: str | None = None,
    present: Respondents = _ABSENT,
    noted: Iterable[Noted] = (),
) -> Result:
    """Run a plan without a journal; nothing of it survives the process.

    `run_id` should be unique, so that tools do not confuse its calls with another run's; by default a new one
    is made. `noted` are the labels left by recorded runs, which apply under a policy. A question that nobody
    `present` answers is denied. Raises CallsheetError (RUN050) for a plan that was not verified under its
    policy.
    """
    launch.check(plan)
    run_id = run_id or new_run_id()
    program = launch.program or compile_plan(plan, launch.facts)
    rules = launch.approve, launch.approval_timeout, launch.enforcement
    machine = Machine(program, bounded(launch.limits, launch.policy), watch.observer, *rules)
    people = People(run_id, present=present, policy=launch.policy)
    people.site = lambda key, asked: site_in(lambda _: (plan, launch.source), key, asked)
    most_at_once = launch.limits.max_concurrency_by_tool
    with label_store.LabelStore.in_memory() if launch.policy is not None else nullcontext() as labels:
        gateway = Gateway(ports, run_id, at_once=most_at_once)
        if launch.policy is not None and labels is not None:
            from callsheet.runtime.guard import Guard, GuardedGateway  # noqa: PLC0415 - only under a policy

            for place in noted:
                labels.put(*place)
            guard = Guard(launch.policy, launch.verified, labels)
            gateway = GuardedGateway(ports, run_id, guard, at_once=most_at_once)
        gateway.declared = lambda: launch.known
        driver = LocalDriver(machine, gateway, None, watch.after_batch, people=people, pace=watch.pace)
        if watch.on_driver is not None:
            watch.on_driver(driver)
        result = await driver.run(machine.feed(Started(launch.inputs), slice_of(watch.pace)))
    assert result is not None  # without a journal no call falls into doubt
    return result.timed(round(driver.seconds, 3))


async def start_run(
    plan: Plan,
    ports: Ports,
    launch: Launch,
    journal: Journal,
    run_id: str,
    watch: Watch = _NOBODY,
    present: Respondents = _ABSENT,
) -> RunOutcome:
    """Start a run and carry it to its end, or until it waits for people.

    Raises JournalError if the journal cannot take it, CallsheetError for a plan that cannot run, or (RUN050)
    that was not verified under its policy.
    """
    with begin_run(plan, ports.known, launch, journal, run_id, watch.observer) as begun:
        return await begun.drive(ports, watch, present)


class BegunRun:
    """A run that this process owns and has not driven yet; as a context manager it frees the run at the end.

    Its start need not be in the journal before the first batch of `drive`, unless it was enlisted.
    """

    def __init__(
        self, journal: Journal, plan: Plan, writer: RunWriter, folded: Folded, journaled: JournaledNotes
    ) -> None:
        self.run_id = writer.run_id
        self._journal = journal
        self._plan = plan
        self._writer = writer
        self._folded = folded
        self._journaled = journaled

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the run for other owners; a second call has no effect."""
        self._writer.close()

    async def flush(self) -> None:
        """Make its start durable; raises JournalError."""
        await self._writer.flush()

    async def drive(
        self,
        ports: Ports,
        watch: Watch = _NOBODY,
        present: Respondents = _ABSENT,
        offload: Offload = at_once,
    ) -> RunOutcome:
        """Carry the run to its end, or until it waits for people, and free it; to be called once.

        The observer is the one it was begun with. Raises what `start_run` raises.
        """
        journal, writer, folded, journaled = self._journal, self._writer, self._folded, self._journaled
        with self:
            journaled.call_after_batch(watch.after_batch)
            commands = folded.machine.feed(Started(folded.start.inputs), slice_of(watch.pace))
            people = people_of(journal, writer, present, folded)
            options = JournalOptions(journal, writer, self._plan, people, offload)
            with gateway_of(journal, self.run_id, folded, ports) as gateway:
                return await drive(options, folded, commands, gateway, journaled, watch)


def begin_run(
    plan: Plan, known: Known, launch: Launch, journal: Journal, run_id: str, observer: Observer | None = None
) -> BegunRun:
    """Begin a run and own it; its start is written with its first batch.

    `known` are the secrets of its tools. Raises what `start_run` raises before a run begins.
    """
    start = start_of(plan, launch, journal)
    journaled = JournaledNotes(observer)
    journaled.hold()
    folded = begin(plan, start, journaled.observer, launch.program)
    return BegunRun(journal, plan, create_run(plan, start, launch, known, journal, run_id), folded, journaled)


async def enlist_run(
    plan: Plan,
    known: Known,
    launch: Launch,
    journal: Journal,
    run_id: str,
    observer: Observer | None = None,
    offload: Offload = at_once,
) -> BegunRun:
    """As `begin_run`, with the start durable on return; `resume_run` begins the run after a crash.

    `offload` does slow work on a long plan.
    """
    task = asyncio.ensure_future(offload(lambda: begin_run(plan, known, launch, journal, run_id, observer)))
    try:
        begun = await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(CallsheetError):
            (await task).close()
        raise
    try:
        await begun.flush()
    except BaseException:
        begun.close()
        raise
    return begun


def create_run(
    plan: Plan, start: Start, launch: Launch, known: Known, journal: Journal, run_id: str
) -> RunWriter:
    """The writer of a new run whose start is recorded."""
    return journal.create_run(
        run_id,
        plan,
        launch.source,
        start.to_json(),
        core_version=MACHINE_VERSION,
        known=launch.known + known,
        secret=launch.secret_parts(),
    )


PortsFor = Callable[[Start, Plan], AbstractAsyncContextManager[Ports]]
"""Opens the ports for a run with this start and its current policy; may refuse with CallsheetError."""
PolicyFor = Callable[[Folded], Policy | None]
"""The policy under which a run in this state goes on, None to keep its own; may refuse with CallsheetError.
It is called after the ports are open.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendments:
    """What the operator changes about a run that is resumed.

    `in_doubt` decides the calls in doubt that their probes and policies leave undecided. `limits` maps the
    run's limits to those that apply from now on. A run under a policy keeps it unless `policy` gives another.
    `places` are those of tools that were moved, as `Start.at_places` takes them; they are recorded once the
    ports are open. `unpaused_by` is the person who lets a paused run go on ("" if nobody is named); with None
    it stays paused.
    """

    in_doubt: Resolution | None = None
    limits: Callable[[Limits], Limits] | None = None
    policy: PolicyFor | None = None
    places: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    unpaused_by: str | None = None


_UNCHANGED = Amendments()


async def resume_run(
    journal: Journal,
    run_id: str,
    ports_for: PortsFor,
    amendments: Amendments = _UNCHANGED,
    watch: Watch = _NOBODY,
    present: Respondents = _ABSENT,
    *,
    offload: Offload = at_once,
) -> RunOutcome:
    """Resume a run where its journal ends; a run that has ended returns its result again.

    A failed plan of dependencies retries what failed and what depended on it. No finished call is repeated.
    If calls stay in doubt, the run goes on as far as it can without them, and the outcome lists them. If
    nothing can go on without decisions or answers, nothing is launched, but new places of tools are checked
    and recorded. A requested cancellation is carried out, and so is a pause, unless a person lets the run go
    on. The run is folded with `offload`, where the observer also hears what has happened so far. Raises
    JournalError if the run is unknown, damaged, or owned by a live process.
    """
    plan = await offload(lambda: _plan_of(journal, run_id))
    with journal.claim(run_id) as writer:
        journaled = JournaledNotes(watch.observer, watch.after_batch)
        to_pause = pausing.pause_asked(journal, run_id)  # later requests are for the driver

        def folded_run() -> Folded:
            hears_all, on_declared = watch.hears_all, watch.on_declared
            return verified_state(
                journal, writer, plan, journaled.observer, from_start=hears_all, on_declared=on_declared
            )

        folded = await to_its_end(offload, folded_run)
        journaled.hold()
        machine = folded.machine
        if machine.result is not None and not machine.may_reopen:
            return ended(journal, writer, folded, journaled)
        if machine.result is not None:
            kept_calls.require_not_undone(journal, journal.find_run(run_id))
        recorder = JournalRecorder(writer, journal.durability, folded=folded)
        cancelled = None if machine.result is not None else cancel_asked(journal, run_id)
        if cancelled is not None:
            folded.feed(recorder.event(cancelled))
            return ended(journal, writer, folded, journaled)

        def options_now() -> JournalOptions:
            people = people_of(journal, writer, present, folded)
            return JournalOptions(journal, writer, plan, people, offload, amendments.in_doubt)

        pause = _pause(journal, writer, folded, to_pause) if amendments.unpaused_by is None else None
        if pause is not None:
            return await paused_outcome(options_now(), folded, journaled, pause)
        start = folded.start_now()
        placed = start.at_places(amendments.places)

        def opened() -> AbstractAsyncContextManager[Ports]:
            return ports_for(placed.for_open_calls(folded.open_tools()), plan)

        async with AsyncExitStack() as stack:
            ports, other = None, None
            if amendments.policy is not None:
                ports = await stack.enter_async_context(opened())
                other = amendments.policy(folded)
            _unpause(journal, writer, amendments.unpaused_by, to_pause)
            _change(folded, recorder, amendments.limits, other)
            kept = await offload(lambda: kept_calls.kept_by(journal, run_id))
            if machine.result is None and kept is not None:
                _settle_kept(folded, recorder, kept)
            if machine.result is None:
                settle_doubts(folded, recorder, amendments.in_doubt)
            if machine.result is not None:
                if watch.on_decided is not None:
                    watch.on_decided()
                return ended(journal, writer, folded, journaled)
            options = options_now()
            is_stuck, has_moved = _is_stuck(folded, options.people), placed != start
            if is_stuck and not has_moved:
                return await record_waiting(options, folded, journaled)
            if ports is None:
                ports = await stack.enter_async_context(opened())
            if has_moved:  # also where nothing can go on yet: the next resume may not name them again
                recorder.moved(amendments.places)
            if is_stuck:
                return await record_waiting(options, folded, journaled)
            end_overdue(folded, recorder)
            return await _go_on(options, folded, ports, journaled, watch, kept)


def _pause(journal: Journal, writer: RunWriter, folded: Folded, asked: PauseAsked | None) -> RunPause | None:
    """The pause in which a run stays that nobody lets go on; one that was asked for is recorded."""
    if folded.machine.result is not None:
        return None
    pause = pause_of(journal, journal.find_run(writer.run_id))
    return pausing.record_pause(writer, folded, asked) if pause is None and asked is not None else pause


def _unpause(journal: Journal, writer: RunWriter, by: str | None, asked: PauseAsked | None) -> None:
    """Record that a person lets a run go on that is paused, or was asked to be."""
    if asked is not None or journal.find_run(writer.run_id).status is RunStatus.PAUSED:
        pausing.record_unpause(writer, by or "", asked)


async def _go_on(
    options: JournalOptions,
    folded: Folded,
    ports: Ports,
    journaled: JournaledNotes,
    watch: Watch,
    kept: KeptCalls | None,
) -> RunOutcome:
    """Carry out the open commands of a run, except for calls in doubt, and what follows."""
    journal, writer, plan, _, offload, _ = options
    doubtful = folded.in_doubt()
    commands = [remaining_command(folded, key) for key in folded.waiting if key not in doubtful]
    writer.know(ports.known)
    writer.set_status(RunStatus.RUNNING)
    with gateway_of(journal, writer.run_id, folded, ports, kept) as gateway:
        await keep_notes(journal, writer.run_id, plan, gateway, offload)
        return await drive(options, folded, commands, gateway, journaled, watch)


def _change(
    folded: Folded,
    recorder: JournalRecorder,
    limits: Callable[[Limits], Limits] | None,
    policy: Policy | None,
) -> None:
    """Record new limits and a new policy, and that a failed graph goes on."""
    machine = folded.machine
    has_failed = machine.result is not None
    bounds = machine.limits if limits is None else limits(machine.limits)
    if limits is not None or policy is not None:
        bounds = bounded(bounds, policy or folded.policy)
    if bounds != machine.limits:
        folded.feed(recorder.event(LimitsChanged(bounds)))
    if policy is not None:
        folded.feed(recorder.event(PolicyChanged(policy)))
    if has_failed:
        folded.feed(recorder.event(Reopened()))


def _settle_kept(folded: Folded, recorder: JournalRecorder, kept: KeptCalls) -> None:
    """Calls whose outcomes a run of an edited plan keeps are not in doubt, as they were never sent."""
    from callsheet.runtime.kept_outcomes import settle_kept  # noqa: PLC0415 - only for edited plans

    settle_kept(folded, recorder, kept)


def _plan_of(journal: Journal, run_id: str) -> Plan:
    info = journal.find_run(run_id)
    return journal.plan_of(info.plan_hash)


def _is_stuck(folded: Folded, people: People) -> bool:
    """Whether only decisions and answers can continue the run, and none is there or can be given now."""
    if folded.has_more_to_do():
        return False
    asks = [c for c in folded.waiting.values() if isinstance(c, Ask)]
    if asks and (people.present.on_ask is not None or people.present.waits):
        return False
    messages = people.messages() if asks and people.messages is not None else []
    if any(people.find_answer(ask, messages) is not None for ask in asks):
        return False
    return bool(folded.in_doubt()) or 0 < len(asks) == len(folded.waiting)
