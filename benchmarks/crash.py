#!/usr/bin/env python3
"""Kills runs with SIGKILL, resumes them, and reports whether anything was lost, repeated or changed.

python3 benchmarks/crash.py --plan all --kills 1000    all of the following; TMPDIR=/dev/shm makes it faster
python3 benchmarks/crash.py --kills 50                 the demonstration, on real MCP servers
python3 benchmarks/crash.py --plan points              twenty steps, killed at every journal write
python3 benchmarks/crash.py --plan points --tails      the same, with synced commits in a tail
python3 benchmarks/crash.py --plan tools --kills 300   the same at random moments
python3 benchmarks/crash.py --plan long --kills 50     5,300 calls: a journal with snapshots

The exit status is 1 if anything was wrong. The conditions checked are in `crashes/sweep.py`,
`crashes/oracle.py` and, for each plan, `crashes/demo.py` and `crashes/world.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from crashes.demo import Demo
from crashes.forked import fork_command
from crashes.points import sweep_points
from crashes.processes import start_fresh
from crashes.subject import Subject
from crashes.sweep import Figures, Sweep
from crashes.world import LONG, LONG_INPUTS, PLAN, SMALL, World

from callsheet.diagnostics import CallsheetError
from callsheet.store import Durability

_PARTS = ("points", "demo", "long", "tools")
_SHARES = {"demo": 0.04, "long": 0.05}
"""The shares of the kills of `--plan all` that remain after `points`; `tools` gets the rest."""
_MUST_BE_ZERO = ("finished_again", "lost", "twice_not_in_flight", "writes_twice", "orphans")


def main() -> int:
    """Sweep and print the figures."""
    given = _arguments()
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}")
    print(f"plan {given.plan}, seed {given.seed}", flush=True)
    began = time.monotonic()
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="callsheet-crash-") as folder:
        for part, swept in _sweep(given, Path(folder), _say if given.verbose else _say_nothing):
            figures.add(swept)
            if given.plan == "all":
                seconds = time.monotonic() - began
                print(f"{part}: {swept.kills} kills, {swept.trials} runs, {seconds:.0f} s", flush=True)
    for problem in figures.problems:
        print(f"WRONG {problem}")
    for name, value in figures.to_json().items():
        if name != "problems":
            print(f"{name.replace('_', ' '):20}{value:8}")
    print(f"{'seconds':20}{time.monotonic() - began:8.0f}")
    if given.out:
        given.out.write_text(json.dumps(figures.to_json(), indent=1))
    return 0 if _judge(figures) else 1


def _judge(figures: Figures) -> bool:
    """Print a summary of the figures; returns whether everything is right."""
    is_right = (
        not figures.problems
        and figures.equal == figures.trials
        and not any(getattr(figures, name) for name in _MUST_BE_ZERO)
    )
    print(
        f"{figures.kills} kills of {figures.trials} runs: {figures.equal} ended as the uninterrupted one;"
        f" {figures.finished_again} finished steps run again; {figures.lost} events lost;"
        f" {figures.twice} effects took place again, {figures.twice_not_in_flight} of them not in flight"
        f" at a crash; {figures.writes_twice} unsafe calls took place twice without a decision"
    )
    print("all correct" if is_right else "NOT correct")
    return is_right


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", choices=["all", *_PARTS], default="demo")
    parser.add_argument("--kills", type=int, default=50, help="number of kills of a living process")
    parser.add_argument(
        "--seed", type=int, default=None, help="seed of the random moments; default: from the clock"
    )
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="PACKAGE=COMMAND",
        help="the command of a server that is already installed",
    )
    parser.add_argument(
        "--durability", choices=[str(d) for d in Durability], default="full", help="for --plan points"
    )
    parser.add_argument(
        "--tails",
        action="store_true",
        help="put synced commits into a tail from the start, for --plan points",
    )
    parser.add_argument("--small", action="store_true", help="nine steps instead of twenty")
    parser.add_argument("--every", type=int, default=1, help="use each n-th point, for --plan points")
    parser.add_argument(
        "--fresh", action="store_true", help="a new interpreter for each command instead of a fork; slower"
    )
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--verbose", action="store_true", help="report every trial")
    given = parser.parse_args()
    if given.seed is None:
        given.seed = time.time_ns() % 1_000_000
    return given


def _sweep(
    given: argparse.Namespace, folder: Path, say: Callable[[str], None]
) -> Iterator[tuple[str, Figures]]:
    """The figures of each part; with `all`, the kills of all parts add up to the requested number."""
    left = given.kills
    for part in _PARTS if given.plan == "all" else (given.plan,):
        kills = left if part not in _SHARES or given.plan != "all" else round(given.kills * _SHARES[part])
        figures = _sweep_part(given, part, kills, folder, say)
        left = max(0, left - figures.kills)
        yield part, figures


def _sweep_part(
    given: argparse.Namespace, part: str, kills: int, folder: Path, say: Callable[[str], None]
) -> Figures:
    file = SMALL if given.small else PLAN
    if part == "points":
        durability = Durability(given.durability)
        return sweep_points(folder, file, durability, given.every, given.seed, say, tails_at_once=given.tails)
    subject: Subject
    match part:
        case "tools":
            subject = World(folder, file)
        case "long":
            subject = World(folder, LONG, pause=0.0, inputs=LONG_INPUTS)
        case _:
            subject = Demo(folder, _servers(given.server))
    start = start_fresh if given.fresh or part == "demo" else fork_command
    return Sweep(subject, folder, given.seed, say, start).run(kills)


def _servers(given: list[str]) -> dict[str, Path]:
    """The commands of the given servers, or of those that the demonstration installs."""
    if given:
        return {name: Path(command) for name, _, command in (text.partition("=") for text in given)}
    from callsheet.apps.demo.sample import install_servers  # noqa: PLC0415 - only for the demonstration
    from callsheet.files import user_folder  # noqa: PLC0415 - as above

    return asyncio.run(install_servers(user_folder("cache") / "servers", _say))


def _say(text: str) -> None:
    print(text, flush=True)


def _say_nothing(text: str) -> None:
    pass


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CallsheetError as error:
        sys.exit(str(error))
