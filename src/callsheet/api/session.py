"""What a runtime has open: tools, MCP servers, the journal; and runs on them.

In: a kit. Out: findings and outcomes. Servers are opened together when a plan first calls a tool
that is not here, and stay open until the session ends; so does the journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import TracebackType

from callsheet.api.advice import advised, in_words_of_the_library
from callsheet.api.checking import check_plan, idle_rules
from callsheet.api.dryrun import DryRun, NeedsApproval, dry_run_of, either
from callsheet.api.findings import Findings
from callsheet.api.kit import Kit
from callsheet.api.models import Replan
from callsheet.api.plan import Plan
from callsheet.api.reach import absent_tools, facts_of, pins_of, take_in
from callsheet.api.stream import EventStream
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ir import JSON
from callsheet.ir import Plan as Steps
from callsheet.machine import Compile, Limits, ToolFacts
from callsheet.ports.tools import CallContext, Registry
from callsheet.runtime.asking import Respondents
from callsheet.runtime.cancelling import cancel_run
from callsheet.runtime.doubt import Resolution, RunOutcome, decide_calls
from callsheet.runtime.gateway import CompilePort, Ports, Route
from callsheet.runtime.runs import (
    Launch,
    Watch,
    check_pins,
    resume_run,
    run_unrecorded,
    start_run,
)
from callsheet.store import EventType, Journal
from callsheet.store.records import Start

_log = logging.getLogger("callsheet")


class Session:
    """The open tools and journal of a runtime, as an async context manager."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._registry = Registry(kit.tools)
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._servers_are_open = not kit.servers
        self._doubts: tuple[Diagnostic, ...] = ()
        """What was wrong or doubtful when the servers were opened."""
        self._journal: Journal | None = None

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
        return Findings(
            (*doubts, *advised(plan.ir, found), *idle_rules(plan.ir, self._kit.approve)), plan.source
        )

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
        findings = Findings((*doubts, *advised(plan.ir, found)), plan.source)
        findings.raise_for_errors()
        facts = facts_of(plan.ir, self._registry)
        asks = either(self._kit.approve, needs_approval)
        return dry_run_of(plan.ir, facts, inputs, assumed, asks, price, findings)

    async def _reach(self, plan: Steps | None) -> tuple[Diagnostic, ...]:
        """Open the servers if a tool of the plan is not here, or if no plan is given.

        Gives what is doubtful about them: an error only where a tool of the plan is missing.
        """
        async with self._opening:
            if not self._servers_are_open and (plan is None or absent_tools(plan, self._registry)):
                await self._open_servers()
        if plan is not None and absent_tools(plan, self._registry):
            return self._doubts
        return tuple(replace(d, severity=Severity.WARNING) if d.is_error else d for d in self._doubts)

    async def _open_servers(self) -> None:
        from callsheet.ports.mcp import McpPool, folder_sink  # noqa: PLC0415 - only where servers are opened

        pool = McpPool(self._kit.servers, blob_sink=folder_sink(self._kit.files))
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(pool)
            self._doubts = await pool.connect(keep_going=True)
            for tool, alias in pool.tools():
                take_in(self._registry, tool, alias)
            self._stack.push_async_exit(opened.pop_all())
        self._servers_are_open = True
        for doubt in self._doubts:
            _log.warning("%s: %s", doubt.code, doubt.message)

    # ------------------------------------------------------------ runs

    async def run(
        self,
        plan: Plan,
        inputs: Mapping[str, JSON],
        run_id: str,
        limits: Limits | None,
        stream: EventStream | None,
        watch: Watch,
    ) -> RunOutcome:
        """Check a plan and run it to its end; raises PlanError for one with errors."""
        findings = await self.examine(plan, inputs)
        findings.raise_for_errors()
        launch = Launch(
            facts=facts_of(plan.ir, self._registry, self._kit.on_in_doubt),
            pins=pins_of(plan.ir, self._registry),
            inputs=inputs,
            limits=self._kit.bounds(limits),
            source="" if plan.source is None else plan.source.text,
            note={"plan": "" if plan.source is None else plan.source.name},
            approve=self._kit.approve,
        )
        present = Respondents(self._kit.on_ask)
        journal = self.journal
        if journal is not None:
            return await start_run(plan.ir, self._ports(stream), launch, journal, run_id, watch, present)
        result = await run_unrecorded(plan.ir, self._ports(stream), launch, watch, run_id, present)
        return RunOutcome(run_id, result, usage=result.usage)

    def find(self, text: str) -> str:
        """The id of a run of the journal, from its beginning or `last`; raises JournalError (JRN002)."""
        assert self.journal is not None
        return self.journal.find_run(text).run_id

    async def resume(
        self,
        run_id: str,
        verdict: Resolution | None,
        stream: EventStream | None,
        watch: Watch,
        *,
        accepts_changed_tools: bool,
        limits: Limits | None = None,
    ) -> RunOutcome:
        """Carry a run of the journal on; raises CallsheetError if that cannot be."""
        journal = self.journal
        assert journal is not None
        if stream is not None:
            stream.begin_from(*_plans_of(journal, run_id))

        @asynccontextmanager
        async def ports_for(start: Start, plan: Steps) -> AsyncGenerator[Ports]:
            doubts = await self._reach(None)
            gone = [self._registry.missing(name) for name in absent_tools(plan, self._registry)]
            if gone:
                raise CallsheetError([*doubts, *gone])
            if not accepts_changed_tools:
                with in_words_of_the_library():
                    check_pins(start, pins_of(plan, self._registry))
            yield self._ports(stream)

        def change(before: Limits) -> Limits:
            return before if limits is None else limits

        return await resume_run(
            journal,
            run_id,
            ports_for,
            in_doubt=verdict,
            watch=watch,
            present=Respondents(self._kit.on_ask),
            limits=change,
        )

    async def decide(
        self, run_id: str, calls: Sequence[str], verdict: Resolution, *, every: bool
    ) -> RunOutcome:
        """Write down what becomes of calls in doubt; raises JournalError if they are not."""
        assert self.journal is not None
        return await asyncio.to_thread(decide_calls, self.journal, run_id, calls, verdict, every=every)

    async def cancel(self, run_id: str, reason: str, patience: float) -> RunOutcome | None:
        """End a run for good; None where its process was asked to and has not ended it yet."""
        assert self.journal is not None
        return await cancel_run(self.journal, run_id, reason, patience)

    def _ports(self, stream: EventStream | None) -> Ports:
        """The ways out of a run."""
        registry = self._registry

        def route(name: str) -> Route | None:
            tool = registry.get(name)
            return None if tool is None else Route(tool.handler, probe=tool.probe)

        compiler = None if self._kit.replan is None else self._compiler(self._kit.replan, stream)
        return Ports(route, self._kit.model, self._kit.agent, compiler)

    def _compiler(self, replan: Replan, stream: EventStream | None) -> CompilePort:
        async def compile_again(
            command: Compile, context: CallContext
        ) -> tuple[Steps, Mapping[str, ToolFacts]]:
            plan = await replan(command, context)
            errors = (await self.examine(Plan(plan), command.variables)).errors
            if errors:
                raise CallsheetError(errors)
            if stream is not None:
                stream.compiled(command.key, plan)
            return plan, facts_of(plan, self._registry, self._kit.on_in_doubt)

        return compile_again


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
