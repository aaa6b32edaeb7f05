"""Real MCP servers that cannot be opened: how often they are started, and what is left of them."""

import asyncio
import gc
import sys

import pytest
from tests.waiting import until

from callsheet.ports.mcp import McpPool, McpServerConfig, StdioServer
from callsheet.ports.mcp.front import Front

pytestmark = pytest.mark.servers

REFUSES = """
import json, sys

with open(sys.argv[1], "a") as log:
    log.write("started ")
for line in sys.stdin:
    asked = json.loads(line)
    if sys.argv[2] == "ends":
        break
    if "id" in asked:
        error = {"code": int(sys.argv[2]), "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""


@pytest.mark.parametrize(
    ("says", "code", "starts"), [("ends", "TOL011", 1), ("-32603", "TOL014", 1), ("-32601", "TOL014", 2)]
)
async def test_only_a_server_that_knows_no_older_protocol_is_started_again(tmp_path, says, code, starts):
    log = tmp_path / "log"
    server = McpServerConfig("odd", StdioServer(sys.executable, ("-c", REFUSES, str(log), says)))
    async with McpPool([server], front=Front(is_older=True)) as pool:
        (said,) = await pool.connect(keep_going=True)
    assert (said.code, log.read_text().split()) == (code, ["started"] * starts)


async def test_opening_that_fails_while_its_pool_is_closed_is_not_told_as_a_bug(tmp_path, monkeypatch):
    monkeypatch.setattr("callsheet.ports.mcp.pool._GRACE_WITHOUT", 0.1)
    heard, asked = [], tmp_path / "asked"
    asyncio.get_running_loop().set_exception_handler(lambda _, told: heard.append(told))
    stays = f"trap 'touch {asked}' TERM; while :; do sleep 0.1; done"
    pool = McpPool([McpServerConfig("late", StdioServer("sh", ("-c", stays)))], start_timeout=1)
    await pool.connect(keep_going=True, leaves_late=True)
    assert pool.is_opening
    await until(asked.exists)  # it was given up, and does not end
    await pool.close()
    del pool
    gc.collect()
    assert heard == []
