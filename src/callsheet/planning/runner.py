"""Runs plans with the documented API: callbacks, variables, dry runs, checkpoints, guards, plan tools."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal, cast

from callsheet.api.budget import limits_after
from callsheet.api.events import RunEvent, StepFailed, StepFinished, StepStarted
from callsheet.api.handle import RunHandle
from callsheet.api.models import called
from callsheet.api.plan import Plan
from callsheet.api.plan_sources import check_unchanged
from callsheet.api.plan_tools import Confirm, Follow, PlanTools, error_reply, openai_tools, reply_text
from callsheet.api.result import RunResult
from callsheet.api.runtime import Runtime
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted
from callsheet.frontends.dag import format_dag
from callsheet.frontends.dag.printer import plan_data
from callsheet.ir import Order, canonical_tool_name, executor_name
from callsheet.machine import Limits, Usage
from callsheet.machine.keys import parse_key
from callsheet.machine.values import to_json_text
from callsheet.planning.context import SCHEDULE, AroundCalls, PlanningContext, plan_of
from callsheet.planning.results import PlanExecutionResult, StateFile, StepExecutionResult, read_checkpoint
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.doubt import fold_run
from callsheet.store import Journal, RunStatus

OnStart = Callable[[str, str, str], object]
"""Called when a step begins, with its index, title and tool; may be async."""
OnComplete = Callable[[StepExecutionResult], object]
"""Called when a step is done or has failed; may be async."""

_log = logging.getLogger("callsheet")


class StepCallbacks:
    """The callbacks of one run; their exceptions are logged.

    They are told in the order of the run: of a step's end before the call of a step that depends on it. So a
    call waits for a callback that takes long.
    """

    def __init__(self, on_start: OnStart | None, on_complete: OnComplete | None) -> None:
        self._on_start = on_start
        self._on_complete = on_complete
        self._handle: RunHandle | None = None
        self._begun: set[str] = set()
        self._is_telling = False
        self._told = asyncio.Event()

    async def before_call(self, context: CallContext, tool: str) -> None:
        """Report the start of a step whose tool is about to be called, unless it was reported."""
        step = parse_key(context.key).step if context.key else ""
        if step:
            await self._catch_up()
            await self.begin(step, "" if self._handle is None else self._handle.title(step), tool)

    async def _catch_up(self) -> None:
        """Wait until the callbacks know of everything that has happened."""
        while self._is_telling or (self._handle is not None and self._handle.has_unread):
            self._told.clear()
            await self._told.wait()

    async def begin(self, step: str, title: str, tool: str) -> None:
        """Report that a step begins, once."""
        if self._on_start is not None and step not in self._begun:
            self._begun.add(step)
            await _call(self._on_start, step, title, tool)

    async def end(self, result: StepExecutionResult) -> None:
        """Report that a step has ended."""
        self._begun.discard(result.step_index)
        if self._on_complete is not None:
            await _call(self._on_complete, result)

    async def follow(
        self,
        handle: RunHandle,
        elsewhere: Collection[str] | None = None,
        state: StateFile | None = None,
    ) -> RunResult:
        """The result of a run, during which the callbacks are notified.

        Events from before a resume are not repeated. In a run taken over from another program, which
        completed the steps `elsewhere`, the start of all other steps is reported too. `state` is written.
        """
        self._handle = handle
        async with handle:
            async for event in handle:
                self._is_telling = True
                try:
                    await self._tell(event, handle, elsewhere, state)
                finally:
                    self._is_telling = False
                    self._told.set()
        result = await handle.result()
        if state is not None:
            state.write("completed" if result.ok else "failed", result.variables)
        return result

    async def _tell(
        self, event: RunEvent, handle: RunHandle, elsewhere: Collection[str] | None, state: StateFile | None
    ) -> None:
        """Notify the callbacks of an event, and write the state."""
        if state is not None and isinstance(event, StepFinished):
            done = handle.step(event.step)
            if done is not None and done.success:
                state.step_done(done.index, done.variable, done.value)
        if event.replayed and not _begins_here(event, elsewhere):
            return
        if isinstance(event, StepStarted):
            tool = executor_name(event.action.removeprefix("@"))
            await self.begin(event.step, handle.title(event.step), tool)
        elif isinstance(event, StepFinished | StepFailed):
            step = handle.step(event.step)
            if step is not None:
                await self.end(StepExecutionResult.of(step))


def _begins_here(event: RunEvent, elsewhere: Collection[str] | None) -> bool:
    return elsewhere is not None and isinstance(event, StepStarted) and event.step not in elsewhere


async def _call(function: Callable[..., object], *arguments: object) -> None:
    try:
        await called(function, *arguments)
    except Exception:
        _log.warning("a callback of a plan's run failed", exc_info=True)


class PlanRunner:
    """Runs plans with the tools of a context.

    `on_step_start(index, title, tool)` and `on_step_complete(result)` are called for steps; they may be
    async, and their exceptions are logged. With `enable_guards` the budget of the context applies. At most
    `max_concurrency` steps run at once. With `enable_replan` a planner is asked up to `max_replans` times for
    other steps when a plan has failed.
    """

    def __init__(
        self,
        context: PlanningContext,
        on_step_start: OnStart | None = None,
        on_step_complete: OnComplete | None = None,
        *,
        enable_guards: bool = True,
        max_concurrency: int = 4,
        enable_replan: bool = False,
        max_replans: int = 2,
    ) -> None:
        self._context = context
        self._on_start = on_step_start
        self._on_complete = on_step_complete
        self._guards = enable_guards
        self._limit_overrides = {
            "max_concurrency": max_concurrency,
            "replans_on_failure": max_replans if enable_replan else 0,
        }

    async def execute_plan(
        self,
        plan_data: Mapping[str, Any] | Plan | str,
        variables: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        checkpoint: bool = True,
    ) -> PlanExecutionResult:
        """Run a plan, given as data, JSON text or a Plan; errors are reported in the result.

        A `dry_run` calls nothing and records nothing. With `checkpoint` the run is journaled, so that
        `resume_plan` can continue it.
        """
        began = time.monotonic()
        plan: Plan | None = None
        try:
            plan, data = _plan_and_data(plan_data)
            if dry_run:
                return await self._foresee(plan, data, variables)
            callbacks = StepCallbacks(self._on_start, self._on_complete)
            async with self._budget_turn(), await self._runtime(data, callbacks, checkpoint) as runtime:
                state = self._state_file(plan, variables) if checkpoint else None
                result = await self._follow(runtime.start(plan, variables), callbacks, state)
        except (CallsheetError, ToolFailed) as error:
            return _refused(plan, str(error), began)
        return PlanExecutionResult.of(plan.ir, result, time.monotonic() - began, is_recorded=checkpoint)

    async def _foresee(
        self, plan: Plan, data: Mapping[str, Any], variables: Mapping[str, Any] | None
    ) -> PlanExecutionResult:
        """The result of a dry run; the callbacks are told of each step, whose result is marked `dry_run`."""
        runtime = await self._context.runtime(data, checkpoint=False, limits=self._limits())
        forecast = await runtime.dry_run(plan, variables)
        known = {**_initial(data), **dict(variables or {})}
        result = PlanExecutionResult.foreseen(plan.ir, forecast, known)
        callbacks = StepCallbacks(self._on_start, self._on_complete)
        for step in result.steps:
            await callbacks.begin(step.step_index, step.step_title, step.tool_name)
            await callbacks.end(step)
        return result

    async def resume_plan(
        self,
        plan_id: str,
        *,
        in_doubt: Literal["retry", "skip", "fail"] | None = None,
        accept_changed_plan: bool = False,
        state: str | Mapping[str, Any] | None = None,
    ) -> PlanExecutionResult:
        """Continue the newest run of a plan; completed steps are not run again.

        `plan_id` is the id of a plan that was run, or its beginning. A call that was under way when the
        process died may have taken place: `in_doubt` says how to resolve that; without it the run waits. Its
        further calls are those that the budget leaves now, so a higher budget lets a run go on whose budget
        was spent. If there is no such run, or several plans match, the result says so (PLN002); nothing is
        raised. The run continues with its own plan: if the saved one has changed since, nothing is run
        (PLN029) unless `accept_changed_plan`.

        With `state`, the text or data of a state file `ID_state.json` written by another program, a new run
        of the saved plan starts from that state: the steps completed there are not run again. A file that
        does not fit the plan is refused (PLN028), and nothing is run.
        """
        began = time.monotonic()
        try:
            if state is not None:
                return await self._run_from_state(plan_id, state, began)
            with Journal.open(self._context.plans_dir / "journal.db") as journal:
                infos = [info for info in journal.runs() if (info.plan_id or "").startswith(plan_id)]
                exact = [info for info in infos if info.plan_id == plan_id] or infos
                if not plan_id or len({info.plan_id for info in exact}) != 1:
                    message = (
                        "more than one plan has this prefix" if exact else "no run of such a plan is recorded"
                    )
                    raise CallsheetError.single("PLN002", f"{plan_id[:80]}: {message}")
                info = exact[0]
                run_id, plan = info.run_id, Plan(journal.plan_of(info.plan_hash))
            if not accept_changed_plan and info.status is not RunStatus.DONE:
                check_unchanged(self._context.library, info.plan_id or "", plan.ir)
            data = json.loads(format_dag(plan.ir))
            callbacks = StepCallbacks(self._on_start, self._on_complete)
            async with self._budget_turn(), await self._runtime(data, callbacks, True) as runtime:
                limits = None if info.status is RunStatus.DONE else self._limits_after(run_id)
                handle = runtime.start_resume(run_id, in_doubt=in_doubt, limits=limits)
                written = self._state_file(plan, None)
                result = await self._follow(handle, callbacks, written, is_new=False)
        except CallsheetError as error:
            return _refused(None, str(error), began)
        return PlanExecutionResult.of(plan.ir, result, time.monotonic() - began, is_recorded=True)

    async def _run_from_state(
        self, plan_id: str, state: str | Mapping[str, Any], began: float
    ) -> PlanExecutionResult:
        """Start a run of the saved plan from the state in a state file, and continue it."""
        plan = Plan(self._context.library.load(plan_id).require())
        text = state if isinstance(state, str) else json.dumps(state, ensure_ascii=False, default=str)
        checkpoint = read_checkpoint(text, plan.ir)
        data = json.loads(format_dag(plan.ir))
        callbacks = StepCallbacks(self._on_start, self._on_complete)
        async with self._budget_turn(), await self._runtime(data, callbacks, True) as runtime:
            run_id = await runtime.adopt(plan, checkpoint.done, checkpoint.inputs)
            handle, written = runtime.start_resume(run_id), self._state_file(plan, None)
            result = await self._follow(handle, callbacks, written, is_new=False, elsewhere=checkpoint.done)
        return PlanExecutionResult.of(plan.ir, result, time.monotonic() - began, is_recorded=True)

    async def _runtime(self, data: Mapping[str, Any], callbacks: StepCallbacks, checkpoint: bool) -> Runtime:
        """The runtime of a run, whose calls are announced and guarded."""
        around = AroundCalls(callbacks.before_call, self._context.guards if self._guards else None)
        return await self._context.runtime(data, checkpoint=checkpoint, limits=self._limits(), around=around)

    def _state_file(self, plan: Plan, variables: Mapping[str, Any] | None) -> StateFile:
        is_graph = plan.ir.order is Order.DAG
        initial = _initial(json.loads(format_dag(plan.ir))) if is_graph else {}
        return StateFile(self._context.plans_dir, plan.ir, {**initial, **dict(variables or {})})

    def _limits_after(self, run_id: str) -> Limits:
        """The limits for the rest of a run: what it has used, and what the budget leaves now."""
        limits = self._limits()
        with Journal.open(self._context.plans_dir / "journal.db") as journal:
            used = fold_run(journal, run_id, journal.plan_of(journal.find_run(run_id).plan_hash)).usage()
        return limits_after(limits, used)

    def _limits(self) -> Limits:
        limits = self._context.budget.left() if self._guards else Limits().without_guards()
        return replace(limits, schedule=SCHEDULE, **self._limit_overrides)

    def _budget_turn(self) -> AbstractAsyncContextManager[None]:
        return self._context.budget.turn() if self._guards else nullcontext()

    async def _follow(
        self,
        handle: RunHandle,
        callbacks: StepCallbacks,
        state: StateFile | None,
        *,
        is_new: bool = True,
        elsewhere: Collection[str] | None = None,
    ) -> RunResult:
        """Notify the callbacks, write the state, count the usage, and return the result."""
        used: Usage | None = None
        try:
            result = await callbacks.follow(handle, elsewhere, state)
            used = result.usage if is_new else None  # the usage before a resume was counted then
            if elsewhere is not None:
                used = _usage_without(result, elsewhere)
        finally:
            if self._guards:
                self._context.budget.add(used or handle.calls_begun())
        return result


def _usage_without(result: RunResult, elsewhere: Collection[str]) -> Usage:
    """The usage of a run without the calls of steps that were completed elsewhere."""
    tools = Counter(canonical_tool_name(step.tool) for step in result.steps if step.index in elsewhere)
    used, count = result.usage, tools.total()
    by_tool = {name: calls - tools[name] for name, calls in used.calls_by_tool.items()}
    return used._replace(steps=used.steps - count, calls=used.calls - count, calls_by_tool=by_tool)


def _plan_and_data(given: Mapping[str, Any] | Plan | str) -> tuple[Plan, dict[str, Any]]:
    """The plan, and the data of its JSON form (empty if text-ordered); raises PlanError."""
    plan = plan_of(given)
    if not isinstance(given, Plan | str):
        return plan, dict(given)
    return plan, json.loads(format_dag(plan.ir)) if plan.ir.order is Order.DAG else {}


def _initial(data: Mapping[str, Any]) -> dict[str, Any]:
    variables: Any = data.get("variables")
    return dict(cast("Mapping[str, Any]", variables)) if isinstance(variables, Mapping) else {}


def _refused(plan: Plan | None, error: str, began: float) -> PlanExecutionResult:
    named = None if plan is None else plan.ir
    return PlanExecutionResult(
        (named.id if named else None) or "",
        (named.title if named else None) or "",
        False,
        error=error,
        total_duration=time.monotonic() - began,
    )


def get_plan_tools_as_dicts() -> list[dict[str, Any]]:
    """The definitions of the three plan tools in OpenAI's form."""
    return openai_tools()


