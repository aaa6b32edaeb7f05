"""Runs for tests of the projection: on scripted tools, journaled, and projected from their events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Plan
from callsheet.machine import CallModel, Compile, Limits, Result, ToolFacts
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import start_run
from callsheet.store import Journal
from callsheet.store.events import Event
from callsheet.trace.lctl.check import check
from callsheet.trace.lctl.model import DebugDocument, Handoff
from callsheet.trace.projection.record import Record
from callsheet.trace.projection.recording import record_of

LIMITS = Limits(max_steps=25, window=3, retry_delay=0.0)
Tool = Callable[[dict[str, Any], str], JSON]
"""A tool of its arguments and the key of the call; raises ToolFailed to fail."""


class Told(NamedTuple):
    """A run: its plan, the events of its journal, its end, and its record."""

    plan: Plan
    rows: list[Event]
    result: Result | None
    record: Record
    journal: Journal

    def cut(self, length: int) -> Record:
        """The record of the first events alone."""
        return record_of(self.plan, self.rows[:length], self.journal.plan_of)


def ports_of(
    answer: Callable[[str, str, dict[str, Any]], JSON],
    replan: Callable[[Compile], tuple[Plan, dict[str, ToolFacts]]] | None = None,
) -> Ports:
    """Tools and a model that answer by a function of name, key and arguments."""

    def route(name: str) -> Route:
        async def call(args: dict[str, Any], context: CallContext) -> JSON:
            return answer(name, context.key, args)

        return Route(call)

    async def model(command: CallModel, _context: CallContext) -> JSON:
        return answer(command.tool, command.key, {"inputs": command.inputs, **command.args})

    async def compiler(command: Compile, _context: CallContext) -> tuple[Plan, dict[str, ToolFacts]]:
        if replan is None:
            raise ToolFailed("no plan")
        return replan(command)

    return Ports(route, model, None, compiler)


def tell(
    journal: Journal,
    plan: Plan | str,
    ports: Ports,
    inputs: Mapping[str, JSON] | None = None,
    facts: Mapping[str, ToolFacts] | None = None,
    limits: Limits = LIMITS,
) -> Told:
    """Run a plan to its end and build its record."""
    made = parse(plan).require() if isinstance(plan, str) else plan
    run_id = f"run-{len(journal.runs(limit=10_000))}"
    launch = Launch(facts=dict(facts or {}), inputs=dict(inputs or {}), limits=limits)
    ended = asyncio.run(start_run(made, ports, launch, journal, run_id)).result
    rows = list(journal.events(run_id))
    return Told(made, rows, ended, record_of(made, rows, journal.plan_of), journal)


def scripted(**tools: JSON | Exception | Callable[[dict[str, Any]], JSON]) -> Ports:
    """Tools by their lower-case name: a value, an error, or a function of the arguments."""

    def answer(name: str, _key: str, args: dict[str, Any]) -> JSON:
        script = tools.get(name.lower())
        if isinstance(script, Exception):
            raise ToolFailed(str(script))
        return script(args) if callable(script) else script

    return ports_of(answer)


def errors_of(*documents: Handoff | DebugDocument) -> list[tuple[str, str]]:
    """The errors that the rules find in consecutive documents."""
    return [(f.rule, f.message) for f in check(documents).findings if f.is_error]
