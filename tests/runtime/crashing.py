"""A process that resumes a run and kills itself at a chosen point; started by test_crash.py.

Arguments: journal, effects file, start or resume, and where to die: `place:n`, or `never`.
Every call appends its key to the effects file: that is its effect on the world.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.runtime.tools import FACTS, plan_of, ports_for, route_to

from callsheet.ir import JSON
from callsheet.machine import Decision, Limits
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch, Watch
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.store import Durability, Journal, RunWriter

PLAN = """
S1: @READ ("list") > $list
S2: ?FOREACH ($i IN $list) THEN @READ ($i) > $found ON_FAIL @RETRY(2, delay=0.01)
@PARALLEL {
  S3: @WRITE ("first $found") > $w
  S4: ?FOREACH ($i IN $list) THEN ?IF ($i != "b") THEN @WRITE ("$i") > $written
  S5: @KEYED ($list) > $k
}
S6: ?IF ($n.0 != "n S6@2.0.1") THEN @READ ($n) > $n
S7: ?IF ($n == "n S6.0.1") THEN GOTO S6
S8: @WRITE ("last") > $last ON_FAIL @RETRY(1, delay=0.01)
S9: @RESPOND ("$found", "$written", $w, $k, $n, $last)
"""
LAUNCH = Launch(facts=FACTS, inputs={"n": "start"}, limits=Limits(window=2), source=PLAN)
FAILING = frozenset({"S2.1.1", "S2.1.2", "S2.3.1", "S8.0.1"})
Die = Callable[[str], None]
PAUSE = 0.002
"""Seconds that a call waits before its effect, and after it."""


def value_of(key: str) -> JSON:
    """The result of the call with this key."""
    if key == "S1.0.1":
        return ["a", "b", "c", "d"]
    return f"n {key}" if key.startswith("S6") else {"from": key, "a": [1.0, None]}


def tools(effects: Path, die: Die) -> dict[str, Any]:
    async def call(args: dict[str, Any], context: CallContext) -> JSON:
        await asyncio.sleep(PAUSE)
        die("before")
        with effects.open("a") as file:
            file.write(f"{context.key}\n")
        die("after")
        await asyncio.sleep(PAUSE)
        if context.key in FAILING:
            raise ToolFailed(f"not yet: {context.key}")
        return value_of(context.key)

    return {"READ": call, "WRITE": call, "KEYED": call}


def start(
    path: Path, effects: Path, die: Die, durability: Durability = Durability.FULL, watch: Watch | None = None
) -> RunOutcome:
    with Journal.open(path, durability) as journal:
        ports = Ports(route_to(tools(effects, die)))
        return asyncio.run(start_run(plan_of(PLAN), ports, LAUNCH, journal, "run", watch or Watch()))


def resume(
    path: Path,
    effects: Path,
    die: Die,
    in_doubt: Decision | None,
    durability: Durability = Durability.FULL,
) -> RunOutcome:
    with Journal.open(path, durability) as journal:
        decided = Amendments(in_doubt=in_doubt)
        return asyncio.run(resume_run(journal, "run", ports_for(tools(effects, die)), decided))


def dying(where: str) -> Die:
    """A hook that kills this process at the n-th pass of a point."""
    place, _, number = where.partition(":")
    passed = 0

    def die(here: str) -> None:
        nonlocal passed
        if here == place:
            passed += 1
            if passed == int(number):
                os.kill(os.getpid(), signal.SIGKILL)

    return die


def main() -> None:
    path, effects, what, where = sys.argv[1:]
    die, flush, commit = dying(where), RunWriter.flush, RunWriter.commit

    async def failing_flush(self: RunWriter) -> None:
        die("unwritten")
        await flush(self)
        die("written")

    def failing_commit(self: RunWriter) -> None:
        die("unwritten")
        commit(self)
        die("written")

    RunWriter.flush = failing_flush  # type: ignore[method-assign]
    RunWriter.commit = failing_commit  # type: ignore[method-assign]
    print("ready", flush=True)
    if what == "start":
        start(Path(path), Path(effects), die)
    else:
        resume(Path(path), Path(effects), die, Decision.RETRY)
    die("ended")


if __name__ == "__main__":
    main()
