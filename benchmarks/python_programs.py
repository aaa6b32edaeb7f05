"""Runs Python programs as plans, for a runner that brings tools, a clock and an event loop of its own.

    python run_cpython.py run --via benchmarks.python_programs:run

`run` admits a program as `callsheet run` does: read, checked against the tools and the inputs, and only then
is anything called. The clock of the loop may be virtual: pure code is therefore executed in the loop's own
thread, and the run has no limit on its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from inspect import Parameter, signature
from typing import Any

from callsheet.api.admission import Equipment, Request, prepare
from callsheet.api.checking import ALL_PROVIDERS
from callsheet.api.proving import Guarantees
from callsheet.api.requirements import local_registry
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.frontends.python import Signature, read_python
from callsheet.ir import Effect
from callsheet.ir.inputs import read_inputs
from callsheet.ir.operations import CLOCK, COMPUTE
from callsheet.machine import CallModel, Limits, Status
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.python_code import PythonCode
from callsheet.ports.tools import Registry
from callsheet.ports.tools import Tool as ToolPort
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.plan_tools import code_of, outputs_of, time_of
from callsheet.runtime.runs import run_unrecorded

Function = Callable[..., Awaitable[Any]]
_OPERATIONS = {"llm", "llm_extract"}
_EFFECTS = {"read": Effect.READ, "model": Effect.LLM}
LIMITS = Limits(max_seconds=None, max_steps=1_000_000, max_waiting=None)


async def run(
    source: str, tools: Mapping[str, Function], inputs: Mapping[str, Any], start: datetime
) -> dict[str, Any]:
    """What a program came to: `status` returned, raised or refused, with `return` or `error`."""
    known = {name: _signature(tool) for name, tool in tools.items() if name not in _OPERATIONS}
    read = read_python(source, "program.py", tools=known)
    if read.plan is None or read.plan.tree is None:
        return {"status": "refused", "error": _said(read.source, read.diagnostics)}
    registry = local_registry(
        (_tool(name, tool) for name, tool in tools.items() if name not in _OPERATIONS), None
    )
    given = read_inputs(read.plan.tree, inputs)
    request = Request(
        plan=read.plan, source=read.source, findings=read.diagnostics, inputs=given.values, limits=LIMITS
    )
    try:
        prepared = prepare(request, _equipment(registry))
    except CallsheetError as error:
        return {"status": "refused", "error": _said(read.source, error.diagnostics)}
    loop = asyncio.get_running_loop()

    async def clock(_: Mapping[str, Any], context: CallContext) -> str:
        return (start + timedelta(seconds=int(loop.time()))).isoformat()

    with PythonCode() as code:

        async def compute(args: Mapping[str, Any], context: CallContext) -> Any:
            return outputs_of(code.compute(*code_of(args), now=time_of(args)))

        own = {CLOCK: Route(clock), COMPUTE: Route(compute)}
        routes = {tool.spec.name: Route(tool.handler) for tool in registry}
        ports = Ports({**routes, **own}.get, model=_model(tools))
        result = await run_unrecorded(prepared.plan, ports, prepared.launch)
    if result.status is Status.DONE:
        return {"status": "returned", "return": result.answer}
    return {"status": "raised", "error": result.error}


def _signature(function: Function) -> Signature:
    parameters = signature(function).parameters
    needed = frozenset(name for name, one in parameters.items() if one.default is Parameter.empty)
    return Signature(tuple(parameters), needed)


def _tool(name: str, function: Function) -> ToolPort:
    known = _signature(function)
    properties: dict[str, dict[str, Any]] = {key: {} for key in known.parameters}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": sorted(known.required)}
    effect = _EFFECTS.get(getattr(function, "effect", ""), Effect.UNSAFE)
    return ToolPort.of(name, _handler(function), schema, effect=effect, takes_context=True)


def _equipment(registry: Registry) -> Equipment:
    return Equipment(registry=registry, guarantees=lambda: Guarantees(registry), providers=ALL_PROVIDERS)


def _handler(tool: Function) -> Callable[[dict[str, Any], CallContext], Awaitable[Any]]:
    async def handle(args: dict[str, Any], context: CallContext) -> Any:
        try:
            return await tool(**args)
        except Exception as error:
            raise ToolFailed(str(error)) from error

    return handle


def _model(tools: Mapping[str, Function]) -> Callable[[CallModel, CallContext], Awaitable[Any]]:
    async def answer(command: CallModel, context: CallContext) -> Any:
        if command.tool == "LLM_GENERATE":
            return await tools["llm"](*command.inputs)
        args = command.args
        extra = {"schema": args["format"]} if "format" in args else {}
        return await tools["llm_extract"](args["target"], *command.inputs, **extra)

    return answer


def _said(source: Source, found: Iterable[Diagnostic]) -> str:
    return "; ".join(
        f"line {source.position(one.span.start).line}: {one.message}" if one.span else one.message
        for one in found
        if one.is_error
    )
