"""Drives a journaled run to its end, or until it waits for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

from callsheet.ir import Plan, plan_hash
from callsheet.machine import Ask, Command, Sleep, Status
from callsheet.runtime.answers import PendingAsk, pending, readable
from callsheet.runtime.asking import People, Respondents
from callsheet.runtime.cancelling import CancelOnRequest
from callsheet.runtime.doubt import (
    RunOutcome,
    close_run,
    doubtful_calls,
    unanswered_calls,
    unfinished,
    verified_state,
)
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.guard import Guard, GuardedGateway
from callsheet.runtime.inbox import Opening
from callsheet.runtime.journaled_notes import JournaledNotes
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.offloading import Offload, at_once, to_its_end
from callsheet.runtime.recording import JournalRecorder
from callsheet.runtime.tokens import Tasks, tasks_of
from callsheet.store import Journal, RunStatus, RunWriter
from callsheet.store.folded import Folded
from callsheet.store.label_transfer import open_labels
from callsheet.store.snapshots import AskTimes, SideRecord


@contextmanager
def gateway_of(journal: Journal, run_id: str, folded: Folded, ports: Ports) -> Generator[Gateway]:
    """The gateway of a run; under a policy a guarded one."""
    if ports.blocks is not None:
        from callsheet.runtime.briefing import with_blocks  # noqa: PLC0415 - only if agents get blocks

        ports = with_blocks(ports, journal)
    machine, enforcement = folded.machine, folded.enforcement
    facts, most_at_once = folded.facts, machine.limits.max_concurrency_by_tool
    if enforcement is None:
        gateway = Gateway(ports, run_id, facts, most_at_once)
        gateway.declared = lambda: journal.declared(run_id)
        yield gateway
        return
    with open_labels(journal.path) as store:
        tasks = Tasks(tasks_of(folded.machine), folded.side_record.first_asked)
        guard = Guard(enforcement.policy, plan_hash(machine.program.plan), store, tasks=tasks)
        gateway = GuardedGateway(ports, run_id, guard, facts, most_at_once)
        gateway.declared = lambda: journal.declared(run_id)
        yield gateway


class JournalOptions(NamedTuple):
    """Where a run is recorded."""

    journal: Journal
    writer: RunWriter
    plan: Plan
    people: People
    offload: Offload = at_once

    async def folded_state(self) -> Folded:
        """The state of the run folded from its journal, computed outside the loop."""
        return await to_its_end(self.offload, lambda: verified_state(self.journal, self.writer, self.plan))


def people_of(
    journal: Journal, run_id: str, present: Respondents, side_record: SideRecord | None = None
) -> People:
    """Who answers the questions of a run: those `present`, and the inbox of its journal.

    Questions that its `side_record` has as posed stay open.
    """
    if side_record is None:
        return People(run_id, Opening(journal, run_id), present)
    return People(
        run_id, Opening(journal, run_id), present, dict(side_record.posed), dict(side_record.posed_before)
    )


async def drive(
    options: JournalOptions,
    folded: Folded,
    commands: list[Command],
    gateway: Gateway,
    journaled: JournaledNotes,
    on_driver: Callable[[LocalDriver], None] | None,
) -> RunOutcome:
    """Carry out commands of a run and what follows until it ends or waits; record how it ended."""
    journal, writer, _, people, _ = options
    recorder = JournalRecorder(writer, journal.durability, folded=folded, people=people)
    driver = LocalDriver(
        folded.machine, gateway, recorder, journaled.after_batch, seconds=folded.seconds, people=people
    )
    recorder.seconds = lambda: driver.seconds
    if on_driver is not None:
        on_driver(driver)
    try:
        with CancelOnRequest(journal, writer.run_id, driver):
            result = await driver.run(commands)
    finally:
        seconds = driver.seconds
        recorder.seconds = lambda: seconds  # breaks a reference cycle
    if result is None:
        return record_waiting(writer, await options.folded_state(), journaled)
    result = result.timed(round(driver.seconds, 3))
    recorder.end(result)
    unsettled = recorder.commit()
    if unsettled is not None:
        await unsettled
    if result.status is Status.DONE:
        return RunOutcome(writer.run_id, result, usage=result.usage)
    in_doubt = doubtful_calls(await options.folded_state())
    return RunOutcome(writer.run_id, result, in_doubt, usage=result.usage)


def ended(journal: Journal, writer: RunWriter, folded: Folded, journaled: JournaledNotes) -> RunOutcome:
    """The outcome of a run whose events lead to its end, with the calls that had left without an outcome."""
    result = close_run(journal, writer, folded)
    journaled.release()
    return RunOutcome(writer.run_id, result, doubtful_calls(folded), usage=folded.usage())


def record_waiting(writer: RunWriter, folded: Folded, journaled: JournaledNotes) -> RunOutcome:
    """Record and return what a run waits for that cannot go on by itself."""
    doubtful, unanswered = doubtful_calls(folded), unanswered_calls(folded)
    waiting: list[PendingAsk] = []
    for key, command in folded.waiting.items():
        if isinstance(command, Ask):
            posed = folded.posed.get(command.asked.digest) or AskTimes(time.time(), None)
            waiting.append(pending(writer.run_id, key, command.step, readable(command.asked), posed))
    if doubtful:
        writer.set_status(RunStatus.IN_DOUBT)
    elif unanswered and not waiting:
        writer.set_status(RunStatus.RUNNING)
    else:
        dues = [ask.until for ask in waiting if ask.until is not None]
        writer.set_status(RunStatus.WAITING, min(dues, default=None))
    writer.commit()
    journaled.release()
    return unfinished(writer.run_id, folded, doubtful, tuple(waiting), unanswered)


def remaining_command(folded: Folded, key: str) -> Command:
    """A command to carry out again; for a wait, its remaining time."""
    command = folded.waiting[key]
    due = folded.due.get(key)
    if isinstance(command, Sleep) and due is not None:
        return command._replace(seconds=max(0.0, min(command.seconds, due - time.time())))
    return command
