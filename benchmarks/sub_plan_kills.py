"""Kills a fan-out over a sub-plan of three calls at random moments, edits its plan and resumes it.

    python -m benchmarks.sub_plan_kills [--rounds N] [--items N] [--kills N]

Each item is a sub-plan that reads, writes (`unsafe`) and tells (`idempotent`). Before each resume the plan is
edited: statements are renamed and moved, items are added, and once in a while the third call says something
else. When only decisions can make it go on, the writes that the run names as in doubt are decided as they
really are; each that the tool had begun and the journal had not seen end must be among them. Finished is what
the journal says before a resume, made is what the tools have written down.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callsheet import Journal, TookPlace
from callsheet.machine import Decision
from callsheet.runtime.doubt import decide_calls

TOOLS = """
import os, time
from callsheet import tool
LOG = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def made(what, seconds):
    os.write(LOG, f"{what}\\n".encode())
    time.sleep(seconds)
    return what
@tool(effect="read")
def look(n: int) -> str:
    return made(f"look {n}", 0.002)
@tool
def put(n: int) -> str:
    return made(f"put {n}", 0.004)
@tool(effect="idempotent")
def tell(text: str) -> str:
    return made(f"tell {text}", 0.002)
"""
PLAN = """# ltp: 2
{head}
PLAN one ($n: int) -> str {{
  {id}1: @LOOK (n=$n) > $seen
  {id}2: @PUT (n=$n) > $put
  {id}3: @TELL (text="${{put}}, version {version}") > $told
  RETURN ($told)
}}
{id}4: ?FOREACH ($n IN range({items})) TOGETHER MAX 8 {{
  {id}5: CALL one (n=$n) > $told
  YIELD ($told)
}} > $rows
{tail}
@RESPOND ($rows)
"""
_EACH_VERSION = 8
"""How many edits leave what is told as it is."""
_PATIENCE = 300.0


@dataclass(slots=True)
class Tally:
    """What came of one fan-out, or of several."""

    kills: int = 0
    calls: int = 0
    """Calls that the tools have seen."""
    again: list[str] = field(default_factory=list[str])
    """Finished calls that were made again."""
    in_doubt: int = 0
    """Writes that runs named as in doubt when they went no further by themselves."""
    begun: int = 0
    """How many of them had begun."""
    unnamed: list[str] = field(default_factory=list[str])
    """Writes that had begun, had not finished when their run was killed, and were never named."""
    wrong: list[str] = field(default_factory=list[str])
    """Writes that were made twice or not at all, and answers that are not those of the last plan."""

    def add(self, other: Tally) -> None:
        """Count another fan-out as well."""
        self.kills, self.calls = self.kills + other.kills, self.calls + other.calls
        self.in_doubt, self.begun = self.in_doubt + other.in_doubt, self.begun + other.begun
        self.again += other.again
        self.unnamed += other.unnamed
        self.wrong += other.wrong

    @property
    def words(self) -> str:
        """The tally in words."""
        return (
            f"{self.kills} kills with edits, {self.calls} calls; finished calls made again: {len(self.again)}"
            f" {self.again[:5] or ''}; writes in doubt: {self.in_doubt}, of which {self.begun} had begun;"
            f" begun, unfinished and never named: {len(self.unnamed)} {self.unnamed[:5] or ''}; writes made"
            f" twice or not at all, wrong answers: {len(self.wrong)} {self.wrong[:5] or ''}"
        )

    @property
    def is_right(self) -> bool:
        """Whether nothing was repeated, lost or left unnamed."""
        return not (self.again or self.unnamed or self.wrong)


def kill_and_edit(folder: Path, items: int, kills: int, seed: int) -> Tally:
    """Run a fan-out in a folder, kill and edit it at most so many times, and let it end.

    Each edit adds an item, up to `items`. Raises RuntimeError if a command fails.
    """
    chance, tally, size = random.Random(seed), Tally(), items - kills
    puts = [f"put {n}" for n in range(items)]
    before, finished = Counter[str](), set[str]()
    left, named = set[str](), set[str]()

    def look() -> None:
        nonlocal before
        now = _made(folder)
        tally.again += [what for what in finished if now[what] > before[what]]
        before = now
        finished.update(_finished(folder, f"r{tally.kills}"))
        left.update(what for what in puts if what in before and what not in finished)

    (folder / "tools.py").write_text(TOOLS)
    process = _callsheet(folder, "run", _edited(folder, size, 0), "--tools", "tools.py", "--run-id", "r0")
    most = max(4, 6 * items // (kills + 1))
    while True:
        if tally.kills < kills and _reaches(folder, process, before.total() + chance.randint(1, most)):
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            look()
            tally.kills, size = tally.kills + 1, size + 1
            words = ("--plan", _edited(folder, size, tally.kills), "--yes", "--run-id", f"r{tally.kills}")
            process = _callsheet(folder, "resume", f"r{tally.kills - 1}", *words)
            continue
        said = _ended(process)
        look()
        doubtful = {f"put {call['args']['n']}": str(call["key"]) for call in said.get("in_doubt") or ()}
        if not doubtful:
            break
        named.update(doubtful)
        with Journal.open(folder / "j.db") as journal:
            for what, key in doubtful.items():
                really = TookPlace(what) if what in before else Decision.RETRY
                decide_calls(journal, f"r{tally.kills}", [key], really)
        process = _callsheet(folder, "resume", f"r{tally.kills}")
    made = puts[:size]
    tally.calls, tally.in_doubt = before.total(), len(named)
    tally.begun, tally.unnamed = len(named & left), sorted(left - named)
    tally.wrong = [f"{what} was made {before[what]} times" for what in made if before[what] != 1]
    version = tally.kills // _EACH_VERSION
    if said["answer"] != [f"tell {what}, version {version}" for what in made]:
        tally.wrong.append(f"the answer of seed {seed} is not that of its last plan")
    return tally


def _edited(folder: Path, items: int, number: int) -> str:
    """Write the plan after so many edits, and give its name."""
    text = PLAN.format(
        items=items,
        id="SAT"[number % 3],
        head="\n" * (number % 4) + f"LET $edit = {number}" * (number % 2),
        tail=f'REQUIRE (len($rows) > {number % 2}) "none"' * (number % 5 > 2),
        version=number // _EACH_VERSION,
    )
    (folder / "plan.ltp").write_text(text)
    return "plan.ltp"


def _callsheet(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A process of the command line, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "callsheet", *arguments, "--journal", "j.db", "--progress", "none", "--json"],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "HOME": str(folder), "CALLSHEET_STORE": "", "CALLSHEET_JOURNAL": ""},
    )  # fmt: skip


def _reaches(folder: Path, process: subprocess.Popen[str], calls: int) -> bool:
    """Wait until so many calls are made; False if the process ends before."""
    deadline = time.monotonic() + _PATIENCE
    while _made(folder).total() < calls:
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise RuntimeError(f"the calls of {folder} do not go on")
        time.sleep(0.01)
    return True


def _ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process says that ends by itself, with calls in doubt or without."""
    said, errors = process.communicate(timeout=_PATIENCE)
    if process.returncode not in (0, 4):
        raise RuntimeError(errors or said)
    return json.loads(said)


def _made(folder: Path) -> Counter[str]:
    """How often the tools have begun each call."""
    log = folder / "log"
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


def _finished(folder: Path, run_id: str) -> set[str]:
    """The calls whose results the journal has in a run: what a call gives is its name."""
    with Journal.open_to_read(folder / "j.db") as journal:
        bodies = (event.body or {} for event in journal.events(run_id, lenient=True) if event.type == "ok")
        return {str(body.get("value")) for body in bodies}


def main() -> int:
    """Print a line for each round and for the whole; the exit status is 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sub_plan_kills")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first round")
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=25)
    given, whole = parser.parse_args(), Tally()
    for seed in range(given.first, given.first + given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            tally = kill_and_edit(Path(folder), given.items, given.kills, seed)
        whole.add(tally)
        print(f"round {seed}: {tally.words}", flush=True)
    print(whole.words)
    return 0 if whole.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
