"""A simulated MCP server, a child of the process that calls it: callsheet's own connection talks to it.

What it says goes through callsheet's transport, the SDK's session and the rest of `callsheet.ports.mcp`, in
virtual time. An answer may be lost with the server after the call took place, come after the call was given
up, or come twice; the server may die before the call takes place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from callsheet.ir import JSON
from callsheet.ports.calls import CallContext
from callsheet.ports.mcp.managed_server import ManagedServer
from callsheet.ports.mcp.servers import McpServerConfig, StdioServer
from callsheet.ports.mcp.transport import IDEMPOTENCY_KEY
from callsheet.ports.tools import Tool

TIMEOUT = 30.0
"""Seconds until a call is given up; no call takes that long."""


class Delivery(NamedTuple):
    """A call that has arrived at a server: the tool, its arguments, and its idempotency key."""

    tool: str
    args: Mapping[str, JSON]
    key: str


Serve = Callable[[Delivery], Awaitable[tuple[bool, JSON]]]
"""Makes a call; gives whether it succeeded, and its value or error."""
Trouble = Callable[[Delivery], str]
"""What goes wrong with a call: "dies", "lost", "late", "twice", or nothing."""


class Servers:
    """The servers of one process, by the names of their tools; each is started with its first call."""

    def __init__(self, tools: tuple[str, ...], serve: Serve, trouble: Trouble) -> None:
        self._tools, self._serve, self._trouble = tools, serve, trouble
        command = f"world {next(_NUMBERS)}"
        _BY_COMMAND[command] = self
        config = McpServerConfig("world", StdioServer(command), timeout=TIMEOUT)
        self._managed = ManagedServer(config, None, TIMEOUT)
        self._known: dict[str, Tool] = {}

    async def call(self, name: str, args: dict[str, JSON], context: CallContext) -> JSON:
        """Call a tool; raises ToolFailed as callsheet's tools of servers do."""
        if name not in self._known:
            await self._managed.open()
            self._known = {tool.spec.executor: tool for tool, _ in self._managed.tools()}
        value: Any = await self._known[name].handler(args, context)
        return value["v"]

    def begin(self) -> ServerProcess:
        """A new process of the server."""
        return ServerProcess(self._tools, self._serve, self._trouble)


_NUMBERS = count()
_BY_COMMAND: WeakValueDictionary[str, Servers] = WeakValueDictionary()
"""Whose process a command starts."""


class _Words:
    """What a server has said beside its answers: nothing."""

    def line(self, _: bytes) -> None:
        pass

    def text(self) -> str:
        return ""


class ServerProcess:
    """A process of the server, as `transport.ServerProcess` is one."""

    pid = 1
    returncode: int | None = None
    ended_by_itself = False

    def __init__(self, tools: tuple[str, ...], serve: Serve, trouble: Trouble) -> None:
        self._tools, self._serve, self._trouble = tools, serve, trouble
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self._work: set[asyncio.Task[None]] = set()
        self.tail = _Words()

    @classmethod
    async def start(cls, _: str, server: StdioServer) -> ServerProcess:
        await asyncio.sleep(0.01)
        return _BY_COMMAND[server.command].begin()

    async def read(self) -> bytes:
        return await self._said.get()

    async def write(self, data: bytes) -> None:
        if self.returncode is not None:
            raise BrokenPipeError
        for line in data.splitlines():
            message = json.loads(line)
            if "method" in message and "id" in message:
                task = asyncio.get_running_loop().create_task(self._answer(message))
                self._work.add(task)
                task.add_done_callback(self._work.discard)

    async def ended(self, within: float) -> bool:
        del within
        return self.returncode is not None

    def last_words(self) -> str:
        return "was killed"

    async def settle(self) -> None:
        pass

    async def stop(self) -> None:
        self._die()

    def _die(self) -> None:
        self.returncode = self.returncode or -9
        for task in self._work:
            if task is not asyncio.current_task():
                task.cancel()
        self._said.put_nowait(b"")

    async def _answer(self, message: dict[str, Any]) -> None:
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                about = {"name": "world", "version": "1"}
                said: dict[str, Any] = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": about,
                }
                self._say(message, said)
            case "tools/list":
                schema: dict[str, Any] = {"type": "object", "properties": {"x": {}, "y": {}}}
                self._say(message, {"tools": [{"name": name, "inputSchema": schema} for name in self._tools]})
            case "tools/call":
                await self._call(message)
            case "ping":
                self._say(message, {})
            case method:
                error = {"code": -32601, "message": f"no method {method}"}
                self._said.put_nowait(_line({"id": message["id"], "error": error}))

    async def _call(self, message: dict[str, Any]) -> None:
        params = message["params"]
        delivery = Delivery(params["name"], params.get("arguments") or {}, params["_meta"][IDEMPOTENCY_KEY])
        trouble = self._trouble(delivery)
        if trouble == "dies":
            self._die()
            return
        succeeded, value = await self._serve(delivery)
        if trouble == "lost":
            self._die()
            return
        if trouble == "late":
            await asyncio.sleep(TIMEOUT + 1)
        result: dict[str, Any] = {"content": [{"type": "text", "text": str(value)}], "isError": True}
        if succeeded:
            result = {"content": [], "structuredContent": {"v": value}}
        for _ in range(2 if trouble == "twice" else 1):
            self._say(message, result)

    def _say(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        self._said.put_nowait(_line({"id": message["id"], "result": result}))


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
