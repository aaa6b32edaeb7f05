"""The host of runs: starts, carries on, ends and watches them, many at once, in one process.

In: orders. Out: ids of runs, whose journal tells everything else. A run is in the journal before its order
is answered, so that none is lost whatever becomes of the process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, TypeVar

from callsheet.api.given import id_of_run
from callsheet.apps.credentials import credentials_for
from callsheet.apps.hosting.attempts import MOST, PARDON, Attempts, given_up
from callsheet.apps.hosting.carried import Carried, Stage
from callsheet.apps.hosting.carrying import carry_on
from callsheet.apps.hosting.frost import Frost, Hold
from callsheet.apps.hosting.orders import ForkOrder, Order, RerunOrder, Resumption
from callsheet.apps.hosting.preparing import House, prepare
from callsheet.apps.hosting.revising import consented, revised
from callsheet.apps.hosting.reviving import Left, left_by
from callsheet.apps.hosting.shared import SharedTools
from callsheet.apps.hosting.telling import told_outcome
from callsheet.apps.hosting.waking import Waking
from callsheet.apps.hosting.watching import Sight, Standing, follow
from callsheet.apps.operations.runs import shown_status
from callsheet.apps.session import Setup
from callsheet.apps.veil import Veil
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.machine import Limits
from callsheet.policy.model import Policy
from callsheet.ports.tools import Tool
from callsheet.runtime import forking
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.cancelling import PATIENCE, cancel_run
from callsheet.runtime.doubt import Resolution, RunOutcome, decide_calls
from callsheet.runtime.inbox import answer_run, asks_of
from callsheet.runtime.launch import Watch
from callsheet.runtime.runs import enlist_run
from callsheet.store import Journal, JournalError
from callsheet.store.errors import run_exists
from callsheet.store.events import Event
from callsheet.store.owned import is_owned
from callsheet.store.place import place_of
from callsheet.store.reader import RunInfo

_T = TypeVar("_T")
_log = logging.getLogger("callsheet.hosting")
_READERS = 8
_MOST_PROBLEMS = 1_000


class Started(NamedTuple):
    """A run that is in the journal and goes on as soon as there is a place; the warnings."""

    run_id: str
    diagnostics: tuple[Diagnostic, ...] = ()


class Host:
    """Carries runs of one journal on the tools of one setup; an async context manager.

    At most `most_running` runs are under way at once, and `most_queued` wait for a place; more are refused
    (API011). All are held to `policy` and within `limits`. Leaving the context interrupts what is under way:
    the journal carries it on, here or elsewhere. `say` hears what is noteworthy.
    `more_tools` are there besides those of the setup. Runs that a host with a `name` starts are known by it:
    the next one of that name can `revive` them.
    """

    def __init__(  # noqa: PLR0913 - a name for each wish of an operator
        self,
        setup: Setup,
        journal: Journal,
        *,
        limits: Limits | None = None,
        policy: Policy | None = None,
        most_running: int = 16,
        most_queued: int = 1_000,
        say: Callable[[str], None] = _log.info,
        more_tools: Iterable[Tool] = (),
        name: str = "",
    ) -> None:
        self.journal = journal
        self.tools = SharedTools(setup, more_tools)
        self.veil = Veil(setup.settings.secrets.shapes)
        bounds = limits or setup.settings.limits
        self.house = House(self.tools, bounds, policy, say, self.beside, journal.path, name)
        self._most = most_running + most_queued
        self._places = asyncio.Semaphore(most_running)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="callsheet-host")
        self._carried: dict[str, Carried] = {}
        self._problems: dict[str, CallsheetError] = {}
        self._waking = Waking(self.asks, self._go_on)
        self._attempts = Attempts(place_of(journal.path))
        self._pardon: asyncio.TimerHandle | None = None
        self._frost = Frost()
        self._beginning = 0
        """How many runs are being written into the journal now."""
        self._is_closing = False

    async def __aenter__(self) -> Host:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, patience: float = 0.0) -> None:
        """Take no more orders; wait so many seconds for what is under way, then interrupt it."""
        self._is_closing = True
        self._waking.stop()
        if self._pardon is not None:
            self._pardon.cancel()
        under_way = [run.task for run in self._carried.values() if run.stage is Stage.RUNNING]
        for run in tuple(self._carried.values()):
            if run.stage is Stage.QUEUED:
                await run.interrupt()
        if patience > 0 and under_way:
            await asyncio.wait(under_way, timeout=patience)
        await asyncio.gather(*(run.interrupt() for run in tuple(self._carried.values())))
        await self._waking.close()
        await self.tools.close()
        self._readers.shutdown(wait=True, cancel_futures=True)

    async def beside(self, look: Callable[[], _T], /) -> _T:
        """What `look` gives or raises, worked out in a thread while the event loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, look)

    # ------------------------------------------------------------ new runs

    async def start(self, order: Order) -> Started:
        """Check a plan, put its run into the journal, and carry it as soon as there is a place.

        Raises CallsheetError: all that speaks against the plan, JRN001 and JRN003 for its id, API011 where
        there is no place in the queue, API016 for a host that closes.
        """
        self._check_open()
        run_id = id_of_run(order.run_id)
        if self.journal.parts.reader.has_run(run_id):
            raise run_exists(run_id)
        steps = len(order.text.require().steps)
        hold = Hold(self._frost, steps)
        hold.begin()
        try:
            prepared = await prepare(order, self.house)
            self.veil.know(prepared.launch.known + prepared.known)
            with self._reserved():
                launch, known = prepared.launch, prepared.known
                await enlist_run(prepared.plan, known, launch, self.journal, run_id, self.beside)
                hold.built(steps)
                self._carry(run_id, Resumption(ears=order.ears), hold)
        except BaseException:
            hold.release()
            raise
        return Started(run_id, prepared.diagnostics)

    async def rerun(self, run_id: str, order: RerunOrder) -> Started:
        """Run a plan again from a step, as a new run; raises what `callsheet rerun` raises."""
        self._check_open()
        made = await self.beside(lambda: forking.rerun(self.journal, run_id, order.place, order.by))
        return await self._branch_off(made, order.run_id, order.terms, effects=order.effects)

    async def fork(self, run_id: str, order: ForkOrder) -> Started:
        """Go on from an event in a new run, with something edited; raises what `callsheet fork` raises."""
        self._check_open()
        edits, revision = order.edits, None
        known = await self.beside(lambda: credentials_for(self.journal, run_id))
        if edits.changes_plan:
            draft = await self.beside(lambda: forking.drafted(self.journal, run_id, edits, known))
            revision = await revised(draft, self.tools)
        made = await self.beside(lambda: forking.fork(self.journal, run_id, order.at, edits, revision, known))
        return await self._branch_off(made, order.run_id, order.terms, effects=order.effects)

    async def _branch_off(
        self, made: forking.Forking, name: str | None, terms: Resumption, *, effects: bool
    ) -> Started:
        consented(made, agreed=effects)
        new_id = id_of_run(name)
        with self._reserved():
            await self.beside(lambda: made.write(self.journal, new_id, self.house.name))
            if made.folded.machine.result is not None:
                await self.beside(lambda: forking.conclude(self.journal, new_id))
            else:
                self._carry(new_id, terms)
        return Started(new_id)

    # ------------------------------------------------------------ runs that there are

    def info(self, run_id: str) -> RunInfo:
        """The run of exactly this id; raises JournalError (JRN002) where there is none."""
        info = self.journal.find_run(run_id)
        if info.run_id != run_id:
            raise self.journal.parts.reader.unknown_run(run_id)
        return info

    def standing(self, run_id: str) -> Standing:
        """How a run stands now: as `callsheet runs` shows it, and `queued` where it waits for its place."""
        info = self.info(run_id)
        return Standing(self.status(info), info.events, info.status.is_final)

    def status(self, info: RunInfo) -> str:
        """The status of a run as people are told it."""
        carried = self._carried.get(info.run_id)
        if carried is not None and not info.status.is_final:
            return str(carried.stage)
        return shown_status(self.journal, info)

    def problem(self, run_id: str) -> CallsheetError | None:
        """Why the run could not be carried on here, the last time that it was tried."""
        return self._problems.get(run_id)

    def carried(self, run_id: str) -> Carried | None:
        """The run, where it is queued or under way here."""
        return self._carried.get(run_id)

    def all_carried(self) -> list[Carried]:
        """The runs that are queued or under way here."""
        return [*self._carried.values()]

    def watch(self, run_id: str, after: int = 0) -> AsyncGenerator[Event | Standing]:
        """The events of a run after a number, and those that come; see `watching.follow`."""
        return follow(Sight(self.journal, self.beside, self.carried, self.standing), run_id, after)

    async def resume(self, run_id: str, terms: Resumption | None = None) -> None:
        """Carry a run on as soon as there is a place; `problem` tells what kept it from that.

        Raises JournalError: JRN002 for an unknown run, JRN004 for one that is carried on here or elsewhere;
        API011 and API016 as `start` does. A run that has ended stays so.
        """
        self._check_open()
        await self.beside(lambda: self.info(run_id))
        if await self._is_elsewhere(run_id) or run_id in self._carried:
            raise JournalError(
                "JRN004",
                f"run {run_id} is carried on already",
                "watch it; it can be resumed when it stands still",
            )
        self._carry(run_id, terms or Resumption())

    async def revive(self) -> Left:
        """Carry on what a host of this `name` has left when it ended, as long as there is room.

        Runs that were queued or under way go on. Those that wait for people do when there is an answer, or
        when their time is over. A run with which its server has died again and again is left as it is, and
        `problem` says so. Gives the ids of all three.
        """
        left = await self.beside(lambda: left_by(self.house.name, self.journal))
        counts = {run_id: self._attempts.count(run_id) for run_id in left.interrupted}
        fatal = [run_id for run_id, count in counts.items() if count >= MOST]
        for run_id in fatal:
            self._problems[run_id] = given_up(run_id, counts[run_id])
        room = max(0, self._most - len(self._carried))
        others = [run_id for run_id in left.interrupted if counts[run_id] < MOST][:room]
        for run_id in others:
            self._go_on(run_id, is_revived=True)
        for run_id, asks in left.waiting.items():
            self._waking.see_to(run_id, asks)
        self._pardon = asyncio.get_running_loop().call_later(PARDON, self._attempts.pardon)
        return left._replace(interrupted=others, given_up=fatal)

    async def wait(self, run_id: str, patience: float | None = None) -> bool:
        """Wait until a run goes on no more here, up to so many seconds; whether it does not."""
        carried = self._carried.get(run_id)
        return carried is None or await carried.stopped(patience)

    async def outcome(self, run_id: str) -> RunOutcome:
        """Where a run stands when it goes on no more here, told by its journal: its secrets are sealed.

        Raises what kept it from being carried on, and JournalError as `Journal.events` does.
        """
        await self.wait(run_id)
        problem = self._problems.get(run_id)
        if problem is not None:
            raise problem
        return self.veil.outcome(await self.beside(lambda: told_outcome(self.journal, run_id)))

    async def cancel(
        self, run_id: str, reason: str = "cancelled", patience: float = PATIENCE
    ) -> RunOutcome | None:
        """End a run for good, wherever it is; None where it has been asked to and has not ended in time.

        Raises JournalError: JRN002 for an unknown run, JRN032 for one that has ended, JRN012 where its
        journal is damaged.
        """
        before = await self.beside(lambda: self.info(run_id))
        carried = self._carried.get(run_id)
        if carried is None or before.status.is_final:
            return await cancel_run(self.journal, run_id, reason, patience)
        began = time.monotonic()
        carried.cancel(reason)
        if not await carried.stopped(patience):
            return None
        task = carried.task
        if not task.cancelled() and task.exception() is None and task.result().result is not None:
            return task.result()
        left = max(0.0, patience - (time.monotonic() - began))
        return await cancel_run(self.journal, run_id, reason, left)

    async def decide(
        self, run_id: str, calls: list[str], verdict: Resolution, *, every: bool = False
    ) -> RunOutcome:
        """Decide what becomes of calls in doubt, as `callsheet decide` does; `resume` carries the run on."""
        await self.beside(lambda: self.info(run_id))
        return await self.beside(lambda: decide_calls(self.journal, run_id, calls, verdict, every=every))

    async def answer(
        self,
        run_id: str,
        answer: Answer | Callable[[PendingAsk], Answer],
        which: str | None = None,
        *,
        digest: str | None = None,
    ) -> PendingAsk:
        """Answer what a run asks, as `callsheet approve` does; a run that stands still here then goes on.

        Raises CallsheetError: JRN002, RUN030, RUN031.
        """
        await self.beside(lambda: self.info(run_id))
        ask = await self.beside(lambda: answer_run(self.journal, run_id, answer, which, digest=digest))
        self._go_on(run_id)
        return ask

    async def asks(self, run_id: str) -> list[PendingAsk]:
        """What a run has asked people and has not gone on from."""
        return await self.beside(lambda: asks_of(self.journal, run_id))

    # ------------------------------------------------------------ carrying

    def _check_open(self) -> None:
        if self._is_closing:
            raise CallsheetError.single(
                "API016",
                "callsheet is being stopped and takes no more runs",
                help="ask again when it is back",
            )
        count = len(self._carried) + self._beginning
        if count >= self._most:
            raise CallsheetError.single(
                "API011",
                f"{count} runs are under way or queued, and there is room for no more",
                help="ask again when some have ended",
            )

    @contextmanager
    def _reserved(self) -> Generator[None]:
        """Keep room for a run while it is written into the journal; raises as `_check_open`."""
        self._check_open()
        self._beginning += 1
        try:
            yield
        finally:
            self._beginning -= 1

    def _carry(
        self, run_id: str, terms: Resumption, hold: Hold | None = None, *, is_revived: bool = False
    ) -> None:
        """Queue a run that is in the journal; where the host has been closed meanwhile it stays there."""
        hold = hold or Hold(self._frost)
        if self._is_closing:
            hold.release()
            return
        self._waking.leave(run_id)
        self._problems.pop(run_id, None)
        if not is_revived:
            self._attempts.forget(run_id)

        async def work(watch: Watch) -> RunOutcome:
            if is_revived:
                self._attempts.begin(run_id)
            return await carry_on(self.journal, run_id, terms, self.veil, watch, self.house, hold)

        carried = Carried(run_id, self._places, work)
        self._carried[run_id] = carried
        carried.task.add_done_callback(lambda _: self._has_stopped(carried))
        carried.task.add_done_callback(lambda _: hold.release())

    def _has_stopped(self, carried: Carried) -> None:
        """Let go of a run that goes on no more, and see to what follows."""
        del self._carried[carried.run_id]
        self._attempts.close(carried.run_id)
        task = carried.task
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            if task.result().result is None:
                self._waking.see_to(carried.run_id, task.result().waiting)
            return
        if not isinstance(error, CallsheetError):
            _log.error("run %s has met a bug", carried.run_id, exc_info=error)
            error = CallsheetError.single(
                "API013", f"a bug of callsheet has stopped the run: {type(error).__name__}: {error}"
            )
        else:
            said = "; ".join(f"{d.code}: {d.message}" for d in self.veil.error(error).diagnostics)
            _log.warning("run %s cannot be carried on: %s", carried.run_id, said)
        while len(self._problems) >= _MOST_PROBLEMS:
            del self._problems[next(iter(self._problems))]
        self._problems[carried.run_id] = error

    def _go_on(self, run_id: str, *, is_revived: bool = False) -> None:
        """Carry a run on that stands still and that nobody else carries."""
        if self._is_closing or run_id in self._carried:
            return
        if is_owned(place_of(self.journal.path), run_id):
            return
        self._carry(run_id, Resumption(), is_revived=is_revived)

    async def _is_elsewhere(self, run_id: str) -> bool:
        place = place_of(self.journal.path)
        return await self.beside(lambda: is_owned(place, run_id))
