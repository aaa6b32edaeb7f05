"""Compares callsheet with its peers: our column is measured by a harness and compared with the goals.

python -m benchmarks.peers --harness FOLDER [--only W1,W2] [--peers ltpmcp] [--rounds 5] [--budget 560]
python -m benchmarks.peers --harness FOLDER --wheel build/wheel/*.whl      also with a compiled wheel
python -m benchmarks.peers              the table of the run that is stored in peers.json

The harness runs plan runtimes and hand-written floors interleaved; it is not part of this repository. It is
copied, and our adapter (`peer_callsheet.py`) added to it. One case that the harness does not have is measured
afterwards: resuming an interrupted run of 10,000 steps (`resume.py`), compared with reading the rows of its
journal. With --keep the run is written to peers.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
KEPT = HERE / "peers.json"
US = "callsheet"
COMPILED = "compiled"
"""callsheet once more, from a wheel whose inner loop is machine code (`python3 dev.py wheel`)."""
_ADAPTER = "peer_callsheet.py"
_EDITABLE = 'editable = "../main"'
RESUMED = 10_000
"""The steps of the run that is taken up."""
_OF_PROCESSOR = frozenset({"W1", "W2", "W3", "W6", "W7", "resume"})
"""The families that are measured in seconds of the processor; the others are in seconds of the wall."""


class Cell(NamedTuple):
    """The seconds and bytes of one peer for one case."""

    case: str
    peer: str
    variant: str
    cpu: float
    wall: float
    written: float

    @property
    def seconds(self) -> float:
        """The seconds that count for this case."""
        return self.cpu if self.case.partition("/")[0] in _OF_PROCESSOR else self.wall


class Goal(NamedTuple):
    """What a case must reach: at most `most` in this unit, our `variant` beside the `floor`.

    The unit is `floor` for times the floor, `us` for microseconds a step, `bound` for times the least
    time that is possible, `bytes` for times the bytes of the results, `ms` for milliseconds in all.
    """

    cases: str
    unit: str
    most: float
    floor: str = ""
    variant: str = ""


GOALS = (
    Goal("W1/chain/", "floor", 4, "interp"),
    Goal("W2/fanout/", "floor", 1, "asyncio"),
    Goal("W3/foreach/", "us", 3, "asyncio"),
    Goal("W4/virtual/seed=11/limit=inf", "bound", 1.0005),
    Goal("W4/virtual/seed=12/limit=inf", "bound", 1.0005),
    Goal("W4/virtual/seed=13/limit=inf", "bound", 1.0005),
    Goal("W4/virtual/seed=11/limit=8", "bound", 1.02),
    Goal("W4/virtual/seed=12/limit=8", "bound", 1.02),
    Goal("W4/virtual/seed=13/limit=8", "bound", 1.02),
    Goal("W4/virtual/seed=11/limit=3", "bound", 1.06),
    Goal("W4/virtual/seed=12/limit=3", "bound", 1.06),
    Goal("W4/virtual/seed=13/limit=3", "bound", 1.06),
    Goal("W4/virtual/seed=11/limit=3", "bound", 1.06, variant="again"),
    Goal("W4/virtual/seed=12/limit=3", "bound", 1.06, variant="again"),
    Goal("W4/virtual/seed=13/limit=3", "bound", 1.06, variant="again"),
    Goal("W4/dag/", "bound", 1.12, "interp"),
    Goal("W5/durable/small/", "floor", 2, "sqlite-wal", "process"),
    Goal("W5/durable/small/", "floor", 1.2, "fdatasync", "power"),
    Goal("W5/durable/10KB/", "bytes", 1.5, "sqlite-wal", "process"),
    Goal("W5/durable/1MB/", "bytes", 1.1, "sqlite-wal", "process"),
    Goal("resume/", "ms", 200, "read"),
    Goal("W6/parse/", "us", 15, "re"),
    Goal("W6/validate/", "us", 12, "re"),
    Goal("W6/verify/", "us", 25, "re"),
    Goal("W6/mermaid/", "us", 2, "re"),
    Goal("W7/import", "ms", 40),
    Goal("W7/cli-help", "ms", 70),
)


def adapters(wheel: Path | None) -> dict[str, str]:
    """The adapters that are put among those of the harness, by name: this checkout, and a wheel of it."""
    text = (HERE / _ADAPTER).read_text()
    made = {_ADAPTER: text.replace(_EDITABLE, f"editable = {json.dumps(str(HERE.parent))}")}
    if wheel is not None:
        # with its digest, for the harness keeps environments by what they were asked to hold
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        held = json.dumps([f"callsheet @ {wheel.resolve().as_uri()}#sha256={digest}"])
        text = text.replace(f"# {_EDITABLE}\n", "").replace("# dependencies = []", f"# dependencies = {held}")
        made[f"peer_{COMPILED}.py"] = text.replace(f'label = "{US}"', f'label = "{COMPILED}"')
    return made


def measured(harness: Path, options: list[str], wheel: Path | None = None) -> dict[str, Any]:
    """The results of the harness with our adapters; raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        copy, out = Path(folder) / "harness", Path(folder) / "results.json"
        shutil.copytree(harness, copy)
        copy.chmod(0o755)
        (copy / "adapters").chmod(0o755)
        for name, text in adapters(wheel).items():
            (copy / "adapters" / name).write_text(text)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [sys.executable, str(copy / "run.py"), "--out", str(out), *options], check=False, env=env
        )
        if done.returncode or not out.exists():
            raise RuntimeError("the harness gave no results; what it said stands above")
        return json.loads(out.read_text())


