#!/usr/bin/env python3
"""Measures commands that inspect a long run: `at`, `why`, `runs diff` and others.

python3 benchmarks/asking.py                      journals of 100,000 events
python3 benchmarks/asking.py --events 10000 --rounds 1
python3 benchmarks/asking.py --only 'diff'        only the questions with this in their name

Prints the CPU time of each command, including its start: the least of the rounds. Work on other cores does
not change it much, though a busy machine can add up to half.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import plans
from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Plan
from callsheet.machine import Limits
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import start_run
from callsheet.store import Durability, Journal

Given: TypeAlias = "Callable[[int], JSON]"
"""What a tool gives for its call with this number."""


class Question(NamedTuple):
    """A command, and the journal that it inspects."""

    name: str
    shape: str
    arguments: tuple[str, ...]


class Shape(NamedTuple):
    """A journal: the text of its plan, and its runs by id, with their inputs and results."""

    text: str
    inputs: dict[str, Any]
    runs: dict[str, Given]


def shapes(events: int) -> dict[str, Shape]:
    """The journals by name."""
    rounds, calls = events // 4, events // 2
    far = {rounds * n // 9 for n in range(1, 9)}
    circle = (
        "S1: @INC (x=$n) > $n\nS2: @LOOK (x=$n) > $seen\n"
        f"S3: ?IF ($n < {rounds}) THEN GOTO S1\nS4: @RESPOND ($n)"
    )
    each = "S1: ?FOREACH ($i IN $items) THEN @LOOK (x=$i) > $all\nS2: @RESPOND ($all)"
    chain = [f"S{n}: @LOOK (x=$v{n - 1}) > $v{n}" for n in range(1, calls + 1)]
    return {
        "circle": Shape(
            circle,
            {"n": 0},
            {"a": _plain, "same": _plain, "one": _apart({rounds // 2}), "far": _apart(far)},
        ),
        "foreach": Shape(
            each,
            {"items": list(range(calls))},
            {"a": _plain, "same": _plain, "one": _apart({calls // 2})},
        ),
        "chain": Shape("\n".join(chain), {"v0": 0}, {"a": _plain, "one": _apart({calls - 10})}),
    }


def _plain(n: int) -> JSON:
    return n


def _apart(places: set[int]) -> Given:
    return lambda n: "other" if n in places else n


def questions(events: int) -> list[Question]:
    """The commands to measure; the runs are those of `shapes`."""
    middle = str(events // 2)
    return [
        Question("at, in the middle", "circle", ("at", "a", middle)),
        Question("at, in the middle", "foreach", ("at", "a", middle)),
        Question("at, in the middle", "chain", ("at", "a", middle)),
        Question("at, at the end", "chain", ("at", "a", str(events))),
        Question("why, a variable", "circle", ("why", "a", "seen")),
        Question("why, a variable", "foreach", ("why", "a", f"all.{events // 4}")),
        Question("why, a variable", "chain", ("why", "a", f"v{events // 2}")),
        Question("why, a variable in the middle", "chain", ("why", "a", f"v{events // 4}")),
        Question("why, the answer", "circle", ("why", "a", "answer")),
        Question("why, the answer", "foreach", ("why", "a", "answer")),
        Question("why --json", "circle", ("why", "a", "n", "--json")),
        Question("why --json", "chain", ("why", "a", f"v{events // 2}", "--json")),
        Question("why --json --all", "circle", ("why", "a", "n", "--json", "--all")),
        Question("why --json --all", "chain", ("why", "a", f"v{events // 2}", "--json", "--all")),
        Question("why --forward, of an input", "chain", ("why", "a", "v0", "--forward")),
        Question("diff, all alike", "circle", ("runs", "diff", "a", "same")),
        Question("diff, all alike", "foreach", ("runs", "diff", "a", "same")),
        Question("diff, one result", "circle", ("runs", "diff", "a", "one")),
        Question("diff, one result", "foreach", ("runs", "diff", "a", "one")),
        Question("diff, one result near the end", "chain", ("runs", "diff", "a", "one")),
        Question("diff, eight results far apart", "circle", ("runs", "diff", "a", "far")),
    ]


async def keep(journal: Journal, plan: Plan, run_id: str, inputs: dict[str, Any], given: Given) -> None:
    """Execute a run in which @LOOK returns the results `given`."""
    made = 0

    async def look(args: dict[str, Any], context: CallContext) -> JSON:
        nonlocal made
        made += 1
        return given(made)

    routes = {"INC": Route(plans.inc), "LOOK": Route(look)}
    limits = Limits(max_steps=10_000_000, max_calls=10_000_000, max_repeats=None, schedule="sequential")
    launch = Launch(plans.FACTS, inputs=inputs, limits=limits)
    outcome = await start_run(plan, Ports(routes.get), launch, journal, run_id)
    assert outcome.result is not None
    assert outcome.result.error is None, outcome.result.error


def spent(command: Iterable[str], bytecode: Path) -> float:
    """The CPU seconds of a command; its modules have bytecode files, as in an installed package."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(bytecode)}
    subprocess.run(tuple(command), check=True, stdout=subprocess.DEVNULL, env=settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Create the journals, measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--keep", type=Path, help="a folder for the journals, taken up again where it has them"
    )
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        for name, shape in shapes(options.events).items():
            path = folder / f"{name}.db"
            if path.exists():
                continue
            plan = parse(shape.text).require()
            with Journal.open(path, Durability.NORMAL) as journal:
                for run_id, given in shape.runs.items():
                    asyncio.run(keep(journal, plan, run_id, shape.inputs, given))
        asked = [q for q in questions(options.events) if options.only in q.name or options.only in q.shape]
        bytecode = Path(scratch, "bytecode")
        least = dict.fromkeys(asked, float("inf"))
        for _ in range(options.rounds):
            for question in asked:
                path = str(folder / f"{question.shape}.db")
                command = (sys.executable, "-m", "callsheet", *question.arguments, "--journal", path)
                least[question] = min(least[question], spent(command, bytecode))
        for question, seconds in least.items():
            print(f"{question.name:34}{question.shape:10}{seconds:7.2f} s")


if __name__ == "__main__":
    main()
