"""Runs of the area `dag` on Temporal, and those of plan tools; durations are not compared.

In: a case and a fleet. Out: the differences. A stage is one life of a worker; its results are replayed from
the run's journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.conformance import dag
from tests.conformance.dag_form import DagCase, said_of
from tests.conformance.dag_runs import Session, Stage, run_case, run_stages
from tests.temporal.fleet import Fleet

from callsheet.api import session
from callsheet.ir import JSON, Plan
from callsheet.machine import CallTool, Compile, Decision, Limits, ToolFacts
from callsheet.machine.keys import step_of
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.store.events import Event, EventType

_VIRTUAL = "makespan_ms"
"""What is said of virtual time alone."""
_OUTCOMES = (EventType.OK, EventType.ERR, EventType.PLAN, EventType.DECIDED, EventType.FIRED)


def differences(case: DagCase, fleet: Fleet) -> list[str]:
    """The unmet expectations of a case; an empty list if it is met."""
    if case.mode in dag.PLAN_TOOLS:
        with patch.object(session, "run_unrecorded", fleet.stand_in([])):
            return dag.differences(case)
    expect = {name: wanted for name, wanted in case.expect.items() if name != _VIRTUAL}
    make = partial(_SessionThere, fleet)
    return dag.differences(
        replace(case, expect=expect),
        {"run": partial(run_case, make=make), "stages": partial(run_stages, make=make)},
    )


class _SessionThere(Session):
    """A run over its stages, each of which is the life of a worker."""

    def __init__(self, fleet: Fleet, case: DagCase, plan: Plan) -> None:
        super().__init__(case, plan)
        self._fleet = fleet
        self._simulated = Session(case, plan)
        """The same run in virtual time, which has to end alike."""
        self._run_id = ""
        self._calls: dict[str, CallTool] = {}
        self._seen = 0
        self._dies = asyncio.Event()

    def run(self, stage: Mapping[str, Any]) -> Stage:
        """Execute one stage."""
        self.stage = Stage()
        if self.has_no_run(stage):
            return self._simulated.run(stage)
        self._fleet.there(self._carried(stage))
        self._look_back()
        self._simulated.run(stage)
        if not (self.stage.cancelled or self.stage.crashed):
            ours, theirs = self.machine.result, self._simulated.machine.result
            assert ours == theirs, f"{ours} and not {theirs}"
        return self.stage

    async def _carried(self, stage: Mapping[str, Any]) -> None:
        fleet, bounds = self._fleet, self.limits(stage)
        await fleet.employ()
        if stage.get("mode") == "resume" and self._run_id:
            ending = asyncio.ensure_future(self._resumed(bounds))
        else:
            launch = Launch(inputs=dict(stage.get("variables") or {}), limits=bounds)
            self._run_id = await fleet.start(self.plan, self._ports(), launch)
            ending = asyncio.ensure_future(fleet.ended(self._run_id))
        dying = asyncio.ensure_future(self._dies.wait())
        until = stage.get("cancel_at_ms")
        await asyncio.wait(
            {ending, dying},
            timeout=None if until is None else until / 1000,
            return_when=asyncio.FIRST_COMPLETED,
        )
        self.stage.crashed = self._dies.is_set()
        self.stage.cancelled = not self.stage.crashed and not ending.done()
        dying.cancel()
        if not ending.done():
            ending.cancel()
            await fleet.dismiss()
            await client.bring_up_to_date(fleet.temporal_run(self._run_id))
        else:
            await ending
        self._dies.clear()

    async def _resumed(self, bounds: Limits) -> None:
        """The resumed run; calls in flight when its worker was lost are repeated."""
        fleet, run_id = self._fleet, self._run_id

        async def again() -> Any:
            return await client.resume_and_wait(
                fleet.temporal_run(run_id), Decision.RETRY, limits=lambda _: bounds
            )

        outcome = await again()
        while outcome.result is None:
            outcome = await again()

    def _ports(self) -> Ports:
        async def call(tool: str, args: dict[str, Any], context: CallContext) -> JSON:
            self._calls[context.key] = CallTool(context.key, step_of(context.key), tool, dict(args))
            script = self.script_of(tool)
            await asyncio.sleep(float(script.get("delay_ms", 0)) / 1000)
            if "exit" in script:
                self._dies.set()
                await asyncio.Event().wait()
            for word in ("error", "raise"):
                if word in script:
                    raise ToolFailed(said_of(script, word))
            if "output_repeat" in script:
                text, times = script["output_repeat"]
                return text * times
            return dict(args) if script.get("echo") else script.get("output", "ok")

        async def plan_anew(command: Compile, context: CallContext) -> tuple[Plan, dict[str, ToolFacts]]:
            return await self.new_plan(command), {}

        return Ports(lambda tool: Route(partial(call, tool)), compiler=plan_anew)

    def _look_back(self) -> None:
        """Read the events of the stage and the status of the run from the journal."""
        looked = self._fleet.looked_back(self.plan, self._run_id, self._heard)
        self.machine, rows, self.events = self._fleet.there(looked)
        fresh = rows[self._seen :]
        self._seen = len(rows)
        launched = [row.key for row in fresh if row.type is EventType.INTENT]
        self.stage.calls = [self._calls[key] for key in launched if key in self._calls]
        self.stage.peak = _peak(fresh)


def _peak(rows: list[Event]) -> int:
    """The maximum number of concurrent calls."""
    peak = under_way = 0
    for row in rows:
        under_way += (row.type is EventType.INTENT) - (row.type in _OUTCOMES)
        peak = max(peak, under_way)
    return peak
