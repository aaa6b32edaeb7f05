"""The open tools of a session, and the plans that are checked, proved, forecast and made with them.

In: a configuration, plans, goals. Out: a registry; findings, proofs, dry runs, new plans, with help in the
words of the library. MCP servers are opened when a plan first needs them. Nothing is run.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from callsheet.api import admission
from callsheet.api.admission import Equipment, checked, examine
from callsheet.api.checking import advised, check_plan
from callsheet.api.configuration import Configuration
from callsheet.api.findings import Findings
from callsheet.api.handle import Observers
from callsheet.api.plan import Plan
from callsheet.api.planning import going_on, no_planner, refused
from callsheet.api.requirements import absent_tools, asks_for_all_tools, facts_of, take_in_all, with_inverses
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.ir import JSON, Order
from callsheet.ir import Plan as Steps
from callsheet.ir.labels import Label
from callsheet.lazy import deferred
from callsheet.machine import Compile, ToolFacts
from callsheet.machine.replanning import check_inputs
from callsheet.policy.model import Policy
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.model import ModelFailed, as_error
from callsheet.ports.tools import Registry
from callsheet.runtime.gateway import CompilePort
from callsheet.sealing.credentials import configured, in_environment
from callsheet.sealing.known import Known
from callsheet.store import Journal

if TYPE_CHECKING:
    from callsheet.api import compiling, dryrun, proving
    from callsheet.api.compiling import Compiled, CompileFailed, CompileOptions, Verify
    from callsheet.api.dryrun import DryRun, NeedsApproval
    from callsheet.api.proving import Assumptions, Guarantees, Proof
    from callsheet.passes import verify as proofs
    from callsheet.passes.verify import PersistedLabels
    from callsheet.ports.mcp import McpPool, ServerStatus
    from callsheet.runtime import remaining
else:
    dryrun = deferred("callsheet.api.dryrun")
    proving = deferred("callsheet.api.proving")
    proofs = deferred("callsheet.passes.verify")
    compiling = deferred("callsheet.api.compiling")
    remaining = deferred("callsheet.runtime.remaining")

_log = logging.getLogger("callsheet")


class OpenTools:
    """The tools of a session. `stack` closes the servers; `when_opened` is called once they are open."""

    def __init__(self, config: Configuration, stack: AsyncExitStack, when_opened: Callable[[], None]) -> None:
        self.registry = Registry(config.tools)
        self.are_all_here = not config.servers
        """Whether all servers have been opened, or there are none."""
        self.servers: tuple[ServerStatus, ...] = ()
        """The servers that are open."""
        self._config = config
        self._stack = stack
        self._when_opened = when_opened
        self._opening = asyncio.Lock()
        self._pool: McpPool | None = None
        self._doubts: tuple[Diagnostic, ...] = ()
        """Diagnostics from opening the servers."""

    async def reach(self, plan: Steps | None) -> tuple[Diagnostic, ...]:
        """Open the servers if the plan needs a tool that is not registered, or if no plan is given.

        Returns the diagnostics about the servers, with errors only if a tool of the plan is still missing.
        """
        async with self._opening:
            if not self.are_all_here and (plan is None or self._needs_servers(plan)):
                await self._open_servers()
        if plan is not None and absent_tools(plan, self.registry, self._config.agents):
            return self._doubts
        return tuple(replace(d, severity=Severity.WARNING) if d.is_error else d for d in self._doubts)

    def _needs_servers(self, plan: Steps) -> bool:
        """Whether a tool of the plan is not registered, or its agents may call all tools."""
        rules = self._config.agents
        return bool(absent_tools(plan, self.registry, rules)) or asks_for_all_tools(plan, rules)

    async def _open_servers(self) -> None:
        from callsheet.api.requirements import login_file  # noqa: PLC0415 - only where servers are opened
        from callsheet.ports.mcp import McpPool, folder_sink  # noqa: PLC0415 - as above

        sink = folder_sink(self._config.files)
        pins, lock = self._config.pins, self._config.lock
        pool = McpPool(
            self._config.servers, blob_sink=sink, pins=pins, logins=login_file(), lock=lock, tell=_warn
        )
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(pool)
            self._doubts = await pool.connect(keep_going=True)
            locked = None if lock is None else lock.servers
            take_in_all(self.registry, pool.all_tools(), pool.away, locked)
            self._stack.push_async_exit(opened.pop_all())
        self._pool = pool
        self.servers = tuple(pool.status())
        self.are_all_here = True
        self._when_opened()
        for doubt in (d for d in self._doubts if d.severity is not Severity.HINT):
            _warn(doubt)

    def credentials(self) -> Known:
        """The known credentials, for masking: those configured for servers and those of the environment."""
        secrets = [*in_environment(os.environ)]
        if self._config.servers:
            from callsheet.ports.mcp import credentials_of  # noqa: PLC0415 - only with servers

            secrets += credentials_of(self._config.servers)
        if self._pool is not None:
            secrets += self._pool.secrets()
        return configured(secrets)


def _warn(doubt: Diagnostic) -> None:
    _log.warning("%s: %s", doubt.code, doubt.message)


_CHANGED_TOOLS = "JRN021"
_CHANGED_POLICY = "JRN023"


@contextmanager
def in_words_of_the_library() -> Generator[None]:
    """Rewrite the help of a CallsheetError raised in the block, so that it names a Python argument."""
    try:
        yield
    except CallsheetError as error:
        diagnostics = [_argument_for_option(d) for d in error.diagnostics]
        if diagnostics == list(error.diagnostics):
            raise
        raise CallsheetError(diagnostics, error.source) from error


def _argument_for_option(diagnostic: Diagnostic) -> Diagnostic:
    if diagnostic.code == _CHANGED_POLICY:
        help_text = (diagnostic.help or "").replace(
            "--accept-changed-policy", "resume(…, accept_changed_policy=True)"
        )
        return replace(diagnostic, help=help_text)
    if diagnostic.code != _CHANGED_TOOLS:
        return diagnostic
    return replace(diagnostic, help="review the changes, then resume(…, accept_changed_tools=True)")


class PlanChecks:
    """The checks of plans with the tools and the policy of a runtime."""

    def __init__(self, config: Configuration, tools: OpenTools) -> None:
        self._config = config
        self._tools = tools

    async def equipment(self, plan: Steps | None, not_asked: str | None = None) -> Equipment:
        """What a run of a plan has at hand; opens servers if it needs them, or all without a plan."""
        return self._equipment(await self._tools.reach(plan), not_asked)

    def _equipment(self, doubts: tuple[Diagnostic, ...] = (), not_asked: str | None = None) -> Equipment:
        config = self._config
        return Equipment(
            registry=self._tools.registry,
            guarantees=self.guarantees,
            left=self.stored_labels,
            agents=config.agents,
            providers=config.providers,
            servers=self._tools.servers,
            doubts=doubts,
            not_asked=not_asked,
            on_in_doubt=config.on_in_doubt,
            known=self._tools.credentials(),
            workspace=config.workspace,
            advise=advised,
        )

    async def examine(self, plan: Plan, inputs: Mapping[str, Any]) -> Findings:
        """Check a plan against the tools of the session, opening servers if it needs them."""
        request = admission.Request(plan=plan.ir, inputs=inputs, own_approve=self._config.approve)
        return Findings(examine(request, await self.equipment(plan.ir)), plan.source)

    async def prove(
        self,
        plan: Plan,
        inputs: Iterable[str],
        approved: Iterable[str] = (),
        *,
        labels: Mapping[str, Label] | None = None,
        can_ask: bool,
    ) -> Proof:
        """Prove a plan against the policy and tools of the session; raises ValueError without a policy."""
        if self._config.policy is None:
            raise ValueError("this runtime has no policy: give Runtime(policy=…)")
        # the policy's entries for servers' tools count for the plans of a RE-PLAN too
        await self._tools.reach(None if self.may_plan_anew(plan.ir) else plan.ir)
        left = self.stored_labels()
        assumed = proving.Assumptions(
            inputs=inputs, labels=labels, approved=approved, can_ask=can_ask, left=left
        )
        return self.proof_of(plan.ir, self._config.policy, assumed)

    def may_plan_anew(self, plan: Steps) -> bool:
        """Whether a run of a plan may continue with a new plan, which may call tools of any server."""
        if self._config.policy is None or self._config.policy.replan is None:
            return False
        if plan.order is Order.DAG:
            return self._config.planner is not None
        return plan.may_plan_anew

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
        """Predict what a plan would do; servers are opened only with `asks_servers`."""
        not_asked = None if asks_servers or self._tools.are_all_here else "a server of this runtime"
        equipment = await self.equipment(plan.ir) if asks_servers else self._equipment((), not_asked)
        found = checked(plan.ir, inputs.keys(), equipment)
        findings = Findings((*equipment.doubts, *found), plan.source)
        findings.raise_for_errors()
        whole = with_inverses(plan.ir, self._tools.registry)
        facts = facts_of(whole, self._tools.registry, agents=self._config.agents)
        asks = dryrun.either(self._config.approve, needs_approval)
        forecast = dryrun.dry_run_of(whole, facts, inputs, assumed, asks, price, findings, plan.source)
        if self._config.policy is None:
            return forecast
        about_run = proving.Assumptions(inputs=inputs, left=self.stored_labels())
        return forecast.under(self.proof_of(plan.ir, self._config.policy, about_run))

    def stored_labels(self) -> PersistedLabels:
        """The labels of files that earlier runs wrote in the workspace."""
        journal = self._config.journal
        if journal is None or self._config.policy is None:
            return proofs.NOTHING_LEFT
        return remaining.left_before(
            journal.path if isinstance(journal, Journal) else journal, self._config.workspace
        )

    def objections(self, inputs: Iterable[str]) -> Verify | None:
        """What the policy says of a plan that a model made for these variables; None without a policy."""
        policy = self._config.policy
        if policy is None:
            return None
        assumed = proving.Assumptions(inputs=inputs, left=self.stored_labels())
        return proving.objections_by(lambda plan: self.proof_of(plan, policy, assumed))

    def proof_of(self, plan: Steps, policy: Policy, assumed: Assumptions) -> Proof:
        """The proof of a plan against a policy, on the tools that are open."""
        return proving.prove(plan, policy, self._tools.registry, assumed).under(self.guarantees())

    def guarantees(self) -> Guarantees:
        """The guarantees of this runtime on which a proof may rely."""
        config = self._config
        return proving.Guarantees(
            self._tools.registry,
            config.fetch,
            config.execution,
            keeps_labels=config.keeps_labels or config.journal is not None,
            workspace=config.workspace,
            files=config.in_force,
        )


class PlanMaking:
    """Makes plans for the tools of a session."""

    def __init__(self, config: Configuration, tools: OpenTools, checks: PlanChecks) -> None:
        self._config = config
        self._tools = tools
        self._checks = checks

    def compiler(self, observers: Observers) -> CompilePort:
        """The port that makes the new plans of a run, and tells its observers of them."""

        async def compile_again(
            command: Compile, context: CallContext
        ) -> tuple[Steps, Mapping[str, ToolFacts]]:
            plan, given = going_on(command, await self._new_plan(command, context))
            plan = with_inverses(plan, self._tools.registry)
            try:
                errors = (await self._checks.examine(Plan(plan), given)).errors
                if errors:
                    raise CallsheetError(errors)
                if command.has_blocks and plan.tree is not None:
                    check_inputs(command.variables, plan.tree)
            except CallsheetError as error:
                raise CallsheetError(error.diagnostics, Source("<plan>", str(Plan(plan)))) from None
            observers.compiled(command, plan)
            return plan, facts_of(plan, self._tools.registry, self._config.on_in_doubt, self._config.agents)

        return compile_again

    async def _new_plan(self, command: Compile, context: CallContext) -> Steps:
        """The plan of a RE-PLAN, or the steps that continue a failed graph."""
        if command.progress is None:
            if self._config.replan is None:
                raise ToolFailed("RE-PLAN needs a language model, and this run has none")
            await self._tools.reach(None)
            return await self._config.replan(command, context, self._tools.registry)
        if self._config.planner is None:
            raise no_planner()
        await self._tools.reach(None)
        given = command.variables

        def check(plan: Steps) -> tuple[Diagnostic, ...]:
            return check_plan(plan, self._tools.registry, given, providers=self._config.providers)

        return await self._config.planner.revise(
            command, compiling.offered(self._tools.registry), context, check
        )

    async def create_plan(self, goal: str, context: str, call: CallContext) -> Plan:
        """A checked dependency plan for a goal; model usage is charged to `call`.

        Raises CallsheetError: PLN011 without a planner, PLN010 with the errors of the plan, or the error of
        a model that gave no answer.
        """
        if self._config.planner is None:
            raise no_planner()
        await self._tools.reach(None)

        def check(plan: Steps) -> tuple[Diagnostic, ...]:
            return check_plan(plan, self._tools.registry, providers=self._config.providers)

        tools = compiling.offered(self._tools.registry)
        try:
            plan = Plan(await self._config.planner.create(goal, context, tools, call, check))
        except ModelFailed as error:
            raise as_error(error) from error
        wrong = refused(plan, await self._checks.examine(plan, {}))
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
        if self._config.language is None:
            raise compiling.no_model()
        await self._tools.reach(None)
        verify = verify or self._checks.objections(inputs)
        request = compiling.Request(
            goal, compiling.offered(self._tools.registry), context, compiling.input_descriptions(inputs)
        )
        draft = await compiling.draft_for(
            request,
            self._config.language,
            self._tools.registry,
            self._config.providers,
            verify=verify,
            options=options,
        )
        form = compiling.PlanForm.PYTHON if options is None else compiling.PlanForm(options.form)
        return compiling.compiled(goal, draft, self._tools.registry, form)
