"""An MCP server in the process of a test: plans call it as a real one, and it sees the test's objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.server import MCPServer

from callsheet import Plan, Runtime
from callsheet.testing import serve_mcp

PLAN = Plan.parse(
    '# ltp: 2\nS1: @ADD (a=2, b=3) > $sum\nS2: @REMEMBER (text="kept") > $x\nS3: @RESPOND ($sum)\n'
)


@pytest.fixture(autouse=True)
def home(own_home: Path) -> Path:
    return own_home


def test_plan_calls_server_of_the_test() -> None:
    kept: list[str] = []
    server = MCPServer("desk")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @server.tool()
    def remember(text: str) -> str:
        """Keeps a text."""
        kept.append(text)
        return text

    @server.tool()
    def broken() -> str:
        """Fails."""
        raise ValueError("out of order")

    with serve_mcp(server, "desk") as mcp:
        result = Runtime(mcp=mcp, journal="j.db").run_sync(PLAN)
        assert (result.response, result.answer) == ("5", 5)
        failed = Runtime(mcp=mcp).run_sync("S1: @DESK__BROKEN () > $x\nS2: @RESPOND ($x)")
        assert failed.failed_steps == ("S1",)
        assert failed.response == "Error executing tool broken"
    assert kept == ["kept"]
    gone = Runtime(mcp=mcp)
    with pytest.raises(Exception, match="desk"):
        gone.run_sync(PLAN)
