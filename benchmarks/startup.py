"""Measures how long small commands take to start, beside an empty Python and a bare click application.

python benchmarks/startup.py                 every command, the least of 15 rounds
python benchmarks/startup.py check run       some of them

Each command is a process of its own, on a plan of two steps with an own Python tool. A first round compiles
the bytecode and does not count. The CPU time hardly depends on other load of the machine, the wall time does.
The last two columns count the own modules that are loaded and the patterns that are compiled.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PLAN = """\
# ltp: 1
PLAN_START
S1: @READ_NOTE (id=1) > $note
S2: @RESPOND ($note)
PLAN_END
"""
TOOLS = '''\
from callsheet import tool


@tool(effect="read")
def READ_NOTE(id: int) -> str:
    """The text of a note."""
    return f"note {id}"
'''
CLICK = """\
import click


@click.command()
@click.argument("plan")
@click.option("--json", "as_json", is_flag=True)
def main(plan, as_json):
    click.echo(plan)


main(["plan.ltp"])
"""
COMMANDS = {
    "check": "check plan.ltp --tools tools.py",
    "fmt": "fmt --check plan.ltp",
    "graph": "graph plan.ltp",
    "runs": "runs",
    "show": "show last",
    "run": "run plan.ltp --tools tools.py --progress none",
}
COUNTS = """\
import atexit, re._compiler, sys

patterns = 0
compiled = re._compiler.compile


def counting(*arguments):
    global patterns
    patterns += 1
    return compiled(*arguments)


def report():
    own = sum(name.split(".")[0] == "callsheet" for name in sys.modules)
    print("COUNTS", own, patterns, file=sys.__stderr__)


re._compiler.compile = counting
atexit.register(report)
"""


class Cost(NamedTuple):
    """The cost of one start, in seconds."""

    cpu: float
    wall: float


def started(line: list[str], folder: Path, environment: dict[str, str]) -> Cost:
    """Runs a process to its end; raises CalledProcessError if it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(line, cwd=folder, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, wall)


def counted(code: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """The number of own modules that a Python program loads, and of patterns that it compiles."""
    line = [sys.executable, "-c", COUNTS + code]
    done = subprocess.run(line, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stderr.rpartition("COUNTS")[2].split()


def main() -> None:
    """Print the table."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(COMMANDS))
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    programs = {"python -c pass": "pass", "a bare click application": CLICK}
    if not options.commands:
        programs["from callsheet import Runtime"] = "from callsheet import Runtime"
    for name in options.commands or COMMANDS:
        arguments = ["callsheet", *COMMANDS[name].split()]
        programs[f"callsheet {name}"] = (
            f"import sys\nsys.argv = {arguments}\nfrom callsheet.__main__ import main\nmain()"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = os.environ | {"HOME": name, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        (folder / "plan.ltp").write_text(PLAN, "utf-8")
        (folder / "tools.py").write_text(TOOLS, "utf-8")
        start = ["-m", "callsheet", *COMMANDS["run"].split()]
        subprocess.run([sys.executable, *start], cwd=folder, env=environment, check=True, capture_output=True)
        costs: dict[str, list[Cost]] = {program: [] for program in programs}
        for round_number in range(options.rounds + 1):
            for program, code in programs.items():
                cost = started([sys.executable, "-c", code], folder, environment)
                if round_number:
                    costs[program].append(cost)
        print(f"{'':30} {'CPU ms':>8} {'wall ms':>8} {'modules':>8} {'patterns':>8}")
        for program, code in programs.items():
            own, patterns = counted(code, folder, environment)
            cpu, wall = min(cost.cpu for cost in costs[program]), min(cost.wall for cost in costs[program])
            print(f"{program:30} {cpu * 1e3:8.0f} {wall * 1e3:8.0f} {own:>8} {patterns:>8}")


if __name__ == "__main__":
    main()
