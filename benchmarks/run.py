#!/usr/bin/env python3
"""Compares callsheet with hand-written floors, interleaved in one run; prints microseconds and ratios.

python3 dev.py bench                 all
python3 dev.py bench --quick         small sizes, fewer rounds
python3 dev.py bench --only chain,text
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sqlite3
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from measure import Case, exponent, measure

import plans
from callsheet.frontends.ltp import format_plan, parse
from callsheet.ir import Plan
from callsheet.machine import CallTool, Command, Limits, Machine, Program, Started, Succeeded, compile_plan
from callsheet.passes import check
from callsheet.runtime.gateway import Gateway
from callsheet.runtime.launch import Launch
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.runs import start_run
from callsheet.store import Durability, Journal

LIMITS = Limits(max_steps=10_000_000, schedule="sequential")
SIZES = (10, 100, 1_000, 10_000)
MOST_SYNCED = 1_000
"""Larger runs are not measured with a sync a transition: they would only wait for the disk."""
LONG = 100_000
"""Steps of the longest chain, which is run without a journal, and of the longest plan that is checked."""


def machine_only(program: Program, times: int) -> Callable[[], object]:
    """The machine alone, fed by a loop that answers at once."""

    def once() -> None:
        machine = Machine(program, LIMITS)
        commands = machine.feed(Started({}))
        while commands:
            batch, commands = commands, list[Command]()
            for command in batch:
                if isinstance(command, CallTool):
                    value = command.args["x"] + 1 if "x" in command.args else sum(command.args["xs"])
                    commands += machine.feed(Succeeded(command.key, value))

    def work() -> None:
        for _ in range(times):
            once()

    return work


def on_loop(make: Callable[[], Coroutine[Any, Any, object]], times: int) -> Callable[[], object]:
    """Run a coroutine repeatedly on one loop, so that entering a loop is not measured."""
    runner = asyncio.Runner()

    async def work() -> None:
        for _ in range(times):
            await make()

    return lambda: runner.run(work())


def times_of(n: int) -> int:
    """How often work of this size is repeated in one measurement."""
    return max(1, 2_000 // n)


def local(program: Program, times: int) -> Callable[[], object]:
    """The local driver without a journal."""

    async def work() -> object:
        machine = Machine(program, LIMITS)
        return await LocalDriver(machine, Gateway(plans.PORTS, "bench")).run(machine.feed(Started({})))

    return on_loop(work, times)


def journaled(
    plan: Plan, program: Program, durability: Durability, folder: Path, times: int
) -> Callable[[], object]:
    """The local driver with a journal that stays open; each run is a new one, of a plan that it has."""
    journal = Journal.open(folder / f"{durability}.db", durability)
    count = 0

    async def work() -> object:
        nonlocal count
        count += 1
        launch = Launch(facts=plans.FACTS, limits=LIMITS, program=program)
        return await start_run(plan, plans.PORTS, launch, journal, f"run-{id(plan)}-{count}")

    return on_loop(work, times)


def bare_chain(n: int) -> Callable[[], object]:
    """The same calls by hand, one after another."""

    async def work() -> int:
        value = 0
        for _ in range(n):
            value = await plans.inc({"x": value}, None)  # type: ignore[arg-type]
        return value

    return on_loop(work, times_of(n))


def bare_gather(n: int) -> Callable[[], object]:
    """The same calls by hand, concurrently."""

    async def work() -> int:
        return sum(await asyncio.gather(*[plans.inc({"x": i}, None) for i in range(n)]))  # type: ignore[arg-type]

    return on_loop(work, times_of(n))


def bare_append(n: int, folder: Path, synchronous: str) -> Callable[[], object]:
    """`n` transactions of one small row each, as durable as asked."""
    database = sqlite3.connect(folder / f"bare-{synchronous}.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={synchronous}")
    database.execute("CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, body BLOB)")

    def work() -> None:
        for _ in range(n * times_of(n)):
            database.execute("INSERT INTO log (body) VALUES (?)", (b'{"value":1}',))

    return work


def kept_by_hand(n: int, folder: Path, synchronous: str) -> Callable[[], object]:
    """As `bare_append`, with what else a run needs: its row and start in one transaction, its end."""
    database = sqlite3.connect(folder / f"kept-{synchronous}.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={synchronous}")
    database.execute("CREATE TABLE IF NOT EXISTS runs (number INTEGER PRIMARY KEY, status TEXT)")
    database.execute("CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, run INTEGER, body BLOB)")

    def work() -> None:
        for _ in range(times_of(n)):
            database.execute("BEGIN IMMEDIATE")
            run = database.execute("INSERT INTO runs (status) VALUES ('running')").lastrowid
            database.execute("INSERT INTO log (run, body) VALUES (?, ?)", (run, b'{"inputs":{}}'))
            database.execute("COMMIT")
            for _ in range(n):
                database.execute("INSERT INTO log (run, body) VALUES (?, ?)", (run, b'{"value":1}'))
            database.execute("UPDATE runs SET status = 'done' WHERE number = ?", (run,))

    return work


def cases(only: set[str], sizes: tuple[int, ...], folder: Path) -> list[Case]:
    """All cases to measure."""
    found: list[Case] = []
    for name, make, floor in (
        ("chain", plans.chain, bare_chain),
        ("fan-out", plans.fan_out, bare_gather),
        ("foreach", plans.each, bare_gather),
    ):
        for n in sizes if name in only else ():
            plan = make(n)
            program = compile_plan(plan, plans.FACTS)
            row, times = f"{name} {n}", times_of(n)
            units = n * times
            found += [
                Case(row, "by hand", units, floor(n)),
                Case(row, "machine", units, machine_only(program, times)),
                Case(row, "local", units, local(program, times)),
                Case(row, "sqlite", units, bare_append(n, folder, "NORMAL")),
                Case(row, "kept", units, kept_by_hand(n, folder, "NORMAL")),
                Case(row, "journal", units, journaled(plan, program, Durability.NORMAL, folder, times)),
            ]
            if n <= MOST_SYNCED:
                run = journaled(plan, program, Durability.FULL, folder, times)
                bare, kept = bare_append(n, folder, "FULL"), kept_by_hand(n, folder, "FULL")
                found += [
                    Case(row, "sqlite, synced", units, bare, time.perf_counter),
                    Case(row, "kept, synced", units, kept, time.perf_counter),
                    Case(row, "journal, synced", units, run, time.perf_counter),
                ]
    for n in (LONG,) if "chain" in only and sizes == SIZES else ():
        program = compile_plan(plans.chain(n), plans.FACTS)
        found += [
            Case(f"chain {n}", "by hand", n, bare_chain(n)),
            Case(f"chain {n}", "machine", n, machine_only(program, 1)),
            Case(f"chain {n}", "local", n, local(program, 1)),
        ]
    for n in (*sizes[2:], LONG) if "validate" in only else ():
        plan = parse(plans.text(n)).require()
        found.append(Case(f"validate {n}", "check", n, lambda plan=plan: check(plan)))
        program_of = plans.chain(n)
        found.append(
            Case(f"validate {n}", "compile", n, lambda plan=program_of: compile_plan(plan, plans.FACTS))
        )
    for n in (1_000, max(10_000, sizes[-1] * 10)) if "text" in only else ():
        text = plans.text(n)
        plan = parse(text).require()
        found += [
            Case(f"text {n}", "parse", n, lambda text=text: parse(text)),
            Case(f"text {n}", "format", n, lambda plan=plan: format_plan(plan)),
        ]
    return found


GROWING = (
    *(
        (name, column)
        for name in ("chain", "fan-out", "foreach")
        for column in ("machine", "local", "journal")
    ),
    ("validate", "check"),
    ("validate", "compile"),
)
"""The rows and columns whose growth is told."""


def show(best: dict[tuple[str, str], float], sizes: tuple[int, ...]) -> None:
    """Print microseconds per step, ratios and growth.

    `sqlite` is an append a step and nothing else, `kept` a run that is kept by hand, and the two ratios are
    to these. The last five columns are wall time: all sides wait for the disk at every transition.
    """
    rows = list(dict.fromkeys(row for row, _ in best))
    columns = (
        "by hand",
        "machine",
        "local",
        "ratio",
        *("sqlite", "kept", "journal", "ratio", "ratio"),
        *("synced", "kept", "journal", "ratio", "ratio"),
    )
    print("microseconds of CPU per step; wall time where every transition is synced")
    print(" " * 16 + "".join(name.rjust(10) for name in columns))
    for row in rows:
        value = {column: seconds * 1e6 for (r, column), seconds in best.items() if r == row}
        if "by hand" not in value:
            told = ", ".join(f"{column} {micros:.2f} µs a step" for column, micros in value.items())
            print(f"{row:16}  {told}")
            continue
        line = f"{row:16}{value['by hand']:10.2f}{value['machine']:10.2f}{value['local']:10.2f}"
        line += f"{value['local'] / value['by hand']:10.1f}"
        if "journal" in value:
            line += _beside(value, "", 2) + _beside(value, ", synced", 0)
        print(line)
    for name, column in GROWING:
        points = [(n, best[f"{name} {n}", column]) for n in (*sizes, LONG) if (f"{name} {n}", column) in best]
        if len(points) > 1:
            print(f"{name} {column}: grows with exponent {exponent(points):.3f}")


def _beside(value: dict[str, float], which: str, digits: int) -> str:
    """The journal compared with its floors; nothing if it was not measured."""
    if f"journal{which}" not in value:
        return ""
    bare, kept, journal = (value[f"{name}{which}"] for name in ("sqlite", "kept", "journal"))
    shown = "".join(f"{micros:10.{digits}f}" for micros in (bare, kept, journal))
    return f"{shown}{journal / bare:10.2f}{journal / kept:10.2f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument(
        "--only", default="chain,fan-out,foreach,text,validate", help="what to measure, separated by commas"
    )
    parser.add_argument("--unsynced", action="store_true", help="omit the cases that wait for the disk")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of all cases (default 7, quick 3)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    sizes = SIZES[:3] if given.quick else SIZES
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}")
    with tempfile.TemporaryDirectory() as folder:
        wanted = cases(set(given.only.split(",")), sizes, Path(folder))
        if given.unsynced:
            wanted = [case for case in wanted if case.clock is time.process_time]
        best = measure(wanted, given.rounds or (3 if given.quick else 7))
    show(best, sizes)
    if given.out:
        given.out.write_text(
            json.dumps({f"{row}/{column}": s for (row, column), s in best.items()}, indent=1)
        )


if __name__ == "__main__":
    main()
