"""A Python plan that gathers 1,000 calls is killed at random moments and resumed, until it is done.

    python -m benchmarks.python_kills [KILLS] [CALLS]

Prints how often it was killed, how many finished calls were made again (it must be none), and whether the
result is that of CPython. The tool writes a line for each call that it begins, so what counts as finished is
what the journal says, and what counts as called is what the tool saw.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from callsheet import Journal

PLAN = '''
from callsheet import gather


async def main(count: int) -> dict:
    """Square numbers, and sum up what is odd."""
    numbers = await source(count=count)
    squares = await gather(*[square(n=n) for n in numbers])
    odd, by_digit = [], {}
    for n, result in zip(numbers, squares):
        if result["square"] % 2:
            odd.append(result["square"])
        by_digit[str(n % 10)] = by_digit.get(str(n % 10), 0) + result["square"]
    largest = max(odd, default=0)
    checked = []
    for digit in sorted(by_digit):
        try:
            checked.append((await square(n=int(digit)))["square"])
        except ToolError as error:
            checked.append(str(error))
    return {"odd": sum(odd), "largest": largest, "digits": by_digit, "checked": checked}
'''
TOOLS = """
import os
import time

from callsheet import tool

SEEN = os.open(os.environ["SEEN"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@tool(effect="read")
def source(count: int) -> list[int]:
    return [*range(100, 100 + count)]


@tool(effect="idempotent")
def square(n: int) -> dict[str, int]:
    os.write(SEEN, f"{n}\\n".encode())
    time.sleep(0.02)
    return {"square": n * n}
"""
LONGEST = 600.0


@dataclass(frozen=True, slots=True)
class Killed:
    """What came of it."""

    kills: int
    calls: int
    made_again: int
    """Calls that the journal had as finished when the process was killed, and that were made again."""
    answer: Any
    seconds: float


def expected(count: int) -> Any:
    """What CPython gives for the program."""

    async def source(count: int) -> list[int]:
        return [*range(100, 100 + count)]

    async def square(n: int) -> dict[str, int]:
        return {"square": n * n}

    names: dict[str, Any] = {"source": source, "square": square, "ToolError": RuntimeError}
    exec(PLAN.replace("from callsheet import gather", "from asyncio import gather"), names)
    return asyncio.run(names["main"](count))


def killed(folder: Path, kills: int, calls: int, seed: int = 1) -> Killed:
    """Run the program in `folder`, kill it at most `kills` times, and resume it each time."""
    chance = random.Random(seed)
    (folder / "plan.py").write_text(PLAN)
    (folder / "tools.py").write_text(TOOLS)
    seen = folder / "seen"
    seen.touch()
    environment = {**os.environ, "SEEN": str(seen), "CALLSHEET_STORE": "", "CALLSHEET_JOURNAL": ""}
    command = [sys.executable, "-m", "callsheet"]
    options = ["--journal", "runs.db", "--tools", "tools.py", "--json"]
    line = [*command, "run", "plan.py", "--run-id", "killed", "--var", f"count={calls}", *options]
    made_again = count = 0
    began = time.monotonic()
    while time.monotonic() - began < LONGEST:
        before = finished(folder / "runs.db")
        called = Counter(seen.read_text().split())
        process = subprocess.Popen(
            line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        if count < kills:
            try:
                process.wait(0.4 + chance.random() * 0.8)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                count += 1
        said, wrong = process.communicate()
        again = Counter(seen.read_text().split()) - called
        made_again += sum(again[n] for n in before)
        if process.returncode == 0:
            return Killed(count, calls, made_again, json.loads(said).get("answer"), time.monotonic() - began)
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(wrong.decode())
        line = [*command, "resume", "killed", *options]
        if not (folder / "runs.db").exists() or not _has_run(folder / "runs.db"):
            line = [*command, "run", "plan.py", "--run-id", "killed", "--var", f"count={calls}", *options]
    raise RuntimeError(f"not done after {LONGEST} seconds")


def _has_run(journal: Path) -> bool:
    with Journal.open_to_read(journal) as opened:
        return any(one.run_id == "killed" for one in opened.runs())


def finished(journal: Path) -> set[str]:
    """The numbers of the gathered calls that the journal has as finished."""
    if not journal.exists() or not _has_run(journal):
        return set()
    with Journal.open_to_read(journal) as opened:
        bodies = [event.body for event in opened.events("killed", lenient=True) if event.body]
    values = (cast("Mapping[str, Any]", body).get("value") for body in bodies)
    squares = (cast("Mapping[str, Any]", one).get("square") for one in values if isinstance(one, dict))
    return {str(math.isqrt(one)) for one in squares if isinstance(one, int) and one >= 10_000}


def main() -> int:
    """Print the figures; the exit status is 1 if they are not as they must be."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    runs: list[Killed] = []
    while (done := sum(one.kills for one in runs)) < kills:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(killed(Path(folder), kills - done, calls, seed=len(runs)))
        if not runs[-1].kills:
            print("the run ends before it can be killed: give more calls", file=sys.stderr)
            return 1
    made_again = sum(one.made_again for one in runs)
    wrong = [one for one in runs if one.answer != expected(calls)]
    seconds = sum(one.seconds for one in runs)
    print(f"{len(runs)} runs of {calls:,} calls, killed {kills} times, done after {seconds:.0f} s")
    print(f"finished calls made again: {made_again}")
    print(f"runs whose result is not that of CPython: {len(wrong)}")
    return 1 if wrong or made_again else 0


if __name__ == "__main__":
    sys.exit(main())
