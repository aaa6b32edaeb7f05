"""Real asyncio tools for runs in tests, and ports for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Effect, Plan
from callsheet.machine import Limits, Result, ToolFacts
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.runs import PortsFor, run_unrecorded
from callsheet.store.start import Start

FACTS = {
    "READ": ToolFacts(Effect.READ, ("x",)),
    "WRITE": ToolFacts(Effect.UNSAFE, ("x",)),
    "KEYED": ToolFacts(Effect.KEYED, ("x",)),
}
QUICK = Limits(retry_delay=0.0)

Tools = dict[str, Any]
"""By canonical name: a value, a function of the arguments, a handler, or a Route."""


def plan_of(text: str) -> Plan:
    return parse(text).require()


def route_to(tools: Tools) -> Callable[[str], Route | None]:
    """Routing to tools by name; coroutine functions take arguments and context, others arguments."""

    def route(name: str) -> Route | None:
        if name not in tools:
            return None
        tool = tools[name]
        return tool if isinstance(tool, Route) else Route(_handler(tool))

    return route


def _handler(tool: Any) -> Callable[[dict[str, Any], CallContext], Any]:
    async def handle(args: dict[str, Any], context: CallContext) -> JSON:
        if not callable(tool):
            return tool
        made = tool(args, context) if tool.__code__.co_argcount == 2 else tool(args)
        return await made if hasattr(made, "__await__") else made

    return handle


def launch(limits: Limits = QUICK, **inputs: JSON) -> Launch:
    return Launch(facts=FACTS, inputs=inputs, limits=limits)


async def run(text: str, tools: Tools | None = None, watch: Watch | None = None, **inputs: JSON) -> Result:
    """Run a plan without a journal; retries follow at once."""
    ports = Ports(route_to(tools or {}))
    return await run_unrecorded(plan_of(text), ports, launch(**inputs), watch or Watch())


def ports_for(tools: Tools) -> PortsFor:
    """The function with which `resume_run` opens the ports."""

    @asynccontextmanager
    async def open_ports(start: Start, plan: Plan) -> AsyncIterator[Ports]:
        yield Ports(route_to(tools))

    return open_ports
