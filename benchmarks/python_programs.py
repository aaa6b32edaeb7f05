"""Runs Python programs as plans, for a runner that brings tools, a clock and an event loop of its own.

    python run_cpython.py run --via benchmarks.python_programs:run

`run` compiles the program, and only then calls anything. The clock of the loop may be virtual: pure code is
therefore executed in the loop's own thread, and the run has no limit on its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from inspect import Parameter, signature
from typing import Any

from callsheet.frontends.python import Signature, read_python
from callsheet.frontends.values.reader import ParseResult
from callsheet.ir import Effect, canonical_tool_name
from callsheet.ir.inputs import read_inputs
from callsheet.ir.operations import CLOCK, COMPUTE
from callsheet.machine import CallModel, Limits, Status, ToolFacts
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.python_code import PythonCode
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.plan_tools import code_of, outputs_of, time_of
from callsheet.runtime.runs import run_unrecorded

Tool = Callable[..., Awaitable[Any]]
_OPERATIONS = {"llm", "llm_extract"}
_EFFECTS = {"read": Effect.READ, "model": Effect.LLM}
LIMITS = Limits(max_seconds=None, max_steps=1_000_000, max_waiting=None)


async def run(
    source: str, tools: Mapping[str, Tool], inputs: Mapping[str, Any], start: datetime
) -> dict[str, Any]:
    """What a program came to: `status` returned, raised or refused, with `return` or `error`."""
    known = {name: _signature(tool) for name, tool in tools.items() if name not in _OPERATIONS}
    read = read_python(source, "program.py", tools=known)
    if read.plan is None or read.plan.tree is None:
        return {"status": "refused", "error": _said(read)}
    given = read_inputs(read.plan.tree, inputs)
    if given.diagnostics:
        return {"status": "refused", "error": "; ".join(each.message for each in given.diagnostics)}
    loop = asyncio.get_running_loop()

    async def clock(_: Mapping[str, Any], context: CallContext) -> str:
        return (start + timedelta(seconds=int(loop.time()))).isoformat()

    with PythonCode() as code:

        async def compute(args: Mapping[str, Any], context: CallContext) -> Any:
            return outputs_of(code.compute(*code_of(args), now=time_of(args)))

        own = {CLOCK: Route(clock), COMPUTE: Route(compute)}
        routes = {canonical_tool_name(name): Route(_handler(tool)) for name, tool in tools.items()}
        ports = Ports({**routes, **own}.get, model=_model(tools))
        facts = {canonical_tool_name(name): _facts(tool) for name, tool in tools.items()}
        launch = Launch(facts=facts | dict(OWN_FACTS), inputs=given.values, limits=LIMITS)
        result = await run_unrecorded(read.plan, ports, launch)
    if result.status is Status.DONE:
        return {"status": "returned", "return": result.answer}
    return {"status": "raised", "error": result.error}


def _signature(tool: Tool) -> Signature:
    parameters = signature(tool).parameters
    needed = frozenset(name for name, one in parameters.items() if one.default is Parameter.empty)
    return Signature(tuple(parameters), needed)


def _facts(tool: Tool) -> ToolFacts:
    effect = _EFFECTS.get(getattr(tool, "effect", ""), Effect.UNSAFE)
    return ToolFacts(effect, tuple(signature(tool).parameters))


def _handler(tool: Tool) -> Callable[[dict[str, Any], CallContext], Awaitable[Any]]:
    async def handle(args: dict[str, Any], context: CallContext) -> Any:
        try:
            return await tool(**args)
        except Exception as error:
            raise ToolFailed(str(error)) from error

    return handle


def _model(tools: Mapping[str, Tool]) -> Callable[[CallModel, CallContext], Awaitable[Any]]:
    async def answer(command: CallModel, context: CallContext) -> Any:
        if command.tool == "LLM_GENERATE":
            return await tools["llm"](*command.inputs)
        args = command.args
        extra = {"schema": args["format"]} if "format" in args else {}
        return await tools["llm_extract"](args["target"], *command.inputs, **extra)

    return answer


def _said(read: ParseResult) -> str:
    return "; ".join(
        f"line {read.source.position(one.span.start).line}: {one.message}" if one.span else one.message
        for one in read.diagnostics
        if one.is_error
    )
