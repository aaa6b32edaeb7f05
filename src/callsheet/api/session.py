"""`Session`: the open tools, servers and journal of a runtime, and its operations; `Opening` opens one.

All servers are opened when a plan first calls a tool that is not registered; they and the journal stay open
until the session ends. A session is that of one run, or of all within `with`, on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Self

from callsheet.api.admission import AdmittedPlans, Equipment, Prepared, Request, own_limits, prepare
from callsheet.api.arguments import InDoubt, RunInputs, verdict_of
from callsheet.api.configuration import Configuration, sent_beside
from callsheet.api.handle import Observers, RunHandle, plans_of
from callsheet.api.loops import IS_NOT_OPEN, IS_OPEN, Loops
from callsheet.api.plan import Plan
from callsheet.api.planning import no_planner
from callsheet.api.policies import PolicyLike, policy_of
from callsheet.api.requirements import spec_lookup
from callsheet.api.run_service import (
    Conduct,
    Opened,
    ResumeTerms,
    adopt,
    cancel,
    decide,
    pause,
    resume,
    run_prepared,
)
from callsheet.api.session_tools import OpenTools, PlanChecks, PlanMaking, in_words_of_the_library
from callsheet.api.texts import file_note
from callsheet.diagnostics.wrong_type import wanted
from callsheet.ir import JSON, Order
from callsheet.ir import Plan as Steps
from callsheet.lazy import deferred
from callsheet.machine import Limits
from callsheet.runtime.asking import Respondents
from callsheet.runtime.doubt import Resolution, RunOutcome
from callsheet.runtime.gateway import Ports, Route, TurnPort
from callsheet.runtime.launch import Watch
from callsheet.sealing.credentials import Shapes
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder, MaskedFields
from callsheet.store import Journal, JournalError
from callsheet.store.errors import run_exists
from callsheet.store.pauses import RunPause
from callsheet.store.run_index import TAGS
from callsheet.store.start import Start

if TYPE_CHECKING:
    from callsheet.api import proving, run_branches
    from callsheet.api.run_branches import Fork, Rerun, Revised
    from callsheet.runtime.forking import Draft, Forking
    from callsheet.runtime.undo import Undoing
else:
    proving = deferred("callsheet.api.proving")
    run_branches = deferred("callsheet.api.run_branches")


def resume_terms(
    in_doubt: InDoubt | None,
    accepts_changed_tools: bool,
    limits: Limits | None,
    policy: PolicyLike | None = None,
    accepts_changed_policy: bool = False,
    *,
    as_recorded: bool = False,
    unpaused_by: str | None = None,
) -> ResumeTerms:
    """The validated terms of a caller of the library.

    Raises as `verdict_of` and `policy_of` do, TypeError for wrong limits.
    """
    verdict = None if in_doubt is None else verdict_of(in_doubt)
    if limits is not None:
        wanted("limits", limits, Limits, "Limits(…)")
    wanted("as_recorded", as_recorded, bool, "True or False")
    wanted("by", unpaused_by or "", str, "a text")
    return ResumeTerms(
        in_doubt=verdict,
        accepts_changed_tools=accepts_changed_tools,
        limits=None if limits is None else lambda _: limits,
        policy=policy_of(policy),
        accepts_changed_policy=accepts_changed_policy,
        as_recorded=as_recorded,
        unpaused_by=unpaused_by,
    )


class Session:
    """The open tools and journal of a runtime, as an async context manager."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._stack = AsyncExitStack()
        self._admitted = AdmittedPlans()
        self.tools = OpenTools(config, self._stack, self._admitted.clear)
        self._registry = self.tools.registry
        self.checks = PlanChecks(config, self.tools)
        self.making = PlanMaking(config, self.tools, self.checks)
        self._journal: Journal | None = None
        self._known = Known()
        """The secrets of the runs that this session has seen."""

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    # ------------------------------------------------------------ what is there

    @property
    def journal(self) -> Journal | None:
        """The journal, opened on first use; None if runs are not recorded."""
        given = self._config.journal
        if self._journal is None and given is not None:
            if isinstance(given, Journal):
                self._journal = given
            else:
                self._journal = Journal.open(given)
                self._stack.callback(self._journal.close)
        return self._journal

    # ------------------------------------------------------------ runs

    async def run(
        self,
        plan: Plan,
        given: RunInputs,
        run_id: str,
        limits: Limits | None,
        observers: Observers,
        watch: Watch,
    ) -> RunOutcome:
        """Check a plan and run it; raises PlanError for one with errors, PolicyRefused by the policy."""
        prepared = await self.prepare(plan, given, limits)
        observers.diagnostics = prepared.diagnostics
        watch = observers.watching(watch)
        self._known = prepared.launch.known + self._known
        observers.mask(self.hides)
        journal, ports = self.journal, self.ports(observers)
        present = Respondents(self._config.on_ask, vouches=True)
        async with sent_beside(self._config.collector, journal, run_id):
            return await run_prepared(prepared, ports, journal, run_id, watch, present)

    async def adopt(
        self, plan: Plan, given: RunInputs, done: Mapping[str, JSON], run_id: str, limits: Limits | None
    ) -> None:
        """Check a plan and record a run of it whose steps in `done` are finished."""
        adopt(await self.prepare(plan, given, limits, done), self.recorded, run_id)

    async def prepare(
        self, plan: Plan, given: RunInputs, limits: Limits | None, done: Mapping[str, JSON] | None = None
    ) -> Prepared:
        """Check and prove a plan, unless that is cached, and collect what a run of it starts with."""
        config = self._config
        bounds = config.bounds(limits)
        note: dict[str, JSON] = {"plan": "" if plan.source is None else plan.source.name}
        if plan.path is not None and plan.source is not None:
            note["file"] = file_note(plan.path, plan.source.text, None)
        if given.tags:
            note[TAGS] = dict(given.tags)
        request = Request(
            plan=plan.ir,
            source=plan.source,
            findings=plan.notes,
            inputs=given.values,
            secret=given.secret,
            limits=bounds,
            policy=config.policy,
            approve=config.approve,
            approval_timeout=config.approval_timeout,
            own_approve=config.approve,
            own_limits=own_limits(bounds, config.limits),
            can_ask=self.journal is not None or config.on_ask is not None,
            note=note,
            done=done,
        )
        if config.policy is not None and self.checks.may_plan_anew(plan.ir):
            await self.tools.reach(None)  # the policy's entries for servers' tools count for new plans too
        prepared = prepare(request, await self.checks.equipment(plan.ir), self._admitted)
        if bounds.replans_on_failure and plan.ir.order is Order.DAG and config.planner is None:
            raise no_planner()
        return prepared

    # ------------------------------------------------------------ recorded runs

    def has(self, run_id: str) -> bool:
        """Whether a run with exactly this id is recorded."""
        return self.recorded.parts.reader.runs.has(run_id)

    @property
    def recorded(self) -> Journal:
        """The journal, where it is known that there is one."""
        assert self.journal is not None
        return self.journal

    def find(self, text: str) -> str:
        """The full id of a recorded run, from a prefix or `last`; raises JournalError (JRN002)."""
        return self.recorded.find_run(text).run_id

    async def resume(self, run_id: str, terms: ResumeTerms, observers: Observers, watch: Watch) -> RunOutcome:
        """Continue a recorded run; raises CallsheetError if it cannot be continued."""
        journal, config = self.recorded, self._config
        self.learn(run_id)
        observers.mask(self.hides)
        observers.begin_from(*plans_of(journal, run_id))

        @asynccontextmanager
        async def opened(start: Start, plan: Steps, limits: Limits) -> AsyncGenerator[Opened]:
            del start, plan, limits
            yield Opened(await self.checks.equipment(None), self.ports(observers))

        present, needs_policy = Respondents(config.on_ask, vouches=True), config.policy is not None
        conduct = Conduct(observers.watching(watch), present, needs_policy=needs_policy)
        async with sent_beside(config.collector, journal, run_id):
            with in_words_of_the_library():
                return await resume(journal, run_id, terms, opened, conduct)

    async def branch_off(self, run_id: str, what: Rerun | Fork | Revised, terms: ResumeTerms) -> Forking:
        """Prepare a branch of a run; an edited plan is checked and proved."""

        @asynccontextmanager
        async def opened(draft: Draft) -> AsyncGenerator[Equipment]:
            yield await self.checks.equipment(draft.plan)

        as_recorded, known = terms.as_recorded, self.tools.credentials
        rules = run_branches.BranchRules(as_recorded=as_recorded, open_for=opened, known=known)
        return await run_branches.branch_off(self.recorded, run_id, what, rules)

    async def begin_undo(self, run_id: str, start: str, effects: bool | Callable[[Undoing], bool]) -> str:
        """The id of the run that undoes another, which is recorded and not begun.

        Raises as `undo.begin_undo` does, JournalError (JRN083) unless its `effects` are allowed.
        """
        from callsheet.api.run_branches import UndoNeedsConsent, UndoTerms, begin_undo  # noqa: PLC0415 - only to undo

        equipment, config = await self.checks.equipment(None), self._config
        run_id = self.find(run_id)
        terms = UndoTerms(start, config.bounds(None), {"plan": f"undo {run_id}"}, default=config.policy)

        def agrees(undoing: Undoing) -> bool:
            if effects(undoing) if callable(effects) else effects:
                return True
            raise UndoNeedsConsent(undoing, "allow it: effects=True, or a function that is shown it")

        name = await begin_undo(self.recorded, run_id, equipment, terms, agrees)
        assert name is not None, "it was agreed to"
        return name

    async def decide(
        self, run_id: str, calls: Sequence[str], verdict: Resolution, *, every: bool
    ) -> RunOutcome:
        """Record a decision on calls in doubt; raises JournalError if they are not in doubt."""
        self.learn(run_id)
        return await decide(self.recorded, run_id, calls, verdict, every=every, offload=asyncio.to_thread)

    async def cancel(self, run_id: str, reason: str, patience: float) -> RunOutcome | None:
        """End a run for good; None if its process has been asked and not ended it in `patience` seconds.

        Raises JournalError as `cancel_run` does.
        """
        self.learn(run_id)
        return await cancel(self.recorded, run_id, reason, patience)

    async def pause(
        self,
        run_id: str,
        by: str,
        reason: str,
        patience: float,
        on_asked: Callable[[], None] | None = None,
    ) -> RunPause | None:
        """Pause a run; None if its process has been asked, and calls are still under way."""
        self.learn(run_id)
        return await pause(self.recorded, run_id, by, reason, patience, on_asked)

    def ports(self, observers: Observers) -> Ports:
        """The ports through which a run calls tools, models and agents."""
        registry = self._registry

        def route(name: str) -> Route | None:
            tool = registry.get(name)
            if tool is None:
                return None
            return Route.of(tool)

        config = self._config
        has_none = config.replan is None and config.planner is None
        compiler = None if has_none else self.making.compiler(observers)
        turns, known = self._turns(), self.tools.credentials()
        return Ports(
            route,
            config.model,
            config.agent,
            compiler,
            turns,
            config.workspace,
            known,
            blocks=config.agent_blocks,
            unmet=None if config.policy is None else proving.undertaking(self.checks.guarantees),
        )

    @property
    def hides(self) -> MaskedFields:
        """The secrets that the `repr` of events and results masks."""
        return MaskedFields(Finder(self.tools.credentials() + self._known, Shapes()))

    def learn(self, run_id: str) -> None:
        """Add the secrets that a recorded run was given to the known ones."""
        self._known = self.recorded.declared(run_id) + self._known

    def _turns(self) -> TurnPort | None:
        """The port for the turns of agents that the machine drives; None if it drives none."""
        if self._config.agents is None or self._config.language is None:
            return None
        from callsheet.ports.models.agents import AgentTurns, asking  # noqa: PLC0415 - only for agents

        return AgentTurns(asking(self._config.language), spec_lookup(self._registry))


