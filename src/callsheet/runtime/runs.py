"""Runs from start to end: a new one, or one that its journal tells of, taken up again.

In: a plan or a run's id, the ports, a journal. Out: how the run ended, or the calls that a
person has to decide about.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Plan, plan_hash
from callsheet.machine import (
    Ask,
    Command,
    Enforcement,
    Limits,
    LimitsChanged,
    Machine,
    PolicyChanged,
    Program,
    Reopened,
    Result,
    Sleep,
    Started,
    Status,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.machine import Observer
from callsheet.machine.version import MACHINE_VERSION
from callsheet.policy.model import Policy
from callsheet.runtime.answers import PendingAsk, pending, readable
from callsheet.runtime.asking import People, Respondents
from callsheet.runtime.beside import Beside, at_once, to_its_end
from callsheet.runtime.cancelling import Heeding, cancel_asked
from callsheet.runtime.doubt import (
    Resolution,
    RunOutcome,
    close_run,
    doubtful_calls,
    settle_doubts,
    stand,
    unanswered_calls,
)
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.guard import Guard, GuardedGateway, bounded
from callsheet.runtime.hearing import Hearing
from callsheet.runtime.inbox import Opening
from callsheet.runtime.local import SLICE, LocalDriver
from callsheet.runtime.ranks import ranks_for
from callsheet.runtime.recording import JournalRecorder
from callsheet.runtime.tokens import Tasks, tasks_of
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import DECLARED, LABEL, Path, inputs_at
from callsheet.store import Journal, JournalError, RunStatus, RunWriter
from callsheet.store.ids import new_run_id
from callsheet.store.labels import LabelStore
from callsheet.store.leftovers import open_labels
from callsheet.store.records import Start, secret_labels
from callsheet.store.replay import Folded, begin
from callsheet.store.snapshots import Posed


@dataclass(frozen=True, slots=True)
class Launch:
    """All that a run is started with besides its plan and its ports.

    `facts` and `pins` tell of the tools that the plan calls; `note` is kept with the run for
    the face that started it. `source` is the text of the plan. A person is asked before each call
    of a tool that `approve` names; `approval_timeout` has the seconds that there are for a yes, by tool
    ("" for all others). `program` is that of the plan with these facts, where it has been
    made before. Under a `policy` each call is held against it, and only the plan is run whose hash is
    `verified`.
    """

    facts: Mapping[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])
    pins: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    limits: Limits = field(default_factory=Limits)
    source: str = ""
    note: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    program: Program | None = None
    policy: Policy | None = None
    verified: str = ""
    secret: frozenset[str] = frozenset()
    """The inputs that are secret: sealed wherever they stand, and under a policy read by nobody."""

    @property
    def known(self) -> Known:
        """The secrets among the inputs."""
        if not self.secret:
            return Known()
        return Known.of([self.inputs[name] for name in sorted(self.secret) if name in self.inputs], DECLARED)

    @property
    def enforcement(self) -> Enforcement | None:
        """What holds under the policy; None without one."""
        if self.policy is None:
            return None
        return Enforcement.under(self.policy, secret_labels(self.policy, self.secret))

    def secret_parts(self) -> dict[Path, str]:
        """The secret parts of the body of the run's start, by their place."""
        if not self.secret and self.policy is None:
            return {}
        by_policy = self.policy is not None and self.policy.inputs.is_secret
        labelled = inputs_at(self.inputs, LABEL) if by_policy else {}
        pepper: dict[Path, str] = {("pepper",): _PEPPER} if self.secret else {}
        return labelled | inputs_at(sorted(self.secret), DECLARED) | pepper

    def check(self, plan: Plan) -> None:
        """Raise CallsheetError (RUN050) for a plan that the policy was not held against."""
        if self.policy is not None and self.verified != plan_hash(plan):
            raise CallsheetError.single(
                "RUN050",
                "under a policy only the plan is run that was verified, and this is another one",
                help="verify the plan as it is now, then run it",
            )


@dataclass(frozen=True, slots=True)
class Watch:
    """Who wants to know how a run goes: each note once the journal has it, and a call after each batch."""

    observer: Observer | None = None
    after_batch: Callable[[], Awaitable[None]] | None = None
    on_driver: Callable[[LocalDriver], None] | None = None
    """Is given the driver before the run goes on, to be able to cancel it."""
    on_decided: Callable[[], None] | None = None
    """Is called instead where what is decided on resuming ends the run, before that is told."""
    on_declared: Callable[[Known], None] | None = None
    """Hears, when a run is resumed, of the secrets that it was given, before anything else is told."""
    hears_all: bool = True
    """Whether the observer of a resumed run hears of all that has happened; a long run is then folded
    from its start, where its last snapshot would do."""


