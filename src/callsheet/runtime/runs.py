"""Runs from start to end: a new one, or one that its journal tells of, taken up again.

In: a plan or a run's id, the ports, a journal. Out: how the run ended, or the calls that a
person has to decide about.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from callsheet.ir import JSON, Plan
from callsheet.machine import (
    CallTool,
    Command,
    Decided,
    Decision,
    Limits,
    LimitsChanged,
    Machine,
    Reopened,
    Result,
    RunAgent,
    Sleep,
    Started,
    ToolFacts,
    Usage,
    compile_plan,
)
from callsheet.machine.machine import Observer
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.local import SLICE, LocalDriver
from callsheet.runtime.recording import JournalRecorder
from callsheet.store import EventType, Journal, JournalError, RunStatus, RunWriter
from callsheet.store.ids import new_run_id
from callsheet.store.records import Start
from callsheet.store.replay import Folded, begin
from callsheet.store.stand import stand_of


@dataclass(frozen=True, slots=True)
class DoubtfulCall:
    """A call that left before a crash, has no outcome, and must not be repeated unasked.

    `since` is the wall time at which it left, in seconds since 1970.
    """

    key: str
    step: str
    tool: str
    args: dict[str, JSON]
    since: float


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Where a run stands: it has a result, or it waits for a decision about calls in doubt."""

    run_id: str
    result: Result | None
    in_doubt: tuple[DoubtfulCall, ...] = ()
    usage: Usage = field(default_factory=Usage, compare=False, repr=False)
    """What the run has used so far."""


@dataclass(frozen=True, slots=True)
class Launch:
    """All that a run is started with besides its plan and its ports.

    `facts` and `pins` tell of the tools that the plan calls; `note` is kept with the run for
    the face that started it. `source` is the text of the plan.
    """

    facts: Mapping[str, ToolFacts] = field(default_factory=dict[str, ToolFacts])
    pins: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    limits: Limits = field(default_factory=Limits)
    source: str = ""
    note: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


@dataclass(frozen=True, slots=True)
class Watch:
    """Who wants to know how a run goes: each note as it happens, and a call after each batch."""

    observer: Observer | None = None
    after_batch: Callable[[], Awaitable[None]] | None = None
    on_driver: Callable[[LocalDriver], None] | None = None
    """Is given the driver before the run goes on, to be able to cancel it."""
    hears_all: bool = True
    """Whether the observer of a resumed run hears of all that has happened; a long run is then folded
    from its start, where its last snapshot would do."""


_NOBODY = Watch()


async def run_unrecorded(
    plan: Plan, ports: Ports, launch: Launch, watch: Watch = _NOBODY, run_id: str | None = None
) -> Result:
    """Run a plan without a journal: nothing of it outlives the process.

    `run_id` should be one that no other run has, so that tools do not take its calls for those of
    another; by default it is a new one.
    """
    machine = Machine(compile_plan(plan, launch.facts), launch.limits, watch.observer)
    driver = LocalDriver(machine, Gateway(ports, run_id or new_run_id()), None, watch.after_batch)
    if watch.on_driver is not None:
        watch.on_driver(driver)
    result = await driver.run(machine.feed(Started(launch.inputs), SLICE))
    assert result is not None  # without a journal nothing falls into doubt
    return _timed(result, driver)


def _timed(result: Result, driver: LocalDriver) -> Result:
    """The result with the time that the run has taken."""
    return replace(result, usage=replace(result.usage, seconds=round(driver.seconds, 3)))


async def start_run(
    plan: Plan, ports: Ports, launch: Launch, journal: Journal, run_id: str, watch: Watch = _NOBODY
) -> RunOutcome:
    """Start a run and carry it to its end.

    Raises JournalError where the journal cannot take it, CallsheetError for a plan that
    cannot run.
    """
    start = Start(
        dict(launch.inputs), dict(launch.facts), launch.limits, dict(launch.pins), dict(launch.note)
    )
    folded = begin(plan, start, watch.observer)
    with journal.create_run(run_id, plan, launch.source, start.to_json()) as writer:
        commands = folded.machine.feed(Started(start.inputs), SLICE)
        kept = _Kept(journal, writer, plan)
        return await _drive(kept, folded, commands, Gateway(ports, run_id, start.facts), watch)


PortsFor = Callable[[Start, Plan], AbstractAsyncContextManager[Ports]]
"""Opens the ports again for a run that was started this way; may refuse with CallsheetError."""


