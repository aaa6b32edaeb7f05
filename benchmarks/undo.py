"""Undoes random runs that failed, with kills: how many worlds are as before, and what was undone twice.

`python -m benchmarks.undo --runs 200` makes random plans over a store of values, lets one call fail, undoes
the run, and kills the process at a random call of the undoing and of each attempt after it. It all happens in
processes of the `callsheet` command; the store is a file, and its log tells each call.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests import forked

TOOLS = """
import json, os, signal
from pathlib import Path
from callsheet import tool
HERE = Path(__file__).parent
def world():
    return json.loads((HERE / "world.json").read_text())
def save(values):
    (HERE / "new.json").write_text(json.dumps(values))
    os.replace(HERE / "new.json", HERE / "world.json")
def note(what):
    with (HERE / "log").open("a") as file:
        file.write(json.dumps(what) + "\\n")
    calls = sum(1 for _ in (HERE / "log").open())
    if calls == int(os.environ.get("KILL", "0")):
        os.kill(os.getpid(), signal.SIGKILL)
def fail():
    calls = sum(1 for _ in (HERE / "log").open()) if (HERE / "log").exists() else 0
    if calls + 1 == int(os.environ.get("FAIL", "0")):
        raise RuntimeError("the store is away")
@tool(effect="unsafe", undo="remove(id=result.id)")
def add(value: int) -> dict:
    fail()
    note(["add", value])
    w = world(); number = str(max(map(int, w), default=0) + 1); w[number] = value; save(w)
    return {"id": number}
@tool(effect="unsafe", undo="put_back(id=call.id, value=result.old)")
def put(id: str, value: int) -> dict:
    fail()
    note(["put", id])
    w = world(); old = w[id]; w[id] = value; save(w)
    return {"old": old}
@tool(effect="idempotent")
def put_back(id: str, value: int) -> None:
    w = world(); w[id] = value; save(w)
    note(["back", id, value])
@tool(effect="idempotent", undo="put_back(id=call.id, value=result.value)")
def remove(id: str) -> dict:
    fail()
    w = world(); value = w.pop(id, None); save(w)
    note(["remove", id])
    return {"value": value}
"""
PLAN = """# ltp: 2
INPUT $ops: list[json]
S1: ?FOREACH ($op IN $ops) IN ORDER {
  ?IF ($op.kind == "add") {
    S2: @ADD (value=$op.value)
  } ELSE IF ($op.kind == "put") {
    S3: @PUT (id=$op.id, value=$op.value)
  } ELSE {
    S4: @REMOVE (id=$op.id)
  }
}
"""
_MOST_ATTEMPTS = 12


def _callsheet(folder: Path, *words: str, **settings: int) -> Any:
    env = {**os.environ, "HOME": str(folder), **{name: str(value) for name, value in settings.items()}}
    command = [sys.executable, "-m", "callsheet", *words, "--journal", "j.db", "--progress", "none"]
    return forked.run(command, cwd=folder, env=env, text=True, capture_output=True)


def _ops(rng: random.Random, before: dict[str, int]) -> list[dict[str, Any]]:
    there, ops = [*before], list[dict[str, Any]]()
    for _ in range(rng.randint(2, 8)):
        kind = rng.choice(["add", "put", "remove"] if there else ["add"])
        if kind == "add":
            there.append(str(max(map(int, there), default=0) + 1))
            ops.append({"kind": kind, "value": rng.randint(0, 9)})
            continue
        name = rng.choice(there)
        ops.append({"kind": kind, "id": name, "value": rng.randint(0, 9)})
        if kind == "remove":
            there.remove(name)
    return ops


def _calls(folder: Path) -> int:
    log = folder / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def measure(number: int, seed: int, tally: Counter[str]) -> None:
    """One random run that fails at a random call, and its undoing under kills."""
    rng = random.Random(f"{seed} {number}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = {str(n): rng.randint(0, 9) for n in range(1, rng.randint(1, 4))}
        (folder / "tools.py").write_text(TOOLS)
        (folder / "plan.ltp").write_text(PLAN)
        (folder / "world.json").write_text(json.dumps(before))
        ops = _ops(rng, before)
        fails = rng.randint(2, len(ops) + 1)
        options = ("--tools", "tools.py", "--run-id", "r", "--var", f"ops={json.dumps(ops)}")
        _callsheet(folder, "run", "plan.ltp", *options, FAIL=fails)
        done, said = _calls(folder), ""
        for _ in range(_MOST_ATTEMPTS):
            at = _calls(folder) + rng.randint(1, 4)
            ended = _callsheet(folder, "undo", "r", "--yes", KILL=at)
            said = ended.stderr
            tally["kills"] += ended.returncode == -9
            if ended.returncode in (0, 2):
                break
        tally["runs"] += 1
        tally["calls undone"] += _calls(folder) - done
        world = json.loads((folder / "world.json").read_text())
        tally["as before"] += world == before
        if world != before:
            print(f"run {number}: {before} became {world}\n{said}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tally = Counter[str]()
    for number in range(given.runs):
        measure(number, given.seed, tally)
    print(", ".join(f"{name}: {count}" for name, count in tally.items()))


if __name__ == "__main__":
    main()
