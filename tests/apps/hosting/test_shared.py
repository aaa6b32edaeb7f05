"""The servers that a long-lived process shares: one that fails does not hold up the others."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from callsheet.apps.hosting import shared
from callsheet.apps.hosting.shared import SharedTools
from callsheet.apps.setup import Setup

FAILS_THEN_HANGS = """
import sys
import time
from pathlib import Path

begun = Path(sys.argv[1])
if begun.exists():
    begun.with_name("again").touch()
    time.sleep(60)
begun.touch()
sys.exit(3)
"""


async def test_server_that_hangs_when_it_is_tried_again_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_PAUSE", 0.0)
    script, config = tmp_path / "odd.py", tmp_path / "mcp.json"
    script.write_text(FAILS_THEN_HANGS)
    odd = {"command": sys.executable, "args": [str(script), str(tmp_path / "begun")]}
    config.write_text(json.dumps({"mcpServers": {"odd": odd}}))
    setup = Setup(workspace=tmp_path, data=tmp_path / "data", mcp_configs=(config,), discovers=False)
    async with asyncio.timeout(20), SharedTools(setup) as tools:
        failed = await tools.for_plan(None)
        assert [each.code for each in failed.diagnostics] == ["TOL011"]
        assert await tools.for_plan(None) is failed
        while not (tmp_path / "again").exists():  # noqa: ASYNC110 - written by another process
            await asyncio.sleep(0.02)
        assert await tools.for_plan(None) is failed
