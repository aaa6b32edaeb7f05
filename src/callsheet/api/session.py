"""What a runtime has open: tools, MCP servers, the journal; and runs on them.

In: a kit. Out: findings and outcomes. Servers are opened together when a plan first calls a tool
that is not here, and stay open until the session ends; so does the journal.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from callsheet.api.advice import advised, in_words_of_the_library
from callsheet.api.agents import asks_for_all_tools, wrong_tools
from callsheet.api.checking import check_plan, idle_rules
from callsheet.api.compiling import (
    Compiled,
    CompileFailed,
    CompileOptions,
    Request,
    Verify,
    compiled,
    draft_for,
    given_in_words,
    no_model,
    offered,
)
from callsheet.api.dryrun import DryRun, NeedsApproval, dry_run_of, either
from callsheet.api.findings import Findings
from callsheet.api.given import Given
from callsheet.api.kit import Kit
from callsheet.api.obligations import Undertaking
from callsheet.api.plan import Plan
from callsheet.api.planning import no_planner, refused
from callsheet.api.prepared import Prepared, PreparedPlans
from callsheet.api.proving import Proof, objections_by, prove
from callsheet.api.reach import (
    absent_tools,
    facts_of,
    pins_of,
    refused_tools,
    servers_of,
    spec_lookup,
    take_in,
)
from callsheet.api.resuming import Circumstances, Terms, other_policy, unproved
from callsheet.api.sending import sent_beside
from callsheet.api.steps import StepLog
from callsheet.api.stream import EventStream
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ir import JSON, Order, plan_hash
from callsheet.ir import Plan as Steps
from callsheet.ir.labels import Label
from callsheet.machine import Compile, Limits, ToolFacts, compile_plan
from callsheet.machine.progress import with_own_ids
from callsheet.passes.verify import NOTHING_LEFT, Left
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.failures import as_error
from callsheet.ports.models.model import ModelFailed
from callsheet.ports.tools import Registry
from callsheet.runtime.asking import Respondents
from callsheet.runtime.cancelling import cancel_run
from callsheet.runtime.doubt import Resolution, RunOutcome, decide_calls
from callsheet.runtime.forking import Draft, Revision
from callsheet.runtime.gateway import CompilePort, Ports, Route, TurnPort
from callsheet.runtime.rest import left_before
from callsheet.runtime.runs import (
    Launch,
    Watch,
    check_pins,
    resume_run,
    run_unrecorded,
    start_run,
)
from callsheet.sealing.configured import configured, in_environment
from callsheet.sealing.finder import Finder
from callsheet.sealing.known import Known
from callsheet.sealing.shapes import Shapes
from callsheet.sealing.veiled import Hides
from callsheet.store import EventType, Journal
from callsheet.store.records import Start, secret_labels

if TYPE_CHECKING:
    from callsheet.ports.mcp import McpPool, ServerStatus

_log = logging.getLogger("callsheet")


class Ears(NamedTuple):
    """Who follows a run: a stream of its events, and what became of its steps."""

    stream: EventStream | None = None
    log: StepLog | None = None

    def watching(self, watch: Watch) -> Watch:
        """The watch, with the log following; the stream is its observer already."""
        return watch if self.log is None else self.log.watching(watch)

    def veil(self, hides: Hides) -> None:
        """Let what they tell show none of this in its `repr`."""
        if self.stream is not None:
            self.stream.hides = hides
        if self.log is not None:
            self.log.hides = hides

    def begin_from(self, plan: Steps, new_plans: list[tuple[str, Steps]]) -> None:
        """Tell both of the plans of a run that is taken up."""
        if self.stream is not None:
            self.stream.begin_from(plan, new_plans)
        if self.log is not None:
            self.log.begin_from(plan, new_plans)

    def compiled(self, command: Compile, plan: Steps) -> None:
        """Tell both of a new plan."""
        if command.progress is not None:
            plan = with_own_ids(plan, command.progress.plan, command.progress.number)
        if self.stream is not None:
            self.stream.compiled(command.key, plan)
        if self.log is not None:
            self.log.compiled(plan)


class Session:
    """The open tools and journal of a runtime, as an async context manager."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._registry = Registry(kit.tools)
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._servers_are_open = not kit.servers
        self._reached: tuple[ServerStatus, ...] = ()
        self._pool: McpPool | None = None
        self._doubts: tuple[Diagnostic, ...] = ()
        """What was wrong or doubtful when the servers were opened."""
        self._journal: Journal | None = None
        self._ready = PreparedPlans()
        self._known = Known()
        """The secrets of the runs that have come by."""

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    # ------------------------------------------------------------ what is there

    @property
    def journal(self) -> Journal | None:
        """The journal, opened at its first use; None if runs are not recorded."""
        given = self._kit.journal
        if self._journal is None and given is not None:
            if isinstance(given, Journal):
                self._journal = given
            else:
                self._journal = Journal.open(given)
                self._stack.callback(self._journal.close)
        return self._journal

    async def examine(self, plan: Plan, inputs: Mapping[str, object]) -> Findings:
        """What is wrong with a plan on the tools that this session reaches."""
        doubts = await self._reach(plan.ir)
        found = check_plan(plan.ir, self._registry, inputs.keys(), means=self._kit.means)
        found = (*found, *wrong_tools(plan.ir, self._registry, self._kit.agents))
        return Findings(
            (*doubts, *advised(plan.ir, found), *idle_rules(plan.ir, self._kit.approve)), plan.source
        )

    async def prove(
        self,
        plan: Plan,
        inputs: Iterable[str],
        approved: Iterable[str] = (),
        *,
        labels: Mapping[str, Label] | None = None,
        can_ask: bool,
    ) -> Proof:
        """Hold a plan against the policy, on the tools that this session reaches; ValueError without one."""
        if self._kit.policy is None:
            raise ValueError("this runtime has no policy: give Runtime(policy=…)")
        await self._reach(plan.ir)
        policy, registry = self._kit.policy, self._registry
        proof = prove(
            plan.ir,
            policy,
            registry,
            inputs=inputs,
            labels=labels,
            approved=approved,
            can_ask=can_ask,
            left=self._left(),
        )
        return proof.under(self._undertaking())

    async def dry_run(
        self,
        plan: Plan,
        inputs: Mapping[str, JSON],
        assumed: Mapping[str, JSON],
        needs_approval: NeedsApproval,
        price: float | None,
        *,
        asks_servers: bool,
    ) -> DryRun:
        """What a plan would do; servers are opened only where they are to be asked what they offer."""
        doubts = await self._reach(plan.ir) if asks_servers else ()
        not_asked = None if asks_servers or self._servers_are_open else "a server of this runtime"
        found = check_plan(plan.ir, self._registry, inputs.keys(), not_asked=not_asked, means=self._kit.means)
        found = (*found, *wrong_tools(plan.ir, self._registry, self._kit.agents, not_asked=not_asked))
        findings = Findings((*doubts, *advised(plan.ir, found)), plan.source)
        findings.raise_for_errors()
        facts = facts_of(plan.ir, self._registry, agents=self._kit.agents)
        asks = either(self._kit.approve, needs_approval)
        told = dry_run_of(plan.ir, facts, inputs, assumed, asks, price, findings)
        if self._kit.policy is None:
            return told
        proof = prove(plan.ir, self._kit.policy, self._registry, inputs=inputs, left=self._left())
        return told.under(proof.under(self._undertaking()))

    async def _reach(self, plan: Steps | None) -> tuple[Diagnostic, ...]:
        """Open the servers if a tool of the plan is not here, or if no plan is given.

        Gives what is doubtful about them: an error only where a tool of the plan is missing.
        """
        async with self._opening:
            if not self._servers_are_open and (plan is None or self._needs_servers(plan)):
                await self._open_servers()
        if plan is not None and absent_tools(plan, self._registry, self._kit.agents):
            return self._doubts
        return tuple(replace(d, severity=Severity.WARNING) if d.is_error else d for d in self._doubts)

    def _needs_servers(self, plan: Steps) -> bool:
        """Whether a tool that a plan needs is not here, or its agents may call whatever there is."""
        rules = self._kit.agents
        return bool(absent_tools(plan, self._registry, rules)) or asks_for_all_tools(plan, rules)

    async def _open_servers(self) -> None:
        from callsheet.api.logins import login_file  # noqa: PLC0415 - only where servers are opened
        from callsheet.ports.mcp import McpPool, folder_sink  # noqa: PLC0415 - as above

        sink = folder_sink(self._kit.files)
        pool = McpPool(self._kit.servers, blob_sink=sink, pins=self._kit.pins, logins=login_file())
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(pool)
            self._doubts = await pool.connect(keep_going=True)
            for tool, alias in pool.tools():
                take_in(self._registry, tool, alias)
            self._stack.push_async_exit(opened.pop_all())
        self._pool = pool
        self._reached = tuple(pool.status())
        self._servers_are_open = True
        self._ready.clear()
        for doubt in (d for d in self._doubts if d.severity is not Severity.HINT):
            _log.warning("%s: %s", doubt.code, doubt.message)

    # ------------------------------------------------------------ runs

    async def run(
        self,
        plan: Plan,
        given: Given,
        run_id: str,
        limits: Limits | None,
        ears: Ears,
        watch: Watch,
    ) -> RunOutcome:
        """Check a plan and run it to its end; raises PlanError for one with errors."""
        ready = self._ready.get(plan.ir, given.told) or await self._prepare(plan, given)
        bounds = self._kit.bounds(limits)
        if bounds.replans_on_failure and plan.ir.order is Order.DAG and self._kit.planner is None:
            raise no_planner()
        watch = ears.watching(watch)
        launch = Launch(
            facts=ready.facts,
            pins=ready.pins,
            inputs=given.values,
            secret=given.secret,
            limits=bounds,
            source="" if plan.source is None else plan.source.text,
            note=self._note_of(plan),
            approve=self._kit.approve,
            approval_timeout=self._kit.approval_timeout,
            program=ready.program,
            policy=ready.policy,
            verified="" if ready.policy is None else plan_hash(plan.ir),
        )
        self._known = launch.known + self._known
        ears.veil(self.hides)
        present = Respondents(self._kit.on_ask)
        journal = self.journal
        if journal is not None:
            async with sent_beside(self._kit.collector, journal, run_id):
                return await start_run(plan.ir, self._ports(ears), launch, journal, run_id, watch, present)
        result = await run_unrecorded(plan.ir, self._ports(ears), launch, watch, run_id, present)
        return RunOutcome(run_id, result, usage=result.usage)

    def _note_of(self, plan: Plan) -> dict[str, JSON]:
        """What is noted with a run besides what it is held to."""
        note: dict[str, JSON] = {"plan": "" if plan.source is None else plan.source.name}
        if self._reached:
            note["servers"] = servers_of(plan.ir, self._registry, self._reached, self._kit.agents)
        return note

    async def _prepare(self, plan: Plan, given: Given) -> Prepared:
        """Check a plan and make it ready to run, so that its further runs need none of that."""
        findings = await self.examine(plan, given.values)
        findings.raise_for_errors()
        policy = None
        if self._kit.policy is not None:
            can_ask = self.journal is not None or self._kit.on_ask is not None
            labels = secret_labels(self._kit.policy, given.secret)
            proof = await self.prove(plan, given.values, labels=labels, can_ask=can_ask)
            proof.raise_if_refused(plan.source)
            policy = proof.policy
        facts = facts_of(plan.ir, self._registry, self._kit.on_in_doubt, self._kit.agents)
        ready = Prepared(
            facts, pins_of(plan.ir, self._registry, self._kit.agents), compile_plan(plan.ir, facts), policy
        )
        self._ready.put(plan.ir, given.told, ready)
        return ready

    def _left(self) -> Left:
        """The labels of what earlier runs have left in the workspace."""
        journal = self._kit.journal
        if journal is None or self._kit.policy is None:
            return NOTHING_LEFT
        return left_before(journal.path if isinstance(journal, Journal) else journal, self._kit.workspace)

    def _undertaking(self) -> Undertaking:
        """What this runtime sees to of what a proof takes for granted."""
        kit = self._kit
        return Undertaking(self._registry, kit.fetch, kit.execution, keeps_labels=kit.journal is not None)

    async def revise(self, draft: Draft) -> Revision:
        """What is known of the tools of an edited plan; raises PlanError and PolicyRefused."""
        plan, start = Plan(draft.plan), draft.start
        (await self.examine(plan, start.inputs)).raise_for_errors()
        policy = None
        if draft.policy is not None:
            labels = secret_labels(draft.policy, start.secret)
            proof = prove(
                plan.ir, draft.policy, self._registry, inputs=start.inputs, labels=labels, left=self._left()
            )
            proof = proof.under(self._undertaking())
            proof.raise_if_refused(plan.source)
            policy = proof.policy
        facts = facts_of(plan.ir, self._registry, self._kit.on_in_doubt, self._kit.agents)
        return Revision(plan.ir, facts, pins_of(plan.ir, self._registry, self._kit.agents), policy)

    def find(self, text: str) -> str:
        """The id of a run of the journal, from its beginning or `last`; raises JournalError (JRN002)."""
        assert self.journal is not None
        return self.journal.find_run(text).run_id

    async def resume(self, run_id: str, terms: Terms, ears: Ears, watch: Watch) -> RunOutcome:
        """Carry a run of the journal on; raises CallsheetError if that cannot be."""
        journal = self.journal
        assert journal is not None
        self.learn(run_id)
        ears.veil(self.hides)
        ears.begin_from(*_plans_of(journal, run_id))
        watch = ears.watching(watch)

        @asynccontextmanager
        async def ports_for(start: Start, plan: Steps) -> AsyncGenerator[Ports]:
            if self._kit.policy is not None and start.policy is None:
                raise unproved(run_id)
            doubts = await self._reach(None)
            gone = [
                self._registry.missing(name) for name in absent_tools(plan, self._registry, self._kit.agents)
            ]
            if gone:
                raise CallsheetError([*doubts, *gone])
            if not terms.accepts_changed_tools:
                check_pins(start, pins_of(plan, self._registry, self._kit.agents))
            refused = refused_tools(plan, self._registry, self._kit.agents)
            if refused:
                raise CallsheetError(refused)
            yield self._ports(ears)

        def change(before: Limits) -> Limits:
            return before if terms.limits is None else terms.limits

        here = Circumstances(journal, run_id, self._undertaking(), self._kit.workspace)
        accepts = terms.accepts_changed_policy
        async with sent_beside(self._kit.collector, journal, run_id):
            with in_words_of_the_library():
                return await resume_run(
                    journal,
                    run_id,
                    ports_for,
                    in_doubt=terms.verdict,
                    watch=watch,
                    present=Respondents(self._kit.on_ask),
                    limits=change,
                    policy=None
                    if terms.policy is None
                    else other_policy(terms.policy, here, is_accepted=accepts),
                )

    async def decide(
        self, run_id: str, calls: Sequence[str], verdict: Resolution, *, every: bool
    ) -> RunOutcome:
        """Write down what becomes of calls in doubt; raises JournalError if they are not."""
        assert self.journal is not None
        self.learn(run_id)
        return await asyncio.to_thread(decide_calls, self.journal, run_id, calls, verdict, every=every)

    async def cancel(self, run_id: str, reason: str, patience: float) -> RunOutcome | None:
        """End a run for good; None where its process was asked to and has not ended it yet."""
        assert self.journal is not None
        self.learn(run_id)
        return await cancel_run(self.journal, run_id, reason, patience)

    def _ports(self, ears: Ears) -> Ports:
        """The ways out of a run."""
        registry = self._registry

        def route(name: str) -> Route | None:
            tool = registry.get(name)
            return None if tool is None else Route(tool.handler, probe=tool.probe)

        has_none = self._kit.replan is None and self._kit.planner is None
        compiler = None if has_none else self._compiler(ears)
        kit = self._kit
        turns, known = self._turns(), self.credentials()
        return Ports(
            route, kit.model, kit.agent, compiler, turns, kit.workspace, known, blocks=kit.agent_blocks
        )

    @property
    def hides(self) -> Hides:
        """What `repr` of what is told of runs masks."""
        return Hides(Finder(self.credentials() + self._known, Shapes()))

    def learn(self, run_id: str) -> None:
        """Know the secrets that a run of the journal was given."""
        assert self.journal is not None
        self._known = self.journal.declared(run_id) + self._known

    def credentials(self) -> Known:
        """The credentials that were configured for the servers, and those of the environment."""
        found = [*in_environment(os.environ)]
        if self._kit.servers:
            from callsheet.ports.mcp import credentials_of  # noqa: PLC0415 - only with servers

            found += credentials_of(self._kit.servers)
        if self._pool is not None:
            found += self._pool.secrets()
        return configured(found)

    def _turns(self) -> TurnPort | None:
        """Who answers the questions of agents that the machine drives."""
        if self._kit.agents is None or self._kit.language is None:
            return None
        from callsheet.ports.models.agents import AgentTurns, asking  # noqa: PLC0415 - only for agents

        return AgentTurns(asking(self._kit.language), spec_lookup(self._registry))

    def _compiler(self, ears: Ears) -> CompilePort:
        async def compile_again(
            command: Compile, context: CallContext
        ) -> tuple[Steps, Mapping[str, ToolFacts]]:
            plan = await self._new_plan(command, context)
            errors = (await self.examine(Plan(plan), command.variables)).errors
            if errors:
                raise CallsheetError(errors)
            ears.compiled(command, plan)
            return plan, facts_of(plan, self._registry, self._kit.on_in_doubt, self._kit.agents)

        return compile_again

    async def _new_plan(self, command: Compile, context: CallContext) -> Steps:
        """The plan of a RE-PLAN, or the steps that go on from where a graph has failed."""
        if command.progress is None:
            if self._kit.replan is None:
                raise ToolFailed("RE-PLAN needs a language model, and this run was given none")
            await self._reach(None)
            return await self._kit.replan(command, context, self._registry)
        if self._kit.planner is None:
            raise no_planner()
        await self._reach(None)
        given = command.variables

        def check(plan: Steps) -> tuple[Diagnostic, ...]:
            return check_plan(plan, self._registry, given, means=self._kit.means)

        return await self._kit.planner.revise(command, offered(self._registry), context, check)

    async def create_plan(self, goal: str, context: str, call: CallContext) -> Plan:
        """A checked plan of dependencies for a goal; what it cost is told to `call`."""
        if self._kit.planner is None:
            raise no_planner()
        await self._reach(None)

        def check(plan: Steps) -> tuple[Diagnostic, ...]:
            return check_plan(plan, self._registry, means=self._kit.means)

        tools = offered(self._registry)
        try:
            plan = Plan(await self._kit.planner.create(goal, context, tools, call, check))
        except ModelFailed as error:
            raise as_error(error) from error
        wrong = refused(plan, await self.examine(plan, {}))
        if wrong is not None:
            raise wrong
        return plan

    async def compile(
        self,
        goal: str,
        context: str,
        inputs: Mapping[str, JSON],
        verify: Verify | None,
        options: CompileOptions | None,
    ) -> Compiled | CompileFailed:
        """A plan for a goal on the tools of this session; raises CallsheetError (CMP001) without a model."""
        if self._kit.language is None:
            raise no_model()
        await self._reach(None)
        if verify is None and self._kit.policy is not None:
            verify = objections_by(self._kit.policy, self._registry, inputs)
        request = Request(goal, offered(self._registry), context, given_in_words(inputs))
        draft = await draft_for(
            request, self._kit.language, self._registry, self._kit.means, verify=verify, options=options
        )
        return compiled(goal, draft, self._registry)


def _plans_of(journal: Journal, run_id: str) -> tuple[Steps, list[tuple[str, Steps]]]:
    """The plan of a run, and those that its RE-PLANs got, by the keys of their calls."""
    info = journal.find_run(run_id)
    if info.run_id != run_id:
        return Steps(()), []  # there is no run of this very id, as its resumption will say
    first = journal.plan(info.plan_hash)[0]
    later = [
        (row.key, journal.plan((row.body or {})["plan"])[0])
        for row in journal.events(run_id)
        if row.type is EventType.PLAN and row.key is not None
    ]
    return first, later
