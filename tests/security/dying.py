"""A process that executes a run under a policy and dies in @NOTE; started by test_killed.py.

Arguments: the workspace, the journal, and whether to start or to resume.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.security.world import FACTS, World

from callsheet.ir import JSON, Effect
from callsheet.machine import ToolFacts
from callsheet.ports.calls import CallContext
from callsheet.store import Journal

PLAN = """
S1: @READ_FILE ("notes.txt") > $n
S2: ?IF ($n contains "private") THEN @NOTE ("first") > $a
S3: @NOTE ("second") > $b
S4: ?FOREACH ($i IN [1, 2]) THEN @WEB_SEARCH ("page $i") > $w
S5: @WEB_SEARCH ("$b") > $x
S6: @WEB_SEARCH ("$a") > $y
"""
NOTES = {"NOTE": ToolFacts(Effect.READ, ("text",))}


async def main(folder: Path, journal: Path, how: str) -> None:
    with Journal.open(journal) as opened:
        world = World(folder, opened)

        async def die(args: dict[str, Any], context: CallContext) -> JSON:
            if args["text"] == "second":
                os.kill(os.getpid(), signal.SIGKILL)
            return args["text"]

        world.tools["NOTE"] = die
        await (world.run(PLAN, facts={**FACTS, **NOTES}) if how == "start" else world.resume())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