class Opening(Loops):
    """The part of `Runtime` that opens its config for each run, or once within `with` or `async with`."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handles: set[RunHandle] = set()

    async def __aenter__(self) -> Self:
        if self._session is not None:
            raise RuntimeError(IS_OPEN)
        self._session = Session(self._config)
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is None:
            raise RuntimeError(IS_NOT_OPEN)
        async with session:
            await asyncio.gather(*(handle.interrupt() for handle in tuple(self._handles)))

    def _opened(self) -> AbstractAsyncContextManager[Session]:
        """The session of `async with`, or one for this call alone.

        Not an async generator: a loop that shuts down closes all of those at once instead of in nesting
        order.
        """
        if self._session is None:
            return Session(self._config)
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this runtime was opened on another event loop; create one for each loop")
        return nullcontext(self._session)

    @property
    def _is_recorded(self) -> bool:
        return self._config.journal is not None

    def _require_journal(self) -> None:
        if not self._is_recorded:
            raise ValueError("this runtime has no journal: Runtime(journal=PATH)")

    def _refuse_taken(self, run_id: str) -> None:
        """Raise JournalError (JRN003) for the id of a recorded run, or of one that was started here."""
        if self._is_recorded and (self._starts(run_id) or self._has_recorded(run_id)):
            raise run_exists(run_id)

    def _has_recorded(self, run_id: str) -> bool:
        """Whether the journal has a run with this id; False if it cannot be read, as the run tells why."""
        try:
            given = self._config.journal if self._session is None else self._session.journal
            if given is None:
                return False
            with nullcontext(given) if isinstance(given, Journal) else Journal.open_to_read(given) as journal:
                return journal.parts.reader.runs.has(run_id)
        except JournalError:
            return False

    def _starts(self, run_id: str) -> bool:
        """Whether a run with this id was started here and has not ended; it need not be recorded yet."""
        return any(handle.run_id == run_id and not handle.is_done for handle in self._handles)

    def _handle(self, handle: RunHandle) -> RunHandle:
        """Keep the handle until its run has ended, so that closing the runtime can interrupt it."""
        self._handles.add(handle)
        handle.when_done(lambda: self._handles.discard(handle))
        return handle
