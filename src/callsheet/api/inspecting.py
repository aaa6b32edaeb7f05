"""The methods of `Runtime` that run nothing: `check`, `verify`, `dry_run`, `create_plan`, `compile`.

In: plans, goals. Out: findings, proofs, dry runs, plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from callsheet.api.arguments import assumed_results, inputs_for, values_of
from callsheet.api.findings import Findings
from callsheet.api.loops import blocking
from callsheet.api.plan import Plan, PlanLike, as_plan
from callsheet.api.session import Opening
from callsheet.diagnostics.wrong_type import wanted, wanted_names
from callsheet.ports.calls import CallContext

if TYPE_CHECKING:
    from callsheet.api.compiling import Compiled, CompileFailed, CompileOptions, Verify
    from callsheet.api.dryrun import DryRun, NeedsApproval
    from callsheet.api.proving import Proof


class Inspecting(Opening):
    """The part of `Runtime` that checks plans and asks models for them."""

    # ------------------------------------------------------------ checking

    async def check(self, plan: PlanLike, inputs: Mapping[str, Any] | None = None, **named: Any) -> Findings:
        """Check a plan against the tools of this runtime; servers may be opened, nothing is run.

        `inputs` are the variables that the run will get; those of a function with `@plan` may be given by
        name. Raises PlanError for a text that is not a plan.
        """
        given = wanted_names("inputs", inputs_for(plan, inputs, named))
        async with self._opened() as session:
            return await session.checks.examine(as_plan(plan, given.keys()), given)

    check_sync = blocking(check)

    async def verify(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        approved: Iterable[str] = (),
        can_ask: bool = True,
        **named: Any,
    ) -> Proof:
        """Prove a plan against the policy and the tools of this runtime; nothing is run.

        Servers may be opened. The other arguments are those of `callsheet.verify`. Raises PlanError for a
        text that is not a plan, ValueError for a runtime without a policy.
        """
        given = wanted_names("inputs", inputs_for(plan, inputs, named))
        async with self._opened() as session:
            return await session.checks.prove(as_plan(plan, given.keys()), given, approved, can_ask=can_ask)

    verify_sync = blocking(verify)

    async def dry_run(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        assume: Mapping[str, Any] | None = None,
        needs_approval: NeedsApproval = (),
        price: float | None = None,
        ask_servers: bool = False,
        **named: Any,
    ) -> DryRun:
        """Predict what a plan would do, step by step; nothing is called or recorded.

        Known values are resolved: `inputs`, literals, transforms of known values, and the results that
        `assume` gives by step id. `needs_approval` names tools, or steps, that need a person's approval, in
        addition to `Runtime(approve=…)`; `price` is the price of a million prompt tokens. Server tools are
        looked up only with `ask_servers`, which starts the servers; otherwise their effects are unknown.
        Raises PlanError for a plan that `run` would refuse, CallsheetError (RUN040) for an assumed result of
        a step that does not exist or calls nothing.

        >>> import asyncio
        >>> from callsheet import Runtime
        >>> text = 'S1: @GREET ("Ada") > $g\\nS2: @SEND ($g.text, "$g.n times")'
        >>> def greet(name: str) -> dict[str, object]: ...
        >>> def send(text: str, note: str) -> None: ...
        >>> told = asyncio.run(Runtime([greet, send]).dry_run(text, assume={"S1": {"n": 2}}))
        >>> [(call.tool, call.visits[0].arguments) for call in told.calls]
        [('GREET', (('name', 'Ada'),)), ('SEND', (('text', None), ('note', '2 times')))]
        """
        values, assumed = values_of(inputs_for(plan, inputs, named)), assumed_results(assume)
        read = as_plan(plan, values.keys())
        async with self._opened() as session:
            return await session.checks.dry_run(
                read, values, assumed, needs_approval, price, asks_servers=ask_servers
            )

    dry_run_sync = blocking(dry_run)

    # ------------------------------------------------------------ planning

    async def create_plan(self, goal: str, context: str = "", *, call: CallContext | None = None) -> Plan:
        """Ask the planner, or the model, for a dependency plan for a goal; nothing is run.

        It is told the tools of this runtime, servers included; `context` is data about the goal. A model may
        repair its answer once. Its usage is charged to `call`. Raises CallsheetError: PLN010, with all
        errors, for an answer that is not a plan or a plan that could not run here (an unknown tool, a
        cycle, …), PLN011 if there is neither a planner nor a model; and whatever the planner raises.

        >>> import asyncio
        >>> from callsheet import Runtime
        >>> def greet(name: str) -> str: ...
        >>> step = {"index": "1", "title": "Say", "tool": "greet", "args": {"name": "Ada"}, "depends_on": []}
        >>> runtime = Runtime([greet], planner=lambda request: {"title": request.goal, "steps": [step]})
        >>> [step.title for step in asyncio.run(runtime.create_plan("Greet Ada")).steps]
        ['Say']
        """
        _wanted_goal(goal, context)
        async with self._opened() as session:
            return await session.making.create_plan(goal, context, call or CallContext("", "plan"))

    create_plan_sync = blocking(create_plan)

    async def compile(
        self,
        goal: str,
        context: str = "",
        *,
        inputs: Mapping[str, Any] | None = None,
        verify: Verify | None = None,
        options: CompileOptions | None = None,
    ) -> Compiled | CompileFailed:
        """Ask the model for a plan for a goal, and once more if its answer has errors; nothing is run.

        The model is told the tools of this runtime that fit the goal, servers included, and its answer is
        constrained by a grammar of them if it supports that. `context` is data about the goal. Of `inputs`,
        the variables that the run will get, it is told names, kinds and sizes. `verify` returns further
        diagnostics about a plan that passed the checks; by default those of the runtime's policy. Raises
        CallsheetError (CMP001) without a model that can be asked; all other failures give `CompileFailed`.

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
        _wanted_goal(goal, context)
        given = values_of(inputs)
        async with self._opened() as session:
            return await session.making.compile(goal, context, given, verify, options)

    compile_sync = blocking(compile)  # noqa: A003 - the method above


def _wanted_goal(goal: object, context: object) -> None:
    wanted("goal", goal, str, "a text")
    wanted("context", context, str, "a text")
