"""Drives a journaled run to its end, or until it waits for people."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Plan, plan_hash
from callsheet.ir.failing import Failing
from callsheet.lazy import deferred
from callsheet.machine import (
    AgentTurn,
    Ask,
    Command,
    Fact,
    Failed,
    Probe,
    RunAgent,
    Sleep,
    Status,
    TimerFired,
    to_text,
)
from callsheet.machine.keys import visit_of
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.answers import PendingAsk, readable
from callsheet.runtime.asking import People, Respondents, site_in
from callsheet.runtime.cancelling import cancel_asked
from callsheet.runtime.doubt import (
    Resolution,
    RunOutcome,
    close_run,
    doubtful_calls,
    unanswered_calls,
    unfinished,
    verified_state,
)
from callsheet.runtime.event_loop import Offload, at_once, to_its_end
from callsheet.runtime.gateway import NOT_SENT, NOTES, Gateway, Ports
from callsheet.runtime.inbox import Opening
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.recording import CANCEL, JournaledNotes, JournalRecorder
from callsheet.store import RunStatus, RunWriter
from callsheet.store.folded import Folded
from callsheet.store.journal import Journal
from callsheet.store.pauses import PAUSE, RunPause
from callsheet.store.run_index import facts_of_rest

if TYPE_CHECKING:
    from callsheet.runtime import capabilities, pausing
    from callsheet.runtime.pausing import PauseAsked
    from callsheet.store import branch as branches
    from callsheet.store import label_transfer
    from callsheet.store.kept_calls import KeptCalls
    from callsheet.trace.lctl.model import Handoff
    from callsheet.trace.lctl.receive import Reply
else:
    branches = deferred("callsheet.store.branch")
    label_transfer = deferred("callsheet.store.label_transfer")
    capabilities = deferred("callsheet.runtime.capabilities")
    pausing = deferred("callsheet.runtime.pausing")


@contextmanager
def gateway_of(
    journal: Journal, run_id: str, folded: Folded, ports: Ports, kept: KeptCalls | None = None
) -> Generator[Gateway]:
    """The gateway of a run; under a policy a guarded one. Calls that are `kept` are not sent."""
    if ports.blocks is not None:
        ports = with_blocks(ports, journal)
    machine, enforcement = folded.machine, folded.enforcement
    facts, most_at_once = folded.facts, machine.limits.max_concurrency_by_tool
    if enforcement is None:
        gateway = Gateway(ports, run_id, facts, most_at_once)
        gateway.declared, gateway.kept = lambda: journal.declared(run_id), kept
        yield gateway
        return
    from callsheet.runtime.guard import Guard, GuardedGateway  # noqa: PLC0415 - only under a policy

    with label_transfer.open_labels(journal.path) as store:
        tasks = capabilities.Tasks(capabilities.tasks_of(folded.machine), folded.side_record.first_asked)
        guard = Guard(enforcement.policy, plan_hash(machine.program.plan), store, tasks=tasks)
        gateway = GuardedGateway(ports, run_id, guard, facts, most_at_once)
        gateway.declared, gateway.kept = lambda: journal.declared(run_id), kept
        yield gateway


class JournalOptions(NamedTuple):
    """Where a run is recorded; `in_doubt` decides about calls that were in doubt in an earlier run."""

    journal: Journal
    writer: RunWriter
    plan: Plan
    people: People
    offload: Offload = at_once
    in_doubt: Resolution | None = None

    async def folded_state(self) -> Folded:
        """The state of the run folded from its journal, computed outside the loop."""
        return await to_its_end(self.offload, lambda: verified_state(self.journal, self.writer, self.plan))


def people_of(journal: Journal, writer: RunWriter, present: Respondents, folded: Folded) -> People:
    """Who answers the questions of the writer's run: those `present`, and the inbox of its journal.

    Questions that are posed in its journal stay open.
    """
    record = folded.side_record
    posed, before = dict(record.posed), dict(record.posed_before)
    run_id = writer.run_id
    people = People(run_id, Opening(journal, run_id, writer), present, posed, before, folded.policy)

    plans = cache(journal.plan)
    people.site = lambda key, asked: site_in(plans, key, asked)
    return people


POLL = 0.5
"""Seconds between an owner's polls of its inbox."""
_log = logging.getLogger("callsheet")


