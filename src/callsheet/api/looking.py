"""What can be said of plans, and made for goals, on the tools of a runtime; nothing runs here.

In: plans, goals. Out: findings, proofs, dry runs, plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from callsheet.api.compiling import Compiled, CompileFailed, CompileOptions, Verify
from callsheet.api.dryrun import DryRun, NeedsApproval
from callsheet.api.findings import Findings
from callsheet.api.given import assumed_results, values_of
from callsheet.api.opening import Opening
from callsheet.api.plan import Plan, PlanLike, as_plan
from callsheet.api.proving import Proof
from callsheet.diagnostics.wanted import wanted_names
from callsheet.ports.calls import CallContext


class Looking(Opening):
    """Looks at plans and has them made; it opens its kit as a runtime does."""

    # ------------------------------------------------------------ checking

    async def check(self, plan: PlanLike, inputs: Mapping[str, Any] | None = None) -> Findings:
        """What is wrong with a plan on the tools of this runtime; servers are asked, nothing runs.

        `inputs` are the variables that the run will be given. Raises PlanError for a text that
        is no plan.
        """
        given = wanted_names("inputs", inputs)
        async with self._opened() as session:
            return await session.examine(as_plan(plan, given.keys()), given)

    async def verify(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        approved: Iterable[str] = (),
        can_ask: bool = True,
    ) -> Proof:
        """Hold a plan against the policy of this runtime, on its tools; servers are asked, nothing runs.

        Takes what `callsheet.verify` takes. Raises PlanError for a text that is no plan, ValueError for a
        runtime without a policy.
        """
        given = wanted_names("inputs", inputs)
        async with self._opened() as session:
            return await session.prove(as_plan(plan, given.keys()), given, approved, can_ask=can_ask)

    async def dry_run(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        assume: Mapping[str, Any] | None = None,
        needs_approval: NeedsApproval = (),
        price: float | None = None,
        ask_servers: bool = False,
    ) -> DryRun:
        """What a plan would do, step by step; nothing is called, started or recorded.

        Whatever is known is resolved: `inputs`, literals, transforms of known values, and the
        results that `assume` gives by step id. `needs_approval` names further tools that a person is
        asked about, besides those of `approve`; `price` is that of a million prompt tokens. Tools of
        servers are looked at only with `ask_servers`, which starts them; without it what they do is
        unknown. Raises
        PlanError for a plan that `run` would refuse, CallsheetError (RUN040) for an assumption
        about no step.

        >>> import asyncio
        >>> from callsheet import Runtime
        >>> text = 'S1: @GREET ("Ada") > $g\\nS2: @SEND ($g.text, "$g.n times")'
        >>> def greet(name: str) -> dict[str, object]: ...
        >>> def send(text: str, note: str) -> None: ...
        >>> told = asyncio.run(Runtime([greet, send]).dry_run(text, assume={"S1": {"n": 2}}))
        >>> [(call.tool, call.visits[0].arguments) for call in told.calls]
        [('GREET', (('name', 'Ada'),)), ('SEND', (('text', None), ('note', '2 times')))]
        """
        values, assumed = values_of(inputs), assumed_results(assume)
        read = as_plan(plan, values.keys())
        async with self._opened() as session:
            return await session.dry_run(
                read, values, assumed, needs_approval, price, asks_servers=ask_servers
            )

    # ------------------------------------------------------------ planning

    async def create_plan(self, goal: str, context: str = "", *, call: CallContext | None = None) -> Plan:
        """A plan of dependencies for a goal: the planner, or the model, is asked once; nothing is run.

        It is told the tools of this runtime, servers included; `context` is data about the goal. Raises
        CallsheetError: PLN010 for an answer that is no plan or a plan that could not run here (a tool that
        nobody offers, a circle, …), with all that is wrong with it, PLN011 where nobody is there to
        make one; and whatever the planner raises. What the model has spent is told to `call`.

        >>> import asyncio
        >>> from callsheet import Runtime
        >>> def greet(name: str) -> str: ...
        >>> step = {"index": "1", "title": "Say", "tool": "greet", "args": {"name": "Ada"}, "depends_on": []}
        >>> runtime = Runtime([greet], planner=lambda request: {"title": request.goal, "steps": [step]})
        >>> [step.title for step in asyncio.run(runtime.create_plan("Greet Ada")).steps]
        ['Say']
        """
        async with self._opened() as session:
            return await session.create_plan(goal, context, call or CallContext("", "plan"))

    def create_plan_sync(self, goal: str, context: str = "") -> Plan:
        """As `create_plan`, for programs without an event loop."""
        return self._run_sync(self.create_plan(goal, context), "create_plan")

    async def compile(
        self,
        goal: str,
        context: str = "",
        *,
        inputs: Mapping[str, Any] | None = None,
        verify: Verify | None = None,
        options: CompileOptions | None = None,
    ) -> Compiled | CompileFailed:
        """A plan for a goal: the model is asked, and once more where its answer is wrong; nothing is run.

        The model is told the tools of this runtime that fit the goal, servers included, and held to a
        grammar of them where it takes one. `context` is data about the goal; of `inputs`, the variables
        that the run will be given, it is told names, kinds and sizes. `verify` says what speaks against a
        plan beside the checks. Raises CallsheetError (CMP001) where no model is there that can be asked;
        whatever else goes wrong is told by `CompileFailed`.

        >>> import asyncio
        >>> from callsheet import Runtime
        >>> def greet(name: str) -> str: ...
        >>> answer = 'S1: @greet (name="Ada") > $v1\\nS2: @respond ($v1)'
        >>> made = asyncio.run(Runtime([greet], model=lambda prompt: answer).compile("Greet Ada"))
        >>> print(made.text, end="")
        # ltp: 1
        # goal: Greet Ada
        PLAN_START
        S1: @GREET (name="Ada") > $greet
        S2: @RESPOND ($greet)
        PLAN_END
        """
        given = values_of(inputs)
        async with self._opened() as session:
            return await session.compile(goal, context, given, verify, options)

    def compile_sync(
        self,
        goal: str,
        context: str = "",
        *,
        inputs: Mapping[str, Any] | None = None,
        verify: Verify | None = None,
        options: CompileOptions | None = None,
    ) -> Compiled | CompileFailed:
        """As `compile`, for programs without an event loop."""
        work = self.compile(goal, context, inputs=inputs, verify=verify, options=options)
        return self._run_sync(work, "compile")

    # ------------------------------------------------------------ without async

    def check_sync(self, plan: PlanLike, inputs: Mapping[str, Any] | None = None) -> Findings:
        """As `check`, for programs without an event loop."""
        return self._run_sync(self.check(plan, inputs), "check")

    def dry_run_sync(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        assume: Mapping[str, Any] | None = None,
        needs_approval: NeedsApproval = (),
        price: float | None = None,
        ask_servers: bool = False,
    ) -> DryRun:
        """As `dry_run`, for programs without an event loop."""
        work = self.dry_run(
            plan, inputs, assume=assume, needs_approval=needs_approval, price=price, ask_servers=ask_servers
        )
        return self._run_sync(work, "dry_run")

    def verify_sync(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        approved: Iterable[str] = (),
        can_ask: bool = True,
    ) -> Proof:
        """As `verify`, for programs without an event loop."""
        work = self.verify(plan, inputs, approved=approved, can_ask=can_ask)
        return self._run_sync(work, "verify")
