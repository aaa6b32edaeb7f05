#!/usr/bin/env python3
"""Kills runs with SIGKILL, resumes them, and says whether anything was lost, repeated or changed.

python3 benchmarks/crash.py --kills 50                 the demonstration, on real MCP servers
python3 benchmarks/crash.py --plan tools --kills 300   twenty steps of Python tools
python3 benchmarks/crash.py --plan points              the same, killed at every journal write

The exit status is 1 if anything was wrong. What must be true stands in `crashes/sweep.py`,
`crashes/oracle.py` and, for each plan, `crashes/demo.py` and `crashes/world.py`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from crashes.demo import Demo
from crashes.points import sweep_points
from crashes.subject import Subject
from crashes.sweep import Figures, Sweep
from crashes.world import PLAN, SMALL, World

from callsheet.diagnostics import CallsheetError
from callsheet.store import Durability


def main() -> int:
    """Sweep and print the figures."""
    given = _arguments()
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}")
    print(f"plan {given.plan}, seed {given.seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="callsheet-crash-") as folder:
        figures = _sweep(given, Path(folder), _say if given.verbose else _say_nothing)
    for problem in figures.problems:
        print(f"WRONG {problem}")
    for name, value in figures.to_json().items():
        if name != "problems":
            print(f"{name.replace('_', ' '):18}{value:8}")
    print(f"{'seconds':18}{time.monotonic() - began:8.0f}")
    if given.out:
        given.out.write_text(json.dumps(figures.to_json(), indent=1))
    is_right = not figures.problems and figures.equal == figures.trials
    print("all as it must be" if is_right else "NOT as it must be")
    return 0 if is_right else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", choices=["demo", "tools", "points"], default="demo")
    parser.add_argument("--kills", type=int, default=50, help="kills that have to meet a living process")
    parser.add_argument("--seed", type=int, default=None, help="of the random moments; default: by the clock")
    parser.add_argument(
        "--server", action="append", default=[], metavar="PACKAGE=COMMAND", help="a server that is there"
    )
    parser.add_argument(
        "--durability", choices=[str(d) for d in Durability], default="full", help="for --plan points"
    )
    parser.add_argument("--small", action="store_true", help="nine steps in place of twenty")
    parser.add_argument("--every", type=int, default=1, help="take each n-th point, for --plan points")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--verbose", action="store_true", help="tell of every trial")
    given = parser.parse_args()
    if given.seed is None:
        given.seed = time.time_ns() % 1_000_000
    return given


def _sweep(given: argparse.Namespace, folder: Path, say: Callable[[str], None]) -> Figures:
    file = SMALL if given.small else PLAN
    if given.plan == "points":
        return sweep_points(folder, file, Durability(given.durability), given.every, given.seed, say)
    subject: Subject = World(folder, file) if given.plan == "tools" else Demo(folder, _servers(given.server))
    return Sweep(subject, folder, given.seed, say).run(given.kills)


def _servers(given: list[str]) -> dict[str, Path]:
    """The commands of the servers that are named, or of those that the demonstration installs."""
    if given:
        return {name: Path(command) for name, _, command in (text.partition("=") for text in given)}
    from platformdirs import user_cache_path  # noqa: PLC0415 - only for the demonstration

    from callsheet.apps.demo.servers import install_servers  # noqa: PLC0415 - as above

    return install_servers(user_cache_path("callsheet", appauthor=False) / "servers", _say)


def _say(text: str) -> None:
    print(text, flush=True)


def _say_nothing(text: str) -> None:
    pass


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CallsheetError as error:
        sys.exit(str(error))