class Requests:
    """A context in which a driver is cancelled or paused when a message requests it; `pause` says by whom."""

    def __init__(self, journal: Journal, run_id: str, driver: LocalDriver) -> None:
        self.pause: PauseAsked | None = None
        self._journal = journal
        self._run_id = run_id
        self._driver = driver
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Requests:
        self._timer = asyncio.get_running_loop().call_later(POLL, self._look)
        self._driver.on_asked = self._look_now
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.on_asked = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._look()

    def _look(self) -> None:
        try:
            topics = {message.topic for message in self._journal.mailbox.unread(self._run_id)}
            cancellation = cancel_asked(self._journal, self._run_id) if CANCEL in topics else None
            if self.pause is None and PAUSE in topics:
                self.pause = pausing.pause_asked(self._journal, self._run_id)
        except CallsheetError as error:
            # The journal is unreadable now; the run itself will notice when it writes.
            _log.warning("%s: the inbox cannot be read: %s", error.diagnostics[0].code, error)
            cancellation = None
        if cancellation is not None:
            self._driver.cancel(cancellation.reason)
            return
        if self.pause is not None:
            self._driver.pause()
        self.__enter__()


async def drive(
    options: JournalOptions,
    folded: Folded,
    commands: list[Command],
    gateway: Gateway,
    journaled: JournaledNotes,
    watch: Watch,
) -> RunOutcome:
    """Carry out commands of a run and what follows until it ends or waits; record how it ended."""
    journal, writer, people = options.journal, options.writer, options.people
    gateway.tasks = dict(folded.side_record.tasks)
    recorder = JournalRecorder(writer, journal.durability, folded=folded, people=people)
    driver = LocalDriver(
        folded.machine,
        gateway,
        recorder,
        journaled.after_batch,
        seconds=folded.seconds,
        people=people,
        pace=watch.pace,
    )
    recorder.seconds, recorder.verdict = lambda: driver.seconds, options.in_doubt
    if watch.on_driver is not None:
        watch.on_driver(driver)
    try:
        with Requests(journal, writer.run_id, driver) as requests:
            result = await driver.run(commands)
    finally:
        seconds = driver.seconds
        recorder.seconds = lambda: seconds  # breaks a reference cycle
    if result is None and requests.pause is not None:
        folded = await options.folded_state()
        pause = pausing.record_pause(writer, folded, requests.pause, driver.unsent)
        return await paused_outcome(options, folded, journaled, pause)
    if result is None:
        return await record_waiting(options, await options.folded_state(), journaled)
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


async def _open_asks(options: JournalOptions, folded: Folded) -> tuple[PendingAsk, ...]:
    """What a run has asked people, as it is shown to them, with the lines of its plans."""
    people = options.people

    def shown() -> Iterator[PendingAsk]:
        for key, command, posed in folded.open_asks():
            yield people.shown(key, command.step, readable(command.asked), posed)

    return await to_its_end(options.offload, lambda: tuple(shown()))


async def paused_outcome(
    options: JournalOptions, folded: Folded, journaled: JournaledNotes, pause: RunPause
) -> RunOutcome:
    """The outcome of a run that is paused, with what it waits for besides."""
    journaled.release()
    asks = await _open_asks(options, folded)
    return replace(unfinished(options.writer.run_id, folded, doubtful_calls(folded), asks), pause=pause)


async def record_waiting(options: JournalOptions, folded: Folded, journaled: JournaledNotes) -> RunOutcome:
    """Record and return what a run waits for that cannot go on by itself."""
    writer, waiting = options.writer, await _open_asks(options, folded)
    doubtful, unanswered = doubtful_calls(folded), unanswered_calls(folded)
    facts = facts_of_rest(folded)
    if doubtful:
        writer.set_status(RunStatus.IN_DOUBT, facts=facts)
    elif unanswered and not waiting:
        writer.set_status(RunStatus.RUNNING)
    else:
        dues = [ask.until for ask in waiting if ask.until is not None]
        writer.set_status(RunStatus.WAITING, min(dues, default=None), facts)
    writer.commit()
    journaled.release()
    return unfinished(writer.run_id, folded, doubtful, waiting, unanswered)


def end_overdue(folded: Folded, recorder: JournalRecorder) -> None:
    """Let timers fire that are due before anything is sent again; their commands are in `waiting` then.

    A call that nobody has sent, and whose task ends, fails without being sent; one that was in doubt, and is
    to be repeated, is sent.
    """
    now = time.time()
    for key, due in sorted(folded.due.items(), key=lambda timer: timer[1]):
        if due <= now and isinstance(folded.waiting.get(key), Sleep):
            folded.feed(recorder.event(TimerFired(key)))
    sent = folded.launched.keys() | folded.decided.keys()
    for key, command in tuple(folded.waiting.items()):
        if key in sent or isinstance(command, Ask | Probe | Sleep):
            continue
        why = folded.machine.why_ended(key)
        if why:
            folded.feed(recorder.event(Failed(key, NOT_SENT.format(why=why), kind=Failing.CANCELLED.value)))


def remaining_command(folded: Folded, key: str) -> Command:
    """A command to carry out again; for a wait, its remaining time."""
    command = folded.waiting[key]
    due = folded.due.get(key)
    if isinstance(command, Sleep) and due is not None:
        return command._replace(seconds=max(0.0, min(command.seconds, due - time.time())))
    return command