async def handle_plan_tool(
    name: str,
    arguments: Mapping[str, Any],
    context: PlanningContext,
    *,
    confirm: Confirm | None = None,
    ui_manager: Any = None,
) -> str:
    """Carry out a call of a plan tool; returns the reply as JSON text of at most 20,000 characters.

    A plan that is run is saved, and its run is in the journal of the context: if it fails, as the reply says,
    `PlanRunner.resume_plan` continues it. `confirm` is asked before a plan is run. `ui_manager` is notified
    of each step of a run: `start_tool_execution(tool, {"step": …, "title": …})`, then
    `finish_tool_execution(result=…, success=…)`; either may be async. Errors are reported in the reply.
    """
    wanted("context", context, PlanningContext, "a PlanningContext")
    data = _saved(context, arguments) if name == "plan_execute" else None
    callbacks = _step_display(ui_manager)
    around = AroundCalls(None if callbacks is None else callbacks.before_call, context.guards)
    limits = context.budget.limits
    try:
        runtime = await context.runtime(data, checkpoint=name != "plan_create", limits=limits, around=around)
    except CallsheetError as error:
        return reply_text(error_reply(str(error), code=error.diagnostics[0].code))
    follow: Follow | None = None if callbacks is None else callbacks.follow
    tools = PlanTools(runtime, context.library, confirm=confirm, budget=context.budget, follow=follow)
    async with runtime:
        return await tools.handle(name, arguments)


def _step_display(ui_manager: Any) -> StepCallbacks | None:
    """Shows the steps of a run; None if there is no `ui_manager`."""
    if ui_manager is None:
        return None

    def start(index: str, title: str, tool: str) -> object:
        return ui_manager.start_tool_execution(tool, {"step": index, "title": title})

    def complete(step: StepExecutionResult) -> object:
        shown = step.result if step.success else step.error
        return ui_manager.finish_tool_execution(result=to_json_text(shown), success=step.success)

    return StepCallbacks(start, complete)


def _saved(context: PlanningContext, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The data of a saved dependency-ordered plan; None if there is none, which the handler reports."""
    try:
        plan = context.library.load(str(arguments.get("plan_id", ""))).require()
    except CallsheetError:
        return None
    return plan_data(plan) if plan.order is Order.DAG else None
