"""An MCP server of the test's own process, which plans call as any other.

In: a server of the `mcp` package. Out: what `Runtime(mcp=…)` takes, for the time of a block. The server has
neither a process nor a file: it answers on this machine alone, and sees the objects of the test. Its tools
are listed, judged and called as those of any server.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.server.lowlevel import Server

_LONGEST = 10.0
"""Seconds in which the server has to answer."""


@contextmanager
def serve_mcp(
    server: MCPServer | Server[Any], name: str = "test"
) -> Generator[dict[str, dict[str, dict[str, str]]]]:
    """Serve an MCP server on this machine during the block: `with serve_mcp(server) as mcp:` …

    It is called `name` there, so that its tools are `@TOOL`, or `@NAME__TOOL`. Raises CallsheetError (API017)
    without the package uvicorn, RuntimeError for a server that does not start.
    """
    try:
        import uvicorn  # noqa: PLC0415 - only where a server is served
    except ImportError as error:
        raise CallsheetError.single(
            "API017", "a server of a test needs uvicorn", help="pip install 'callsheet[api]'"
        ) from error
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = server.streamable_http_app(streamable_http_path="/mcp")
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        for _ in range(int(_LONGEST / 0.01)):
            if running.started or not thread.is_alive():
                break
            thread.join(0.01)
        if not running.started:
            raise RuntimeError(f"the MCP server {name} did not start within {_LONGEST:g} seconds")
        yield {"mcpServers": {name: {"url": f"http://127.0.0.1:{port}/mcp"}}}
    finally:
        running.should_exit = True
        thread.join(_LONGEST)
        listener.close()