_PEPPER = "digests are made with it"
_NOBODY = Watch()
_ABSENT = Respondents()


async def run_unrecorded(
    plan: Plan,
    ports: Ports,
    launch: Launch,
    watch: Watch = _NOBODY,
    run_id: str | None = None,
    present: Respondents = _ABSENT,
) -> Result:
    """Run a plan without a journal: nothing of it outlives the process.

    `run_id` should be one that no other run has, so that tools do not take its calls for those of
    another; by default it is a new one. A question that nobody `present` answers is denied. Raises
    CallsheetError (RUN050) for a plan that its policy was not held against.
    """
    launch.check(plan)
    run_id = run_id or new_run_id()
    program = launch.program or compile_plan(plan, launch.facts)
    rules = launch.approve, launch.approval_timeout, launch.enforcement
    machine = Machine(program, bounded(launch.limits, launch.policy), watch.observer, *rules)
    people = People(run_id, present=present)
    at_once = launch.limits.max_concurrency_by_tool
    with LabelStore.in_memory() if launch.policy is not None else nullcontext() as labels:
        gateway = Gateway(ports, run_id, at_once=at_once)
        if launch.policy is not None and labels is not None:
            guard = Guard(launch.policy, launch.verified, labels)
            gateway = GuardedGateway(ports, run_id, guard, at_once=at_once)
        driver = LocalDriver(machine, gateway, None, watch.after_batch, people=people)
        if watch.on_driver is not None:
            watch.on_driver(driver)
        result = await driver.run(machine.feed(Started(launch.inputs), SLICE))
    assert result is not None  # without a journal nothing falls into doubt
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
    """Start a run and carry it to its end, or to where it waits for people.

    Raises JournalError where the journal cannot take it, CallsheetError for a plan that
    cannot run, or (RUN050) that its policy was not held against.
    """
    start = start_of(plan, launch, journal)
    hearing = Hearing(watch.observer, watch.after_batch)
    hearing.hold()
    folded = begin(plan, start, hearing.observer, launch.program)
    with _created(plan, start, launch, ports.known, journal, run_id) as writer:
        commands = folded.machine.feed(Started(start.inputs), SLICE)
        kept = _Kept(journal, writer, plan, _people(journal, run_id, present))
        with _gateway(journal, run_id, folded, ports) as gateway:
            return await _drive(kept, folded, commands, gateway, hearing, watch.on_driver)


async def enlist_run(
    plan: Plan, known: Known, launch: Launch, journal: Journal, run_id: str, beside: Beside = at_once
) -> None:
    """Put a run into the journal with its start alone; `resume_run` begins it, now or after a crash.

    `known` are the secrets of its tools. What takes long with a long plan is done `beside` the loop. When
    this returns the start is durable, and nobody owns the run. Raises what `start_run` raises before a run
    begins.
    """

    def created() -> RunWriter:
        start = start_of(plan, launch, journal)
        begin(plan, start, None, launch.program)
        return _created(plan, start, launch, known, journal, run_id)

    task = asyncio.ensure_future(beside(created))
    try:
        writer = await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(CallsheetError):
            (await task).close()
        raise
    with writer:
        await writer.flush()


def start_of(plan: Plan, launch: Launch, journal: Journal) -> Start:
    """What the first event of a run says; raises CallsheetError (RUN050) as `start_run` does."""
    launch.check(plan)
    return Start(
        dict(launch.inputs),
        dict(launch.facts),
        bounded(launch.limits, launch.policy),
        dict(launch.pins),
        dict(launch.note),
        launch.approve,
        dict(launch.approval_timeout),
        ranks_for(journal, plan, launch.limits),
        launch.policy,
        tuple(sorted(launch.secret)),
        token_hex(16) if launch.secret else "",
    )


def _created(
    plan: Plan, start: Start, launch: Launch, known: Known, journal: Journal, run_id: str
) -> RunWriter:
    """The writer of a new run that has its start."""
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
"""Opens the ports again for a run that was started this way; may refuse with CallsheetError."""
PolicyFor = Callable[[Folded], Policy | None]
"""The policy under which a run goes on that stands so, None where that is its own; may refuse with
CallsheetError. It is asked once the ports are open."""


