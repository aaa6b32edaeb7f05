"""Makes plans with the model or planner of an open session: for goals, RE-PLANs and failed graphs.

In: goals, and the machine's `Compile` commands. Out: plans that were checked against the session's tools.
"""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.api.checking import check_plan
from callsheet.api.compiling import (
    Compiled,
    CompileFailed,
    CompileOptions,
    Request,
    Verify,
    compiled,
    draft_for,
    input_descriptions,
    no_model,
    offered,
)
from callsheet.api.configuration import Configuration
from callsheet.api.observers import Observers
from callsheet.api.open_tools import OpenTools
from callsheet.api.plan import Plan
from callsheet.api.plan_checks import PlanChecks
from callsheet.api.planning import no_planner, refused
from callsheet.api.requirements import facts_of
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import JSON
from callsheet.ir import Plan as Steps
from callsheet.machine import Compile, ToolFacts
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.failures import as_error
from callsheet.ports.models.model import ModelFailed
from callsheet.runtime.gateway import CompilePort


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
            plan = await self._new_plan(command, context)
            errors = (await self._checks.examine(Plan(plan), command.variables)).errors
            if errors:
                raise CallsheetError(errors)
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

        return await self._config.planner.revise(command, offered(self._tools.registry), context, check)

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

        tools = offered(self._tools.registry)
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
            raise no_model()
        await self._tools.reach(None)
        verify = verify or self._checks.objections(inputs)
        request = Request(goal, offered(self._tools.registry), context, input_descriptions(inputs))
        draft = await draft_for(
            request,
            self._config.language,
            self._tools.registry,
            self._config.providers,
            verify=verify,
            options=options,
        )
        return compiled(goal, draft, self._tools.registry)
