"""`Session`: the open tools, MCP servers and journal of a runtime, and the operations on them.

In: a configuration. Out: run outcomes. All servers are opened when a plan first calls a tool that is not
registered; they and the journal stay open until the session ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType

from callsheet.api.advice import in_words_of_the_library
from callsheet.api.arguments import RunInputs
from callsheet.api.configuration import Configuration
from callsheet.api.observers import Observers, plans_of
from callsheet.api.open_tools import OpenTools
from callsheet.api.plan import Plan
from callsheet.api.plan_changes import check_file, continues
from callsheet.api.plan_checks import PlanChecks
from callsheet.api.plan_making import PlanMaking
from callsheet.api.planning import no_planner
from callsheet.api.prepared import Prepared, PreparedPlans
from callsheet.api.proving import Assumptions
from callsheet.api.requirements import (
    facts_of,
    pins_of,
    servers_of,
    spec_lookup,
)
from callsheet.api.resuming import ResumeContext, ResumeTerms, other_policy, unproved
from callsheet.api.same_tools import check_present, check_tools
from callsheet.api.sending import sent_beside
from callsheet.api.texts import file_note
from callsheet.ir import JSON, Order, plan_hash
from callsheet.ir import Plan as Steps
from callsheet.machine import Limits, compile_plan
from callsheet.policy.model import Policy
from callsheet.runtime.adopting import adopt_run
from callsheet.runtime.asking import Respondents
from callsheet.runtime.cancelling import cancel_run
from callsheet.runtime.doubt import Resolution, RunOutcome, decide_calls
from callsheet.runtime.forking import Draft, Revision
from callsheet.runtime.gateway import Ports, Route, TurnPort
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.runs import Amendments, PolicyFor, resume_run, run_unrecorded, start_run
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder, MaskedFields
from callsheet.sealing.shapes import Shapes
from callsheet.store import Journal
from callsheet.store.start import Start, secret_labels


class Session:
    """The open tools and journal of a runtime, as an async context manager."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._stack = AsyncExitStack()
        self._ready = PreparedPlans()
        self.tools = OpenTools(config, self._stack, self._ready.clear)
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
        launch = await self._launch(plan, given, limits)
        watch = observers.watching(watch)
        self._known = launch.known + self._known
        observers.mask(self.hides)
        present = Respondents(self._config.on_ask)
        journal = self.journal
        if journal is not None:
            async with sent_beside(self._config.collector, journal, run_id):
                return await start_run(
                    plan.ir, self._ports(observers), launch, journal, run_id, watch, present
                )
        result = await run_unrecorded(plan.ir, self._ports(observers), launch, watch, run_id, present)
        return RunOutcome(run_id, result, usage=result.usage)

    async def adopt(
        self, plan: Plan, given: RunInputs, done: Mapping[str, JSON], run_id: str, limits: Limits | None
    ) -> None:
        """Check a plan and record a run of it whose steps in `done` are finished."""
        assert self.journal is not None
        launch = await self._launch(plan, given, limits)
        adopt_run(
            plan.ir, self.tools.credentials(), launch, self.journal, run_id, done, self._config.workspace
        )

    async def _launch(self, plan: Plan, given: RunInputs, limits: Limits | None) -> Launch:
        """Check a plan, unless it is cached, and collect what a run of it starts with."""
        ready = self._ready.get(plan.ir, given.cache_key) or await self._prepare(plan, given)
        bounds = self._config.bounds(limits)
        if bounds.replans_on_failure and plan.ir.order is Order.DAG and self._config.planner is None:
            raise no_planner()
        return Launch(
            facts=ready.facts,
            pins=ready.pins,
            inputs=given.values,
            secret=given.secret,
            limits=bounds,
            source="" if plan.source is None else plan.source.text,
            note=self._note_of(plan, ready.policy),
            approve=self._config.approve,
            approval_timeout=self._config.approval_timeout,
            program=ready.program,
            policy=ready.policy,
            verified="" if ready.policy is None else plan_hash(plan.ir),
        )

    def _note_of(self, plan: Plan, policy: Policy | None) -> dict[str, JSON]:
        """Information recorded with a run that does not affect it: the plan's name, the servers used."""
        note: dict[str, JSON] = {"plan": "" if plan.source is None else plan.source.name}
        if plan.path is not None and plan.source is not None:
            note["file"] = file_note(plan.path, plan.source.text, None)
        if self.tools.servers:
            opened, agents = self.tools.servers, self._config.agents
            note["servers"] = servers_of(plan.ir, self._registry, opened, agents, policy)
        return note

    async def _prepare(self, plan: Plan, given: RunInputs) -> Prepared:
        """Check, prove and compile a plan, and cache the outcome for further runs."""
        findings = await self.checks.examine(plan, given.values)
        findings.raise_for_errors()
        policy = None
        if self._config.policy is not None:
            can_ask = self.journal is not None or self._config.on_ask is not None
            labels = secret_labels(self._config.policy, given.secret)
            proof = await self.checks.prove(plan, given.values, labels=labels, can_ask=can_ask)
            proof.raise_if_refused(plan.source)
            policy = proof.policy
        facts = facts_of(plan.ir, self._registry, self._config.on_in_doubt, self._config.agents)
        ready = Prepared(
            facts, pins_of(plan.ir, self._registry, self._config.agents), compile_plan(plan.ir, facts), policy
        )
        self._ready.put(plan.ir, given.cache_key, ready)
        return ready

    async def revise(self, draft: Draft) -> Revision:
        """Check and prove an edited plan, and collect its tools' facts; raises PlanError, PolicyRefused."""
        plan, start = Plan(draft.plan), draft.start
        (await self.checks.examine(plan, start.inputs)).raise_for_errors()
        policy = None
        if draft.policy is not None:
            labels = secret_labels(draft.policy, start.secret)
            left = self.checks.stored_labels()
            assumed = Assumptions(inputs=start.inputs, labels=labels, left=left)
            proof = self.checks.proof_of(plan.ir, draft.policy, assumed)
            proof.raise_if_refused(plan.source)
            policy = proof.policy
        facts = facts_of(plan.ir, self._registry, self._config.on_in_doubt, self._config.agents)
        pins = pins_of(plan.ir, self._registry, self._config.agents)
        servers = servers_of(plan.ir, self._registry, self.tools.servers, self._config.agents, policy)
        return Revision(plan.ir, facts, pins, policy, servers)

    def has(self, run_id: str) -> bool:
        """Whether a run with exactly this id is recorded."""
        assert self.journal is not None
        return self.journal.parts.reader.runs.has(run_id)

    def find(self, text: str) -> str:
        """The full id of a recorded run, from a prefix or `last`; raises JournalError (JRN002)."""
        assert self.journal is not None
        return self.journal.find_run(text).run_id

    async def resume(self, run_id: str, terms: ResumeTerms, observers: Observers, watch: Watch) -> RunOutcome:
        """Continue a recorded run; raises CallsheetError if it cannot be continued."""
        journal = self.journal
        assert journal is not None
        if not terms.as_recorded and continues(journal, run_id):
            check_file(journal, run_id)
        self.learn(run_id)
        observers.mask(self.hides)
        observers.begin_from(*plans_of(journal, run_id))
        watch = observers.watching(watch)

        @asynccontextmanager
        async def ports_for(start: Start, plan: Steps) -> AsyncGenerator[Ports]:
            if self._config.policy is not None and start.policy is None:
                raise unproved(run_id)
            doubts = await self.tools.reach(None)
            check_present(plan, self._registry, self._config.agents, doubts)
            check_tools(
                start,
                plan,
                self._registry,
                self._config.agents,
                accepts_changed=terms.accepts_changed_tools,
                is_bound_anew=terms.policy is not None,
            )
            yield self._ports(observers)

        def change(before: Limits) -> Limits:
            return before if terms.limits is None else terms.limits

        context = ResumeContext(journal, run_id, self.checks.guarantees(), self._config.workspace)
        policy: PolicyFor | None = None
        if terms.policy is not None:
            policy = other_policy(terms.policy, context, is_accepted=terms.accepts_changed_policy)
        async with sent_beside(self._config.collector, journal, run_id):
            with in_words_of_the_library():
                return await resume_run(
                    journal,
                    run_id,
                    ports_for,
                    Amendments(in_doubt=terms.verdict, limits=change, policy=policy),
                    watch=watch,
                    present=Respondents(self._config.on_ask),
                )

    async def decide(
        self, run_id: str, calls: Sequence[str], verdict: Resolution, *, every: bool
    ) -> RunOutcome:
        """Record a decision on calls in doubt; raises JournalError if they are not in doubt."""
        assert self.journal is not None
        self.learn(run_id)
        return await asyncio.to_thread(decide_calls, self.journal, run_id, calls, verdict, every=every)

    async def cancel(self, run_id: str, reason: str, patience: float) -> RunOutcome | None:
        """End a run for good; None if its process has been asked and not ended it in `patience` seconds.

        Raises JournalError as `cancel_run` does.
        """
        assert self.journal is not None
        self.learn(run_id)
        return await cancel_run(self.journal, run_id, reason, patience)

    def _ports(self, observers: Observers) -> Ports:
        """The ports through which a run calls tools, models and agents."""
        registry = self._registry

        def route(name: str) -> Route | None:
            tool = registry.get(name)
            if tool is None:
                return None
            return Route(tool.handler, probe=tool.probe, is_builtin=tool.spec.origin == "builtin")

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
        )

    @property
    def hides(self) -> MaskedFields:
        """The secrets that the `repr` of events and results masks."""
        return MaskedFields(Finder(self.tools.credentials() + self._known, Shapes()))

    def learn(self, run_id: str) -> None:
        """Add the secrets that a recorded run was given to the known ones."""
        assert self.journal is not None
        self._known = self.journal.declared(run_id) + self._known

    def _turns(self) -> TurnPort | None:
        """The port for the turns of agents that the machine drives; None if it drives none."""
        if self._config.agents is None or self._config.language is None:
            return None
        from callsheet.ports.models.agents import AgentTurns, asking  # noqa: PLC0415 - only for agents

        return AgentTurns(asking(self._config.language), spec_lookup(self._registry))