async def resume_run(  # noqa: PLR0913 - a name for each of the terms
    journal: Journal,
    run_id: str,
    ports_for: PortsFor,
    in_doubt: Resolution | None = None,
    watch: Watch = _NOBODY,
    present: Respondents = _ABSENT,
    *,
    limits: Callable[[Limits], Limits] | None = None,
    policy: PolicyFor | None = None,
    beside: Beside = at_once,
) -> RunOutcome:
    """Take a run up where its journal ends; a run that has ended gives its result again.

    A plan of dependencies that failed goes on with what failed and what waited for that. No finished
    call is made again. Calls in doubt are decided by their probes and policies, then by `in_doubt`.
    Where others stay in doubt the run goes on as far as it can with what is decided and answered, and
    the outcome lists them; if nothing is decided, nothing is launched, as where a run waits for answers
    alone and none has come. `limits` makes, of the limits that the run has, those that hold from now
    on. A run under a policy goes on under the very same, unless `policy` gives another. Where somebody has
    asked for the run to be cancelled, it is. How it stands is worked out `beside` the loop, and the observer
    hears there of what has happened. Raises JournalError where the run is unknown, damaged, or owned by a
    process that lives.
    """
    plan = await beside(lambda: _plan_of(journal, run_id))
    with journal.claim(run_id) as writer:
        hearing = Hearing(watch.observer, watch.after_batch)

        def stands() -> Folded:
            hears_all, on_declared = watch.hears_all, watch.on_declared
            return stand(
                journal, writer, plan, hearing.observer, from_start=hears_all, on_declared=on_declared
            )

        folded = await to_its_end(beside, stands)
        hearing.hold()
        machine = folded.machine
        if machine.result is not None and not machine.may_reopen:
            return _ended(journal, writer, folded, hearing)
        recorder = JournalRecorder(writer, journal.durability, folded=folded)
        cancelled = None if machine.result is not None else cancel_asked(journal, run_id)
        if cancelled is not None:
            folded.take(recorder.event(cancelled))
            return _ended(journal, writer, folded, hearing)
        async with AsyncExitStack() as stack:
            ports, other = None, None
            if policy is not None:
                ports = await stack.enter_async_context(ports_for(folded.start, plan))
                other = policy(folded)
            _change(folded, recorder, limits, other)
            if machine.result is None:
                settle_doubts(folded, recorder, in_doubt)
            if machine.result is not None:
                if watch.on_decided is not None:
                    watch.on_decided()
                return _ended(journal, writer, folded, hearing)
            people = _people(journal, run_id, present, folded.posed)
            if _is_stuck(folded, people):
                return _stands(writer, folded, hearing)
            doubtful = folded.in_doubt()
            commands = [_rest(folded, key) for key in folded.waiting if key not in doubtful]
            if ports is None:
                ports = await stack.enter_async_context(ports_for(folded.start, plan))
            writer.know(ports.known)
            writer.set_status(RunStatus.RUNNING)
            kept = _Kept(journal, writer, plan, people, beside)
            with _gateway(journal, run_id, folded, ports) as gateway:
                return await _drive(kept, folded, commands, gateway, hearing, watch.on_driver)


def _change(
    folded: Folded,
    recorder: JournalRecorder,
    limits: Callable[[Limits], Limits] | None,
    policy: Policy | None,
) -> None:
    """Write down what holds from now on, and that a graph which has failed goes on."""
    machine = folded.machine
    has_failed = machine.result is not None
    bounds = machine.limits if limits is None else limits(machine.limits)
    if limits is not None or policy is not None:
        bounds = bounded(bounds, policy or folded.policy)
    if bounds != machine.limits:
        folded.take(recorder.event(LimitsChanged(bounds)))
    if policy is not None:
        folded.take(recorder.event(PolicyChanged(policy)))
    if has_failed:
        folded.take(recorder.event(Reopened()))


@contextmanager
def _gateway(journal: Journal, run_id: str, folded: Folded, ports: Ports) -> Generator[Gateway]:
    """The way out of a run; under a policy a guarded one."""
    if ports.blocks is not None:
        from callsheet.runtime.briefing import with_blocks  # noqa: PLC0415 - only where agents get blocks

        ports = with_blocks(ports, journal)
    machine, enforcement = folded.machine, folded.enforcement
    facts, at_once = folded.facts, machine.limits.max_concurrency_by_tool
    if enforcement is None:
        yield Gateway(ports, run_id, facts, at_once)
        return
    with open_labels(journal.path) as store:
        tasks = Tasks(tasks_of(folded.machine), folded.book.began.get)
        guard = Guard(enforcement.policy, plan_hash(machine.program.plan), store, tasks=tasks)
        yield GuardedGateway(ports, run_id, guard, facts, at_once)


def _plan_of(journal: Journal, run_id: str) -> Plan:
    info = journal.find_run(run_id)
    return journal.plan(info.plan_hash)[0]


