"""Settles a call in doubt by other tools, as the reconciler of its tool says; only calls that read are made.

In: the call, and the tools of its run. Out: whether it took place, with its value. A plan is run in memory,
and what it does is not recorded: only its answer counts, which is the decision on the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from callsheet.ir import JSON
from callsheet.ir.inverse import NotThere
from callsheet.machine import CallTool, Failed, Limits, Machine, Sleep, Started, Succeeded, TimerFired
from callsheet.machine.compiling import compile_plan
from callsheet.machine.result import Status
from callsheet.ports.answers import Probed, as_json, probed_json
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.reconcilers import ByCall, ByPlan, Reconciler

if TYPE_CHECKING:
    from callsheet.runtime.gateway import Route

_MOST_CALLS = 100
_LIMITS = Limits(max_steps=1_000, max_calls=_MOST_CALLS, schedule="sequential")


async def reconcile(
    reconciler: Reconciler,
    args: Mapping[str, JSON],
    context: CallContext,
    find: Callable[[str], Route],
) -> Probed:
    """Whether a call with these arguments took place; `context` is that of its probe, which has its key.

    `find` gives the route of a tool. Raises ToolFailed, or what a tool raises, if that cannot be told.
    """
    key = context.idempotency_key
    match reconciler:
        case ByCall(call=call, condition=condition):
            try:
                given = call.bound(args, key)
            except NotThere as error:
                raise ToolFailed(f"{call} cannot be called: {error}") from None
            answer = await _reader(call.tool, find).handler(given, context)
            return condition.judge(as_json(answer), args, key)
        case ByPlan():
            return await _by_plan(reconciler, args, context, find)


def _reader(tool: str, find: Callable[[str], Route]) -> Route:
    """The route of a tool that reads; raises ToolFailed for any other."""
    route = find(tool)
    if not route.reads:
        raise ToolFailed(f"@{tool} may change something, and a probe only reads")
    return route


async def _by_plan(
    reconciler: ByPlan, args: Mapping[str, JSON], context: CallContext, find: Callable[[str], Route]
) -> Probed:
    machine = Machine(compile_plan(reconciler.plan), _LIMITS)
    waiting = [*machine.feed(Started(reconciler.inputs(args, context.idempotency_key)))]
    while waiting and machine.result is None:
        command = waiting.pop(0)
        match command:
            case CallTool(key=key, tool=tool, args=given):
                route = _reader(tool, find)  # a tool that may not be asked is no failure to be handled
                try:
                    value = as_json(await route.handler(dict(given), context))
                except Exception as error:  # a failure of a tool, which the plan may handle
                    waiting += machine.feed(Failed(key, str(error) or type(error).__name__))
                else:
                    waiting += machine.feed(Succeeded(key, value))
            case Sleep(key=key, seconds=seconds):
                await asyncio.sleep(seconds)
                waiting += machine.feed(TimerFired(key))
            case _:
                raise ToolFailed(f"its plan asks for more than calls that read: {type(command).__name__}")
    result = machine.result
    if result is None or result.status is not Status.DONE:
        raise ToolFailed(f"its plan failed: {'it came to no end' if result is None else result.error}")
    return probed_json(result.answer)