async def resume_run(
    journal: Journal,
    run_id: str,
    ports_for: PortsFor,
    in_doubt: Decision | None = None,
    watch: Watch = _NOBODY,
    limits: Callable[[Limits], Limits] | None = None,
) -> RunOutcome:
    """Take a run up where its journal ends; a run that has ended gives its result again.

    A plan of dependencies that failed goes on with what failed and what waited for that.
    No finished call is made again. Calls in doubt are decided by `in_doubt`; without it the
    outcome lists them and nothing is launched. `limits` makes, of the limits that the run has,
    those that hold from now on. Raises JournalError where the run is unknown,
    damaged, or owned by a process that lives.
    """
    plan = _plan_of(journal, run_id)
    with journal.claim(run_id) as writer:
        folded = _stand(journal, writer, plan, watch)
        if folded.machine.result is not None and not folded.machine.may_reopen:
            return RunOutcome(run_id, _close(journal, writer, folded), usage=folded.usage())
        doubtful = folded.in_doubt()
        if doubtful and in_doubt is None:
            return RunOutcome(run_id, None, _ask(writer, folded), folded.usage())
        recorder = JournalRecorder(writer, journal.durability, folded=folded)
        if limits is not None and limits(folded.machine.limits) != folded.machine.limits:
            folded.machine.feed(recorder.event(LimitsChanged(limits(folded.machine.limits))))
        commands: list[Command] = [_rest(folded, key) for key in folded.waiting if key not in doubtful]
        for key in doubtful:
            assert in_doubt is not None
            commands += folded.machine.feed(recorder.event(Decided(key, in_doubt)))
        if folded.machine.result is not None:
            commands = folded.machine.feed(recorder.event(Reopened()))
        async with ports_for(folded.start, plan) as ports:
            writer.set_status(RunStatus.RUNNING)
            kept = _Kept(journal, writer, plan)
            gateway = Gateway(ports, run_id, folded.facts)
            return await _drive(kept, folded, commands, gateway, watch)


def _stand(journal: Journal, writer: RunWriter, plan: Plan, watch: Watch = _NOBODY) -> Folded:
    """The run as it stands; one whose events are not those that were written is marked as corrupt."""
    observer = watch.observer
    is_whole = observer is not None and watch.hears_all
    stands = stand_of(journal, writer.run_id, plan, observer, from_start=is_whole)
    if isinstance(stands, Folded):
        return stands
    writer.set_status(RunStatus.CORRUPT)
    writer.commit()
    raise JournalError(
        "JRN012",
        f"the journal of run {writer.run_id} is damaged at event {stands.seq}: {stands.why}",
        way_out="restore the journal from a copy, or export what is whole of it: `callsheet runs salvage`",
    )


def _plan_of(journal: Journal, run_id: str) -> Plan:
    info = journal.find_run(run_id)
    return journal.plan(info.plan_hash)[0]


class _Kept(NamedTuple):
    """Where a run is written down."""

    journal: Journal
    writer: RunWriter
    plan: Plan


async def _drive(
    kept: _Kept, folded: Folded, commands: list[Command], gateway: Gateway, watch: Watch
) -> RunOutcome:
    journal, writer, plan = kept
    recorder = JournalRecorder(writer, journal.durability, folded=folded)
    driver = LocalDriver(folded.machine, gateway, recorder, watch.after_batch, folded.seconds)
    if watch.on_driver is not None:
        watch.on_driver(driver)
    result = await driver.run(commands)
    if result is None:
        stands = _stand(journal, writer, plan)
        return RunOutcome(writer.run_id, None, _ask(writer, stands), stands.usage())
    result = _timed(result, driver)
    recorder.end(result)
    unsettled = recorder.commit()
    if unsettled is not None:
        await unsettled
    return RunOutcome(writer.run_id, result, usage=result.usage)


def _close(journal: Journal, writer: RunWriter, folded: Folded) -> Result:
    """The result of a run whose events lead to its end, written down if that was still missing."""
    assert folded.machine.result is not None
    result = replace(folded.machine.result, usage=folded.usage())
    if not folded.ended:
        JournalRecorder(writer, journal.durability).end(result)
        writer.commit()
    return result


def _ask(writer: RunWriter, folded: Folded) -> tuple[DoubtfulCall, ...]:
    """Write down which calls are in doubt, once, and give them."""
    calls: list[DoubtfulCall] = []
    for key, command in folded.in_doubt().items():
        assert isinstance(command, CallTool | RunAgent)
        calls.append(DoubtfulCall(key, command.step, command.tool, dict(command.args), folded.launched[key]))
        if key not in folded.asked:
            writer.append(EventType.IN_DOUBT, key=key, step=command.step, body={"tool": command.tool})
    writer.set_status(RunStatus.IN_DOUBT)
    writer.commit()
    return tuple(calls)


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
