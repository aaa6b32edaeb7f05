"""The MCP servers of a run: opened together, kept open, their tools as callsheet's tools.

In: configurations. Out: tools whose handlers call the servers, many calls at once. A server
that ended is started again at the next call; a tool whose declaration is then another one is
refused, not called in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, did_you_mean
from callsheet.ir import JSON
from callsheet.machine import Fact
from callsheet.ports.mcp.config import McpServerConfig, ToolProbe, ToolRule
from callsheet.ports.mcp.connection import Connection
from callsheet.ports.mcp.content import BlobSink, has_blobs, untold_texts, value_of
from callsheet.ports.mcp.declarations import qualified_name, spec_of
from callsheet.ports.mcp.transport import IDEMPOTENCY_KEY
from callsheet.ports.probes import Probed, Prober, probed_json
from callsheet.ports.slots import Slots
from callsheet.ports.tools import CallContext, Handler, Tool, ToolFailed, ToolSpec

if TYPE_CHECKING:
    from mcp_types import CallToolResult

START_TIMEOUT = 30.0
"""Seconds a server may take to start, agree on a protocol and list its tools."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """An open server: the protocol both sides speak, its process, how many tools it offers."""

    name: str
    protocol: str | None
    pid: int | None
    tools: int


class McpPool:
    """The servers of a run, as an async context manager; leaving it ends them all.

    `blob_sink` keeps the bytes of pictures and files that servers send (`folder_sink` writes
    them into a folder); without one they stay in the values as base64. `start_timeout` is in
    seconds and for each server.

        async with McpPool(load_config(path).servers) as pool:
            await pool.connect()
            registry = Registry()
            for tool, alias in pool.tools():
                registry.add(tool, alias)
    """

    def __init__(
        self,
        configs: Iterable[McpServerConfig],
        *,
        blob_sink: BlobSink | None = None,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self._servers = [_Server(config, blob_sink, start_timeout) for config in configs]

    async def __aenter__(self) -> McpPool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self, *, keep_going: bool = False) -> tuple[Diagnostic, ...]:
        """Open all servers that are not open, together; gives what is doubtful about them.

        Raises CallsheetError with a diagnostic for each server that cannot be reached; with
        `keep_going` these are given among the others, and the rest can be used.
        """
        outcomes = await asyncio.gather(*(server.open() for server in self._servers), return_exceptions=True)
        failed: list[Diagnostic] = []
        for outcome in outcomes:
            if isinstance(outcome, CallsheetError):
                failed.extend(outcome.diagnostics)
            elif isinstance(outcome, BaseException):
                raise outcome
        if failed and not keep_going:
            raise CallsheetError(failed)
        return (*failed, *(d for server in self._servers for d in server.doubts()))

    def tools(self) -> list[tuple[Tool, str]]:
        """The tools of all open servers, each with its qualified name (`SERVER__TOOL`)."""
        return [pair for server in self._servers for pair in server.tools()]

    def status(self) -> list[ServerStatus]:
        """The servers that are open now."""
        return [server.status() for server in self._servers if server.is_open]

    async def close(self) -> None:
        """End all sessions and processes; waits until they are gone, also when it is cancelled."""
        closing = asyncio.gather(*(server.close() for server in self._servers))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait({closing})
            raise


class _Server:
    """A configured server and its connection of the moment."""

    def __init__(self, config: McpServerConfig, sink: BlobSink | None, start_timeout: float) -> None:
        self.config = config
        self._sink = sink
        self._start_timeout = start_timeout
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._closed = False
        self._slots = None if config.max_concurrent is None else Slots(config.max_concurrent)

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.ended

    async def open(self) -> Connection:
        """The connection, opened if there is none or the last one has ended."""
        async with self._lock:
            if self._closed:
                raise ToolFailed(f"the MCP server {self.config.name!r} was closed with its pool")
            connection = self._connection
            if connection is None or connection.ended:
                if connection is not None:
                    await connection.close()
                connection = self._connection = await Connection.open(self.config, self._start_timeout)
            return connection

    async def close(self) -> None:
        self._closed = True
        async with self._lock:
            if self._connection is not None:
                await self._connection.close()

    def status(self) -> ServerStatus:
        connection = self._connection
        assert connection is not None
        pid = connection.process.pid if connection.process is not None else None
        return ServerStatus(self.config.name, connection.protocol, pid, len(connection.declarations))

    def doubts(self) -> list[Diagnostic]:
        """Effects that are declared for tools which the server does not offer."""
        if self._connection is None:
            return []
        offered = list(self._connection.declarations)
        found: list[Diagnostic] = []
        server = f"the MCP server {self.config.name!r}"
        rules = self.config.rules
        probes = [rule.probe.tool for rule in rules.values() if rule.probe is not None]
        for name in dict.fromkeys((*self.config.effects, *rules, *probes)):
            if name not in self._connection.declarations:
                near = did_you_mean(name, offered)
                message = f"an effect is declared for {name!r}, which {server} does not offer"
                way_out = (
                    f"did you mean {' or '.join(near)}?"
                    if near
                    else f"it offers {', '.join(offered) or 'nothing'}"
                )
                found.append(Diagnostic("TOL015", Severity.WARNING, message, help=way_out))
        return found

    def tools(self) -> list[tuple[Tool, str]]:
        if self._connection is None:
            return []
        found: list[tuple[Tool, str]] = []
        for name, declaration in self._connection.declarations.items():
            spec = spec_of(self.config, declaration)
            rule = self.config.rules.get(name, ToolRule())
            probe = None if rule.probe is None else self._prober(rule.probe)
            handler = self._handler(spec, rule.key_argument)
            if rule.max_concurrent is not None:
                handler = Slots(rule.max_concurrent).sharing(handler)
            tool = Tool(spec, handler, probe)
            found.append((tool, qualified_name(self.config.name, name)))
        return found

    def _prober(self, rule: ToolProbe) -> Prober | None:
        """What asks the probing tool; None if the server does not offer it, which `doubts` tells."""
        assert self._connection is not None
        declaration = self._connection.declarations.get(rule.tool)
        if declaration is None:
            return None
        spec = spec_of(self.config, declaration)
        names = spec.parameter_names if rule.arguments is None else rule.arguments
        handler = self._handler(spec, rule.key_argument)

        async def look(args: dict[str, Any], context: CallContext) -> Probed:
            return probed_json(await handler({n: v for n, v in args.items() if n in names}, context))

        return look

    def _handler(self, spec: ToolSpec, key_argument: str | None) -> Handler:
        async def handler(args: dict[str, Any], context: CallContext) -> JSON:
            if key_argument is not None:
                args = {**args, key_argument: context.idempotency_key}
            return await self.call(spec, args, context)

        return handler if self._slots is None else self._slots.sharing(handler)

    async def call(self, spec: ToolSpec, args: dict[str, Any], context: CallContext) -> JSON:
        connection = self._connection
        if connection is None or connection.ended:
            try:
                connection = await self.open()
            except CallsheetError as error:
                raise ToolFailed(error.diagnostics[0].message) from error
        await connection.refresh()
        pin = connection.pins.get(spec.executor)
        if pin != spec.pin:
            what = "is no longer offered" if pin is None else "is declared differently now"
            raise ToolFailed(
                f"the tool {spec.executor!r} of the MCP server {self.config.name!r} {what}; not called"
            )
        meta = {IDEMPOTENCY_KEY: context.idempotency_key} if context.idempotency_key else {}
        schema = connection.declarations[spec.executor].get("outputSchema")

        def note_late(answer: CallToolResult | ToolFailed) -> None:
            try:
                value = answer if isinstance(answer, ToolFailed) else value_of(answer, schema, None)
            except ToolFailed as error:
                value = error
            context.came_late(value)

        seconds = spec.timeout or self.config.timeout
        result = await connection.call(spec.executor, args, meta, seconds, note_late)
        untold = 0 if result.is_error else untold_texts(result, schema)
        if untold:
            context.remark(Fact("left out", f"texts beside the structured content: {untold}"))
        if self._sink is not None and has_blobs(result):
            return await asyncio.to_thread(value_of, result, schema, self._sink)
        return value_of(result, schema, None)