def with_resumed(run: dict[str, Any], steps: int = RESUMED) -> dict[str, Any]:
    """A run with the case that the harness does not have; from the closed journal to the next call."""
    command = [sys.executable, str(HERE / "resume.py"), "--json", "--bytes", "100", "--steps", str(steps)]
    took = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    name = f"resume/N={steps}"
    found = [
        [name, peer, variant, float(f"{took[of]['cpu']:.4g}"), float(f"{took[of]['wall']:.4g}"), 0]
        for peer, variant, of in ((US, "", "next_call"), ("floor", "read", "read"))
    ]
    return {**run, "cases": {**run["cases"], name: {"n": steps}}, "cells": [*run["cells"], *found]}


def kept_form(results: dict[str, Any]) -> dict[str, Any]:
    """The stored form of a run: the machine, the cases, and a line for each measured cell."""
    cells = [
        [c["case"], c["peer"], c["variant"], s["cpu_min_s"], s["wall_min_s"], s.get("bytes_written", 0)]
        for c in results["cells"]
        if (s := c.get("summary"))
    ]
    run = results["runs"][-1]
    return {
        "machine": {
            "python": results["python"],
            "cores": results["cores"],
            "processor": _processor(),
            "load": [round(run["load_before"][0], 1), round(run["load_after"][0], 1)],
            "rounds": run["rounds_done"],
            "when": run["when"],
        },
        "peers": {p["name"]: p["versions"] for p in results["peers"]},
        "cases": {c["name"]: {k: c[k] for k in ("n", "bound_s", "size") if k in c} for c in results["cases"]},
        "cells": [[*cell[:3], *(float(f"{number:.4g}") for number in cell[3:])] for cell in cells],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown")


def rows(run: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The table, a row for each case that has a goal and that we were measured on; the wheel's come last."""
    yield from _rows_of(run, US)
    for name, *rest in _rows_of(run, COMPILED):
        yield (f"{name} {COMPILED}", *rest)


def _rows_of(run: dict[str, Any], us: str) -> Iterator[tuple[str, ...]]:
    cells = [Cell(*cell) for cell in run["cells"]]
    floors = {"floor"}
    for goal in GOALS:
        for name, case in run["cases"].items():
            if not name.startswith(goal.cases):
                continue
            here = [cell for cell in cells if cell.case == name]
            ours = next((c for c in here if c.peer == us and c.variant == goal.variant), None)
            floor = next((c for c in here if c.peer in floors and c.variant == goal.floor), None)
            peers = [c for c in here if c.peer not in {US, COMPILED, *floors}]
            best = min(peers, key=lambda cell: cell.seconds, default=None)
            if ours is None:
                continue
            figure = _figure(goal, case, ours, floor)
            yield (
                f"{name} {goal.variant}".strip(),
                _shown(ours, case["n"]),
                "-" if floor is None else f"{_shown(floor, case['n'])} {floor.variant}",
                "-" if best is None else f"{_shown(best, case['n'])} {best.peer}",
                "-" if figure is None else f"{figure:.3g} {_UNITS[goal.unit]}",
                f"{goal.most:g}",
                "-" if figure is None else "met" if figure <= goal.most else "missed",
            )


_UNITS = {"floor": "x floor", "us": "us a step", "bound": "x bound", "bytes": "x bytes", "ms": "ms"}


def _figure(goal: Goal, case: dict[str, Any], ours: Cell, floor: Cell | None) -> float | None:
    if goal.unit == "ms":
        return ours.seconds * 1e3
    if goal.unit == "us":
        return ours.seconds / case["n"] * 1e6
    if goal.unit == "bound":
        return ours.seconds / case["bound_s"]
    if goal.unit == "bytes":
        return ours.written / (case["n"] * case["size"])
    return None if floor is None else ours.seconds / floor.seconds


def _shown(cell: Cell, steps: int) -> str:
    """Seconds per step; of a makespan or a start, total seconds."""
    if cell.case.startswith(("W4", "W7", "resume")):
        return f"{cell.seconds * 1e3:.1f} ms"
    return f"{cell.seconds / max(1, steps) * 1e6:.3g} us"


def show(run: dict[str, Any]) -> None:
    """Print the table and the machine it is of."""
    machine = run["machine"]
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    table = [("case", "callsheet", "floor", "best peer", "figure", "must", ""), *rows(run)]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def main() -> int:
    """Measure or read, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--harness", type=Path, help="the folder of the harness")
    parser.add_argument("--wheel", type=Path, help="a compiled wheel to measure as well")
    parser.add_argument("--results", type=Path, help="the results of a run that the harness wrote with --out")
    parser.add_argument("--keep", action="store_true", help="write the run to peers.json")
    given, options = parser.parse_known_args()
    if given.harness is not None:
        run = kept_form(measured(given.harness, options, given.wheel))
        if not any(option.startswith("--only") for option in options):
            run = with_resumed(run)
    elif given.results is not None:
        run = kept_form(json.loads(given.results.read_text()))
    else:
        run = json.loads(KEPT.read_text())
    if given.keep:
        KEPT.write_text(json.dumps(run, separators=(",", ":")).replace('],["', '],\n["') + "\n")
    show(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
