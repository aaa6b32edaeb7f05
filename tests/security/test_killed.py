"""A run under a policy whose processes are killed makes the same decisions."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests import forked
from tests.security.dying import NOTES, PLAN
from tests.security.world import FACTS, World

from callsheet.machine import Status


def killed(world: World, how: str) -> int:
    """Continue the run in a process that dies; returns its status."""
    command = [sys.executable, "-m", "tests.security.dying", world.folder, world.journal.path, how]
    root = Path(__file__).parent.parent.parent
    return forked.run(command, check=False, cwd=root, timeout=60).returncode


async def test_labels_and_decisions_are_same_after_kill(world: World) -> None:
    world.write("notes.txt", "private")
    for how in ("start", "resume"):
        assert killed(world, how) == -signal.SIGKILL
    resumed = await world.resume()
    unbroken = await world.run(PLAN, "unbroken", facts={**FACTS, **NOTES})
    assert resumed.result == unbroken.result
    assert resumed.result is not None
    assert resumed.result.status is Status.REFUSED
    assert resumed.result.ended_at == "S6"
    assert world.sent[:3] == world.sent[3:] == [{"query": "page 1"}, {"query": "page 2"}, {"query": "second"}]