async def keep_notes(journal: Journal, run_id: str, plan: Plan, gateway: Gateway, offload: Offload) -> None:
    """Restore the notes of a run that branched off; does nothing for other runs."""
    if journal.find_run(run_id).parent_run is None or not gateway.is_builtin(NOTES):
        return
    events = journal.opener(run_id).events(journal.events(run_id))
    for call in await offload(lambda: branches.calls_done(plan, events, journal.plan_of, NOTES)):
        await gateway.keep_again(call)


_C = TypeVar("_C", RunAgent, AgentTurn)
_LONGEST = 4_000
"""Maximum length in characters of a goal in a block."""
_MOST_NAMED = 8
"""Maximum number of facts that a message names."""


class BlockRule(StrEnum):
    """What happens to an answer whose LCTL block expresses doubts."""

    FLAG = "flag"
    """They are noted beside the answer."""
    BLOCK = "block"
    """A fact below 0.40, or a block that breaks a rule, fails the step."""
    REVIEW = "review"
    """For those, and for a fact below 0.60, a person must approve the answer."""


def with_blocks(ports: Ports, journal: Journal) -> Ports:
    """The ports, wrapped to hand out blocks if they have a rule for them."""
    if ports.blocks is None:
        return ports
    briefings = _Briefings(journal, BlockRule(ports.blocks))
    return replace(
        ports,
        agent=None if ports.agent is None else briefings.briefed(ports.agent),
        turn=None if ports.turn is None else briefings.briefed(ports.turn),
    )


class _Briefings:
    """Writes blocks for agents and checks theirs; the block is built once per visit of a step."""

    def __init__(self, journal: Journal, rule: BlockRule) -> None:
        self._journal = journal
        self._rule = rule
        self._handoffs: dict[str, Handoff | None] = {}

    def briefed(
        self, port: Callable[[_C, CallContext], Awaitable[JSON]]
    ) -> Callable[[_C, CallContext], Awaitable[JSON]]:
        """Wrap a port for agents: as a whole, or turn by turn, where the last turn may return a block."""

        async def solve(command: _C, context: CallContext) -> JSON:
            handed = await self._hand_off(context, command)
            value = await port(command, context)
            self._receive(handed, context)
            return value

        return solve

    async def _hand_off(self, context: CallContext, command: RunAgent | AgentTurn) -> Handoff | None:
        label = visit_of(context.key)
        if label not in self._handoffs:
            self._handoffs[label] = await asyncio.to_thread(self._briefing, context.run_id, label)
        handoff = self._handoffs[label]
        if handoff is None:
            return None
        goal = command.args.get("goal") or next(iter(command.inputs), "")
        from callsheet.trace.lctl.write import write  # noqa: PLC0415 - only for agents with blocks

        handed = replace(handoff, instruction=to_text(goal)[:_LONGEST] or "Solve the step.")
        context.handed = write(handed)
        return handed

    def _briefing(self, run_id: str, label: str) -> Handoff | None:
        from callsheet.trace.projection.post_mortem import briefing_of  # noqa: PLC0415 - only for agents with blocks
        from callsheet.trace.projection.recording import record_of  # noqa: PLC0415 - as above

        try:
            plan = self._journal.plan(self._journal.find_run(run_id).plan_hash)[0]
            record = record_of(plan, self._journal.events(run_id), self._journal.plan_of)
        except CallsheetError:
            return None
        return briefing_of(record, run_id, label)

    def _receive(self, handed: Handoff | None, context: CallContext) -> None:
        if not context.returned.strip():
            return
        from callsheet.trace.lctl.receive import reply_to  # noqa: PLC0415 - only for agents with blocks
        from callsheet.trace.projection.recording import STATED  # noqa: PLC0415 - as above

        reply = reply_to(handed, context.returned)
        context.remark(Fact("lctl", reply.describe()))
        if reply.confidence is not None:
            context.remark(Fact(STATED, f"{reply.confidence:g}"))
        why = self._objection(reply)
        if why and self._rule is BlockRule.REVIEW:
            context.review = why
        elif why:
            raise ToolFailed(why)

    def _objection(self, reply: Reply) -> str:
        if self._rule is BlockRule.FLAG:
            return ""
        if reply.errors:
            return f"the agent's LCTL block breaks rules: {reply.errors[0].rule} {reply.errors[0].message}"
        if reply.blocked:
            return f"the agent's answer rests on uncertain facts: {_some(reply.blocked)} below 0.40"
        if reply.review and self._rule is BlockRule.REVIEW:
            return f"the agent is not sure enough of its answer: {_some(reply.review)} below 0.60"
        return ""


def _some(facts: Sequence[str]) -> str:
    """The first of these ids, which the agent has chosen."""
    from callsheet.trace.lctl.model import shown_ids  # noqa: PLC0415 - only for agents with blocks

    more = len(facts) - _MOST_NAMED
    return shown_ids(facts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
