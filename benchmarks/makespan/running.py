"""Runs a graph on the machine, in virtual time or on the real clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Any

from benchmarks.makespan.graphs import Work
from benchmarks.makespan.schedules import followers_of, longest_remaining

from callsheet.ir import Call, Literal, Order, Plan, Step
from callsheet.machine import CallTool, Command, Event, Limits, Machine, Started, Succeeded, compile_plan
from callsheet.machine.program import compile_graph
from callsheet.machine.schedule import ranks_of
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Gateway, Ports, Route
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.simulated import Simulation

MANY = 1_000_000


def plan_of(work: Work) -> Plan:
    """The plan of a graph: every step calls one tool with its own number."""
    steps = [
        Step(str(n), Call("WORK", (), (("n", Literal(n)),)), depends_on=tuple(map(str, waited)))
        for n, waited in enumerate(work.waits)
    ]
    return Plan(tuple(steps), Order.DAG)


def ranks_for(work: Work, slots: int | None) -> dict[str, int]:
    """The ranks of the steps, with durations known from a run before."""
    ranks = ranks_of(compile_graph(plan_of(work)), work.seconds, slots or MANY)
    return {str(n): rank for n, rank in enumerate(ranks)}


def _machine(work: Work, slots: int | None, ranks: Mapping[str, int] | None) -> Machine:
    limits = Limits(max_concurrency=slots or MANY, max_steps=MANY)
    return Machine(compile_plan(plan_of(work), None, ranks), limits)


def simulated(work: Work, slots: int | None, ranks: Mapping[str, int] | None = None) -> float:
    """The virtual seconds of a run with this many slots, None for no limit."""

    def answer(command: Command) -> tuple[float, Event]:
        assert isinstance(command, CallTool)
        return work.seconds[int(command.step)], Succeeded(command.key, None)

    simulation = Simulation(_machine(work, slots, ranks), answer)
    simulation.run({})
    return simulation.now


def on_the_clock(work: Work, slots: int | None, ranks: Mapping[str, int] | None = None) -> float:
    """The real seconds of a run whose steps sleep as long as they take."""

    async def sleep(args: dict[str, Any], context: CallContext) -> None:
        number: int = args["n"]
        await asyncio.sleep(work.seconds[number])

    machine = _machine(work, slots, ranks)
    route = Route(sleep)

    async def run() -> float:
        began = time.perf_counter()
        driver = LocalDriver(machine, Gateway(Ports(lambda name: route), "makespan"))
        await driver.run(machine.feed(Started({})))
        return time.perf_counter() - began

    return asyncio.run(run())


def by_hand(work: Work, slots: int | None) -> float:
    """The real seconds of a hand-written schedule: a task per ready step, longest remaining path first."""
    rank = longest_remaining(work, work.seconds)
    followers = followers_of(work)

    async def run() -> float:
        left = [len(waited) for waited in work.waits]
        ready = [(-rank[number], number) for number, count in enumerate(left) if not count]
        heapify(ready)
        open_, done = 0, asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def fill() -> None:
            nonlocal open_
            while ready and open_ < (slots or MANY):
                open_ += 1
                task = asyncio.create_task(step(heappop(ready)[1]))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if not open_:
                done.set()

        async def step(number: int) -> None:
            nonlocal open_
            await asyncio.sleep(work.seconds[number])
            open_ -= 1
            for follower in followers[number]:
                left[follower] -= 1
                if not left[follower]:
                    heappush(ready, (-rank[follower], follower))
            fill()

        began = time.perf_counter()
        fill()
        await done.wait()
        return time.perf_counter() - began

    return asyncio.run(run())
