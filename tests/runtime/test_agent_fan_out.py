"""A fan-out of agents that is killed within items' turns, again and again: no finished turn is made again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests import forked

from callsheet.store import Journal

CHILD = '''
import json, os, re, sys, time
from pathlib import Path
from callsheet import ChatModel, Runtime, tool

LOG, ITEMS, TURNS = Path("log"), int(sys.argv[2]), 3
PLAN = f"""# ltp: 2
S1: ?FOREACH ($n IN range({ITEMS})) TOGETHER MAX 8 {{
  S2: @AGENT_SOLVE (goal="item <$n>", tools=["put"], max_turns={TURNS + 1}) > $r
  YIELD ($r)
}} > $rows
@RESPOND ($rows)
"""

def note(*what):
    with LOG.open("a") as file:
        file.write(json.dumps(what) + "\\n")
        file.flush()
        os.fsync(file.fileno())

@tool(effect="idempotent")
def put(item: int, turn: int) -> str:
    note("put", item, turn)
    time.sleep(0.005)
    return f"done <{item}> turn <{turn}>"

def answer(messages):
    text = "\\n".join(message["content"] for message in messages)
    item = int(re.search(r"item <(\\d+)>", text)[1])
    turn = max([0, *map(int, re.findall(r"turn <(\\d+)>", text))]) + 1
    note("ask", item, turn)
    time.sleep(0.01)
    if turn > TURNS:
        return json.dumps({"finish": f"item {item}"})
    return json.dumps({"tool": "put", "args": {"item": item, "turn": turn}})

runtime = Runtime([put], model=ChatModel(answer), journal="j.db")
result = runtime.run_sync(PLAN, run_id="r") if sys.argv[1] == "run" else runtime.resume_sync("r")
print(result.response)
'''


class Tally(NamedTuple):
    """What became of a fan-out: its answer, the kills, the turns that were asked, and what was made again."""

    answer: list[str]
    kills: int
    turns: int
    finished: int
    """How many outcomes were recorded at the last kill."""
    again: list[str]
    """Questions and calls whose outcome was recorded before a kill, and that were made after it."""


def kill_and_resume(folder: Path, items: int, kills: int, seed: int) -> Tally:
    """Start a fan-out of agents, kill it so many times, and resume it until it ends."""
    chance = random.Random(seed)
    (folder / "child.py").write_text(CHILD)
    log, again, finished, made = folder / "log", list[str](), Counter[str](), 0
    at_kill = 0
    for number in range(kills + 1):
        child = forked.Popen(
            [sys.executable, "child.py", "run" if number == 0 else "resume", str(items)],
            cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
        if number < kills:
            wanted, deadline = (
                made + chance.randint(4, max(5, 7 * items // (kills + 1))),
                time.monotonic() + 60,
            )
            while child.poll() is None and len(_lines(log)) < wanted:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            child.send_signal(signal.SIGKILL)
        output, errors = child.communicate(timeout=120)
        again += [each for each in _lines(log)[made:] if finished[each]]
        made = len(_lines(log))
        finished = _recorded(folder)
        at_kill = finished.total() if number < kills else at_kill
    assert child.returncode == 0, errors
    turns = sum(1 for each in set(_lines(log)) if each.startswith('["ask"'))
    return Tally(json.loads(output), kills, turns, at_kill, again)


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def _recorded(folder: Path) -> Counter[str]:
    """The questions and calls with a recorded outcome, as the log has them."""
    found = Counter[str]()
    with Journal.open(folder / "j.db") as journal:
        for row in journal.events("r"):
            if row.type == "ok" and row.key is not None:
                item, _, turn = row.key.partition("[")[2].partition("]/S2.1/t")
                number, _, call = turn.partition("c")
                found[json.dumps(["put" if call else "ask", int(item), int(number)])] += 1
    return found


def test_killed_fan_out_of_agents_goes_on_within_its_turns(tmp_path: Path) -> None:
    tally = kill_and_resume(tmp_path, items=8, kills=1, seed=3)
    assert tally.answer == [f"item {n}" for n in range(8)]
    assert (tally.turns, tally.again, tally.finished > 0) == (8 * 4, [], True)
