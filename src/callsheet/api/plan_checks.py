"""Checks, proves and forecasts plans on the open tools of a session; nothing is run.

In: plans, the names and values of their inputs. Out: findings, proofs, dry runs. Servers are opened where a
plan calls tools that are not registered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from callsheet.api.advice import advised
from callsheet.api.agents import wrong_tools
from callsheet.api.checking import check_plan, idle_inputs, idle_rules
from callsheet.api.compiling import Verify
from callsheet.api.configuration import Configuration
from callsheet.api.dryrun import DryRun, NeedsApproval, dry_run_of, either
from callsheet.api.findings import Findings
from callsheet.api.obligations import Guarantees
from callsheet.api.open_tools import OpenTools
from callsheet.api.plan import Plan
from callsheet.api.proving import Assumptions, Proof, objections_by, prove
from callsheet.api.requirements import facts_of
from callsheet.diagnostics import Diagnostic
from callsheet.ir import JSON, Ending, Order
from callsheet.ir import Plan as Steps
from callsheet.ir.labels import Label
from callsheet.passes.verify import NOTHING_LEFT, PersistedLabels
from callsheet.policy.model import Policy
from callsheet.runtime.remaining import left_before
from callsheet.store import Journal


class PlanChecks:
    """The checks of plans with the tools and the policy of a runtime."""

    def __init__(self, config: Configuration, tools: OpenTools) -> None:
        self._config = config
        self._tools = tools

    async def examine(self, plan: Plan, inputs: Mapping[str, object]) -> Findings:
        """Check a plan against the tools of the session, opening servers if it needs them."""
        doubts = await self._tools.reach(plan.ir)
        found = self._diagnostics(plan.ir, inputs.keys())
        idle = (*idle_inputs(plan.ir, inputs), *idle_rules(plan.ir, self._config.approve))
        return Findings((*doubts, *found, *idle), plan.source)

    def _diagnostics(
        self, plan: Steps, inputs: Collection[str], not_asked: str | None = None
    ) -> tuple[Diagnostic, ...]:
        """What is wrong with a plan on the tools that are open; `not_asked` as for `check_plan`."""
        registry, agents = self._tools.registry, self._config.agents
        of_plan = check_plan(plan, registry, inputs, not_asked=not_asked, providers=self._config.providers)
        return advised(plan, (*of_plan, *wrong_tools(plan, registry, agents, not_asked=not_asked)))

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
        await self._tools.reach(None if self._may_plan_anew(plan.ir) else plan.ir)
        left = self.stored_labels()
        assumed = Assumptions(inputs=inputs, labels=labels, approved=approved, can_ask=can_ask, left=left)
        return self.proof_of(plan.ir, self._config.policy, assumed)

    def _may_plan_anew(self, plan: Steps) -> bool:
        """Whether a run of a plan may continue with a new plan, which may call tools of any server."""
        if self._config.policy is None or self._config.policy.replan is None:
            return False
        if plan.order is Order.DAG:
            return self._config.planner is not None
        return any(step.course.ends is Ending.NEW_PLAN for step in plan.steps)

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
        doubts = await self._tools.reach(plan.ir) if asks_servers else ()
        not_asked = None if asks_servers or self._tools.are_all_here else "a server of this runtime"
        found = self._diagnostics(plan.ir, inputs.keys(), not_asked)
        findings = Findings((*doubts, *found), plan.source)
        findings.raise_for_errors()
        facts = facts_of(plan.ir, self._tools.registry, agents=self._config.agents)
        asks = either(self._config.approve, needs_approval)
        forecast = dry_run_of(plan.ir, facts, inputs, assumed, asks, price, findings)
        if self._config.policy is None:
            return forecast
        about_run = Assumptions(inputs=inputs, left=self.stored_labels())
        return forecast.under(self.proof_of(plan.ir, self._config.policy, about_run))

    def stored_labels(self) -> PersistedLabels:
        """The labels of files that earlier runs wrote in the workspace."""
        journal = self._config.journal
        if journal is None or self._config.policy is None:
            return NOTHING_LEFT
        return left_before(journal.path if isinstance(journal, Journal) else journal, self._config.workspace)

    def objections(self, inputs: Iterable[str]) -> Verify | None:
        """What the policy says of a plan that a model made for these variables; None without a policy."""
        policy = self._config.policy
        if policy is None:
            return None
        assumed = Assumptions(inputs=inputs, left=self.stored_labels())
        return objections_by(lambda plan: self.proof_of(plan, policy, assumed))

    def proof_of(self, plan: Steps, policy: Policy, assumed: Assumptions) -> Proof:
        """The proof of a plan against a policy, on the tools that are open."""
        return prove(plan, policy, self._tools.registry, assumed).under(self.guarantees())

    def guarantees(self) -> Guarantees:
        """The guarantees of this runtime on which a proof may rely."""
        config = self._config
        return Guarantees(
            self._tools.registry,
            config.fetch,
            config.execution,
            keeps_labels=config.journal is not None,
            workspace=config.workspace,
            files=config.in_force,
        )