class _Kept(NamedTuple):
    """Where a run is written down."""

    journal: Journal
    writer: RunWriter
    plan: Plan
    people: People
    beside: Beside = at_once

    async def stands(self) -> Folded:
        """How the run stands by its journal now, worked out beside the loop."""
        return await to_its_end(self.beside, lambda: stand(self.journal, self.writer, self.plan))


def _people(
    journal: Journal, run_id: str, present: Respondents, posed: Mapping[str, Posed] | None = None
) -> People:
    return People(run_id, Opening(journal, run_id), present, dict(posed or {}))


def _is_stuck(folded: Folded, people: People) -> bool:
    """Whether only decisions and answers carry the run on, none is there and nobody would give one now."""
    if folded.has_more_to_do():
        return False
    asks = [c for c in folded.waiting.values() if isinstance(c, Ask)]
    if asks and (people.present.on_ask is not None or people.present.waits):
        return False
    letters = people.letters() if asks and people.letters is not None else []
    if any(people.found(ask, letters) is not None for ask in asks):
        return False
    return bool(folded.in_doubt()) or 0 < len(asks) == len(folded.waiting)


async def _drive(
    kept: _Kept,
    folded: Folded,
    commands: list[Command],
    gateway: Gateway,
    hearing: Hearing,
    on_driver: Callable[[LocalDriver], None] | None,
) -> RunOutcome:
    journal, writer, _, people, _ = kept
    recorder = JournalRecorder(writer, journal.durability, folded=folded, people=people)
    driver = LocalDriver(
        folded.machine, gateway, recorder, hearing.after_batch, seconds=folded.seconds, people=people
    )
    recorder.seconds = lambda: driver.seconds
    if on_driver is not None:
        on_driver(driver)
    try:
        with Heeding(journal, writer.run_id, driver):
            result = await driver.run(commands)
    finally:
        seconds = driver.seconds
        recorder.seconds = lambda: seconds  # no circle of references stays behind
    if result is None:
        return _stands(writer, await kept.stands(), hearing)
    result = result.timed(round(driver.seconds, 3))
    recorder.end(result)
    unsettled = recorder.commit()
    if unsettled is not None:
        await unsettled
    if result.status is Status.DONE:
        return RunOutcome(writer.run_id, result, usage=result.usage)
    left = doubtful_calls(await kept.stands())
    return RunOutcome(writer.run_id, result, left, usage=result.usage)


def _ended(journal: Journal, writer: RunWriter, folded: Folded, hearing: Hearing) -> RunOutcome:
    """A run whose events lead to its end, with the calls that had left then and gave no answer."""
    result = close_run(journal, writer, folded)
    hearing.release()
    return RunOutcome(writer.run_id, result, doubtful_calls(folded), usage=folded.usage())


def _stands(writer: RunWriter, folded: Folded, hearing: Hearing) -> RunOutcome:
    """Write down what a run waits for that cannot go on by itself, and give it."""
    doubtful, unanswered = doubtful_calls(folded), unanswered_calls(folded)
    waiting: list[PendingAsk] = []
    for key, command in folded.waiting.items():
        if isinstance(command, Ask):
            posed = folded.posed.get(command.asked.digest) or Posed(time.time(), None)
            waiting.append(pending(writer.run_id, key, command.step, readable(command.asked), posed))
    if doubtful:
        writer.set_status(RunStatus.IN_DOUBT)
    elif unanswered and not waiting:
        writer.set_status(RunStatus.RUNNING)
    else:
        dues = [ask.until for ask in waiting if ask.until is not None]
        writer.set_status(RunStatus.WAITING, min(dues, default=None))
    writer.commit()
    hearing.release()
    return RunOutcome(writer.run_id, None, doubtful, tuple(waiting), unanswered, folded.usage())


def _rest(folded: Folded, key: str) -> Command:
    """A command to carry out again; of a wait, what is left of it."""
    command = folded.waiting[key]
    due = folded.due.get(key)
    if isinstance(command, Sleep) and due is not None:
        return command._replace(seconds=max(0.0, min(command.seconds, due - time.time())))
    return command


def check_pins(start: Start, pins: Mapping[str, str]) -> None:
    """Refuse to go on with tools that are not those the run was started with.

    Raises JournalError (JRN021) that names the tools whose declaration changed.
    """
    changed = sorted(name for name, pin in start.pins.items() if name in pins and pins[name] != pin)
    if changed:
        raise JournalError(
            "JRN021",
            "the declaration of "
            + ", ".join(f"@{name}" for name in changed)
            + " is not what it was at the start",
            way_out="look at what changed (`callsheet tools`), then resume with --accept-changed-tools",
        )
