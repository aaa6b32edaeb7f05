#!/usr/bin/env python3
"""Measures lists of runs in a journal of 100 and of 100,000 runs, and the cost of beginning and ending a run.

The runs are made without a machine, but by the code that writes real ones: each is begun, calls a tool, and
ends or waits. Then each question is asked of both journals, and of the large one in a fresh process too. The
line at the end is the cost of a run with so many runs before it.

python3 benchmarks/run_lists.py [--runs 100000] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callsheet.ir import Plan, Respond, Step
from callsheet.machine import Outcome
from callsheet.machine.result import Status
from callsheet.store import Durability, EventType, Journal, RunStatus, RunWriter
from callsheet.store.listing import RunQuery, listed_runs, run_counts
from callsheet.store.pending import NO_FACTS
from callsheet.store.runs import RunFilter, RunSort

WORDS = (
    "collect",
    "invoices",
    "archive",
    "pay",
    "those",
    "due",
    "before",
    "friday",
    "held",
    "accounting",
    "of",
)
OUTCOMES = (Outcome.DONE, Outcome.DONE_WITH_FAILURES, Outcome.FAILED, Outcome.CANCELLED, None)
WEIGHTS = (88, 3, 6, 2, 1)
GOALS = 2_000
FEW = 100


def make(path: Path, count: int) -> None:
    """A journal with so many runs, of which one in a hundred waits."""
    dice = random.Random(1)
    plans = [
        Plan((Step("S1", Respond(())),), goal=" ".join(dice.choices(WORDS, k=14)) + f" {n}")
        for n in range(GOALS)
    ]
    start: dict[str, Any] = {"inputs": {}, "facts": {}, "limits": {}, "pins": {}}
    now, began = [time.time() - 60.0 * count], time.monotonic()
    with Journal.open(path, Durability.OFF, clock=lambda: now[0]) as journal:
        for number in range(count):
            now[0] += 60.0
            tags = {"env": dice.choice(("prod", "test")), "customer": f"c{number % 997}"}
            launch = {"launch": {"plan": "plan.ltp", "tags": tags}}
            with journal.create_run(f"run-{number:07}", dice.choice(plans), "", start | launch) as writer:
                writer.append(EventType.INTENT, key="S1.0.1", body={"tool": "READ"})
                writer.append(EventType.OK, key="S1.0.1", body={"value": "x" * dice.randrange(200)})
                end(writer, dice, dice.choices(OUTCOMES, WEIGHTS)[0])
                writer.commit()
    print(
        f"{count:,} runs in {time.monotonic() - began:.0f} s, {path.stat().st_size / 1e6:.0f} MB", flush=True
    )


def end(writer: RunWriter, dice: random.Random, outcome: Outcome | None) -> None:
    """End a run, or leave it waiting."""
    if outcome is None:
        facts = NO_FACTS._replace(waits_for=f"approval of @SEND{dice.randrange(9)} at S1")
        writer.set_status(RunStatus.WAITING, facts=facts)
        return
    usage = {"cost": dice.random(), "input_tokens": dice.randrange(9_999), "output_tokens": 10}
    status = Status.DONE if outcome is Outcome.DONE_WITH_FAILURES else Status(str(outcome))
    body: dict[str, Any] = {"status": str(status), "usage": usage, "ended_at": "S1"}
    if outcome in (Outcome.DONE_WITH_FAILURES, Outcome.FAILED):
        body["failed_steps"] = [f"S{dice.randrange(9)}"]
    writer.append(EventType.END, body=body)
    writer.set_outcome(outcome, body)


def page(**conditions: Any) -> Callable[[Journal], object]:
    """The first page of a list, as the browser asks for it."""
    return lambda journal: listed_runs(journal, RunQuery(wanted=RunFilter(**conditions), limit=101))


QUESTIONS: dict[str, Callable[[Journal], object]] = {
    "the newest": page(),
    "failed": page(status="failed"),
    "waiting": page(status="waiting"),
    "first failed step": page(failed_step="S7"),
    "waits for a tool": page(waits_for="send3"),
    "a tag": page(tags=("customer=c13",)),
    "a tag that none has": page(tags=("customer=nobody",)),
    "a text that many have": page(text="friday"),
    "a text that few have": page(text=" 1234"),
    "a text that none has": page(text="zebra"),
    "a name": page(plan="accounting"),
    "a version of the plan": page(plan_hash="abcd"),
    "failed in a time": page(status="failed", until=time.time() - 30 * 86_400),
    "by cost": lambda journal: listed_runs(journal, RunQuery(sort=RunSort.COST, limit=101)),
    "by duration": lambda journal: listed_runs(journal, RunQuery(sort=RunSort.DURATION, limit=101)),
    "counts": lambda journal: run_counts(journal, RunFilter()),
    "counts of a text": lambda journal: run_counts(journal, RunFilter(text="friday")),
}


def seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """The least seconds of CPU that some work takes."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def fresh(path: Path, name: str) -> float:
    """The seconds of a question to a journal that was just opened, in a process of its own."""
    command = [sys.executable, __file__, "--ask", name, str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def cost_of_a_run(path: Path) -> float:
    """The seconds of a run with one call, begun and ended in a journal."""
    plan, tries = Plan((Step("S1", Respond(())),), goal="more"), iter(range(time.time_ns(), 2**63))
    start = {"inputs": {}, "facts": {}, "limits": {}, "pins": {}, "launch": {"tags": {"env": "prod"}}}
    with Journal.open(path, Durability.OFF) as journal:

        def work() -> None:
            for _ in range(100):
                with journal.create_run(f"more-{next(tries)}", plan, "", start) as writer:
                    writer.commit()
                    writer.append(EventType.OK, key="S1.0.1", body={"value": 1})
                    writer.commit()
                    end(writer, random.Random(2), Outcome.DONE)
                    writer.commit()

        return seconds(work) / 100


def main() -> None:
    """Make two journals, and ask both."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=100_000)
    options.add_argument("--keep", type=Path)
    options.add_argument("--ask", nargs=2)
    given = options.parse_args()
    if given.ask:
        name, path = given.ask
        with Journal.open_to_read(Path(path)) as journal:
            print(seconds(lambda: QUESTIONS[name](journal), 1))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        few, many = folder / "few.db", folder / "many.db"
        for path, count in ((few, FEW), (many, given.runs)):
            if not path.exists():
                make(path, count)
        print(f"\n{'milliseconds':24} {FEW:>9,} {given.runs:>9,} {'at first':>9}")
        with Journal.open_to_read(few) as small, Journal.open_to_read(many) as large:
            for name, ask in QUESTIONS.items():
                times = [1_000 * seconds(lambda j=j, ask=ask: ask(j)) for j in (small, large)]
                print(
                    f"{name:24} {times[0]:9.1f} {times[1]:9.1f} {1_000 * fresh(many, name):9.1f}", flush=True
                )
        costs = [1e6 * cost_of_a_run(path) for path in (few, many)]
        print(f"\n{'microseconds a run':24} {costs[0]:9.0f} {costs[1]:9.0f}  ratio {costs[1] / costs[0]:.2f}")


if __name__ == "__main__":
    main()
