"""A configured MCP server of a run: opened, checked against pins and the lock file, its tools offered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import JSON
from callsheet.machine import Fact, Spent
from callsheet.ports.answers import BlobSink, Probed, Prober, probed_json, value_of
from callsheet.ports.calls import CallContext, ServerQuestion, ToolFailed
from callsheet.ports.mcp.bounds import repeated_keys_of
from callsheet.ports.mcp.connection import TRACEPARENT, Beside, Connection
from callsheet.ports.mcp.content import (
    check_declared,
    has_blobs,
    lost_numbers,
    unrepeated_texts,
)
from callsheet.ports.mcp.declarations import (
    ToolTerms,
    declaration_warnings,
    is_plain,
    qualified_name,
    spec_under,
    terms_of,
    unused_settings,
)
from callsheet.ports.mcp.failures import OtherHeaders
from callsheet.ports.mcp.front import PASSAGE, Front, Passage, TaskOfCall
from callsheet.ports.mcp.server_labels import said_of_result
from callsheet.ports.mcp.servers import HttpServer, McpServerConfig, ToolProbe, ToolRule
from callsheet.ports.mcp.transport import IDEMPOTENCY_KEY
from callsheet.ports.mcp.trust import (
    Judgement,
    LockedServer,
    Pins,
    Reported,
    SeenServer,
    changed_fields,
    differences,
    identity_of,
)
from callsheet.ports.mcp.trust.judging import judge
from callsheet.ports.mcp.trust.lock import transport_of
from callsheet.ports.timeouts import Slots
from callsheet.ports.tools import Handler, Tool, ToolSpec
from callsheet.sealing.credentials import configured
from callsheet.sealing.masking import Finder, mask_value

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult, ServerCapabilities

    from callsheet.ports.mcp.oauth.file import LoginFile
    from callsheet.ports.mcp.oauth.sources import TokenSource

_log = logging.getLogger("callsheet.mcp")

Tell: TypeAlias = Callable[[Diagnostic], None]
"""Hears what people should know of a server that starts during a run."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server: its protocol, process id (if any), number of tools, `pipe` or `tcp`, whether it is open.

    One that is not open is in the lock file, and starts when one of its tools is called.
    """

    name: str
    protocol: str | None
    pid: int | None
    tools: int
    transport: str = "pipe"
    is_open: bool = True


class ManagedServer:
    """A configured server and its current connection; `judgement` is what the pins say about its tools."""

    def __init__(
        self,
        config: McpServerConfig,
        sink: BlobSink | None,
        start_timeout: float,
        logins: LoginFile | None = None,
        locked: LockedServer | None = None,
        tell: Tell | None = None,
        front: Front | None = None,
    ) -> None:
        self.config = config
        self._front = front
        self.locked = locked
        self._tell = tell
        self._sink = sink
        self._start_timeout = start_timeout
        self._logins = logins
        self._tokens: TokenSource | None = None
        self._secrets: tuple[str, ...] = ()
        self._finder = Finder()
        self._connection: Connection | None = None
        self._reported: str | None = None if locked is None else locked.reported.name
        """The name that the server reported when it was first opened, or locked."""
        self._lock = asyncio.Lock()
        self._closed = False
        self.judgement = Judgement()
        self._slots = None if config.max_concurrent is None else Slots(config.max_concurrent)

    @property
    def is_open(self) -> bool:
        """Whether the current connection can be used."""
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
                connection = await Connection.open(
                    self.config, self._start_timeout, self._source(), self._front, self._without_tokens
                )
                is_first = self._connection is None
                self._connection = connection
                if self._reported is None:
                    self._reported = connection.reported[0]
                if is_first and self.locked is not None:
                    self._compare(self.locked)
            return connection

    def _compare(self, locked: LockedServer) -> None:
        """Tell people how the server, just opened, differs from the lock file."""
        seen = self.seen()
        if seen is None:
            return
        pins = Pins((locked.pinned(seen.identity),))
        for notice in judge(seen, pins, pinned=False, now="").notices:
            if self._tell is None:
                _log.warning("%s: %s", notice.code, notice.message)
            else:
                self._tell(notice)

    def _source(self) -> TokenSource | None:
        """The source of tokens for the server, shared by all its sessions."""
        transport = self.config.transport
        if self._tokens is None and isinstance(transport, HttpServer):
            from callsheet.ports.mcp.oauth.sources import source_for  # noqa: PLC0415 - brings the SDK

            self._tokens = source_for(self.config.name, transport, self._logins)
        return self._tokens

    def secrets(self) -> Iterator[str]:
        """The tokens sent to the server so far, and the secrets used to get them."""
        return iter(()) if self._tokens is None else self._tokens.secrets()

    @property
    def is_stale(self) -> bool:
        """Whether an open server has reported changed tools that it has not listed yet."""
        connection = self._connection
        return connection is not None and not connection.ended and connection.is_stale

    async def refresh(self) -> bool:
        """List the tools again if they have changed; whether they had and were listed."""
        connection = self._connection
        if connection is None or connection.ended or not connection.is_stale:
            return False
        try:
            await connection.refresh(self.config.timeout)
        except ToolFailed as error:
            _log.warning("%s", error)
            return False
        return self.locked is None

    def may_have(self, what: str) -> bool:
        """Whether it says that it has resources or prompts; one that is not open yet may have some."""
        connection = self._connection
        return connection is None or getattr(connection.capabilities, what, None) is not None

    async def capabilities(self) -> ServerCapabilities | None:
        """What the server says that it can do; a locked one is opened. None if it cannot be opened."""
        try:
            return (await self.open()).capabilities
        except (CallsheetError, ToolFailed) as error:
            _log.warning("%s", error)
            return None

    async def watch(self, uri: str) -> None:
        """Tell the front when a resource changes; a server that cannot say so is left."""
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - a session is open

        try:
            await (await self.open()).watch(uri)
        except (MCPError, ToolFailed, CallsheetError) as error:
            _log.warning("%s: changes of %s are not reported: %s", self.config.name, uri, error)

    async def request(self, method: str, params: dict[str, JSON]) -> dict[str, Any]:
        """The result of a request of the protocol, with tokens masked.

        Raises MCPError as the server sent it, tokens masked, ToolFailed if there is no answer, CallsheetError
        if the server cannot be opened.
        """
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - a session is open

        connection = await self.open()
        try:
            return self._without_tokens(await connection.request(method, params, self.config.timeout))
        except MCPError as error:
            sent = error.error
            about = self._without_tokens(sent.message), self._without_tokens(sent.data)
            raise MCPError(sent.code, *about) from None

    async def close(self) -> None:
        """End the connection for good: later calls fail."""
        self._closed = True
        async with self._lock:
            if self._connection is not None:
                await self._connection.close()

    def status(self) -> ServerStatus:
        """The status of the server, which must have been opened or locked."""
        connection, name, transport = self._connection, self.config.name, transport_of(self.config)
        if connection is None:
            assert self.locked is not None
            locked = self.locked
            return ServerStatus(name, locked.protocol, None, len(locked.tools), transport, is_open=False)
        pid = connection.process.pid if connection.process is not None else None
        return ServerStatus(name, connection.protocol, pid, len(connection.declarations), transport)

    def as_locked(self) -> SeenServer:
        """What the lock file says of the server and its tools."""
        assert self.locked is not None
        return SeenServer(identity_of(self.config), self.locked.reported, self.locked.declarations)

    def seen(self) -> SeenServer | None:
        """What the server reports about itself and its tools, None while it is not open."""
        connection = self._connection
        if connection is None or connection.ended:
            return None
        declarations = {
            name: declaration for name, declaration in connection.declarations.items() if is_plain(name)
        }
        return SeenServer(identity_of(self.config), Reported(*connection.reported), declarations)

    def warnings(self) -> list[Diagnostic]:
        """Warnings about the server's tools and their pins."""
        if self.locked is not None:
            return [*unused_settings(self.config, self.locked.declarations), *self.judgement.notices]
        if self._connection is None:
            return []
        declared = self._connection.declarations
        return [
            *unused_settings(self.config, declared),
            *self.judgement.notices,
            *declaration_warnings(self.config, declared, self._connection.unusable),
        ]

    def tools(self) -> list[tuple[Tool, str]]:
        """The tools that the server declared, each with its qualified name; empty before it is opened.

        Those of a locked server are the ones in the lock file, also once it is open.
        """
        tools: list[tuple[Tool, str]] = []
        for name, declaration in self._declared().items():
            if not is_plain(name):
                continue
            spec = self._spec(name, declaration)
            rule = self.config.rules.get(name, ToolRule())
            plan = None if rule.probe is None else rule.probe.plan
            probe = None if rule.probe is None or plan is not None else self._prober(rule.probe)
            handler = self._handler(spec, declaration, self._terms(declaration).key_argument)
            if rule.max_concurrent is not None:
                handler = Slots(rule.max_concurrent).sharing(handler)
            tool = Tool(spec, handler, probe, plan)
            tools.append((tool, qualified_name(self.config.name, name)))
        return tools

    def _declared(self) -> Mapping[str, Mapping[str, Any]]:
        if self.locked is not None:
            return self.locked.declarations
        return {} if self._connection is None else self._connection.declarations

    def _spec(self, name: str, declaration: Mapping[str, Any]) -> ToolSpec:
        spec = spec_under(self.config.name, declaration, self._terms(declaration))
        return replace(spec, refusal=self.judgement.refusals.get(name))

    def _terms(self, declaration: Mapping[str, Any]) -> ToolTerms:
        accepted = None if self.locked is None else self.locked.accepted(self.config, declaration)
        return terms_of(self.config, declaration, accepted)

    def _prober(self, rule: ToolProbe) -> Prober | None:
        """The prober that calls the probing tool; None if the server does not offer it (see `warnings`)."""
        declaration = self._declared().get(rule.tool)
        if declaration is None or not is_plain(rule.tool):
            return None
        spec = self._spec(rule.tool, declaration)
        names = spec.parameter_names if rule.arguments is None else rule.arguments
        handler = self._handler(spec, declaration, rule.key_argument)

        async def probe(args: dict[str, Any], context: CallContext) -> Probed:
            answer = await handler({n: v for n, v in args.items() if n in names}, context)
            if rule.condition is not None:
                return rule.condition.judge(answer, args, context.idempotency_key)
            return probed_json(answer)

        return probe

    def _handler(self, spec: ToolSpec, declaration: Mapping[str, Any], key_argument: str | None) -> Handler:
        async def handler(args: dict[str, Any], context: CallContext) -> JSON:
            if key_argument is not None:
                args = {**args, key_argument: context.idempotency_key}
            try:
                return self._without_tokens(await self.call(spec, declaration, args, context))
            except ToolFailed as error:
                message = self._without_tokens(str(error))
                raise ToolFailed(
                    message, in_doubt=error.in_doubt, final=error.final, kind=error.kind
                ) from error.__cause__

        return handler if self._slots is None else self._slots.sharing(handler)

    def _masked(self, hear: ProgressFnT) -> ProgressFnT:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            await hear(progress, total, self._without_tokens(message))

        return report

    def _without_tokens(self, value: Any) -> Any:
        """The server's answer with its tokens masked, including renewed ones that no run knows of."""
        secrets = tuple(self.secrets())
        if not secrets:
            return value
        if secrets != self._secrets:
            self._secrets, self._finder = secrets, Finder(configured(secrets))
        return mask_value(value, self._finder)

    async def call(
        self, spec: ToolSpec, declaration: Mapping[str, Any], args: dict[str, Any], context: CallContext
    ) -> JSON:
        """The value of a tool's answer; raises ToolFailed if it is refused, has changed, or fails."""
        if spec.refusal is not None:
            raise ToolFailed(spec.refusal.message)
        connection = self._connection
        if connection is None or connection.ended:
            context.wait_for(f"the MCP server {self.config.name!r} to start")
            try:
                connection = await self.open()
            except CallsheetError as error:
                raise ToolFailed(error.diagnostics[0].message) from error
        await self._check_unchanged(spec, declaration, connection)
        passage = PASSAGE.get()
        meta: dict[str, Any] = {TRACEPARENT: context.traceparent}
        if passage is not None:
            meta |= passage.meta
        if context.idempotency_key:
            meta[IDEMPOTENCY_KEY] = context.idempotency_key
        schema = declaration.get("outputSchema")

        def note_late(answer: CallToolResult | ToolFailed) -> None:
            context.came_late(self._late_value(answer, schema))

        async def report(progress: float, total: float | None, message: str | None) -> None:
            context.report_progress(progress, total, self._without_tokens(message or ""))

        async def ask(method: str, params: dict[str, JSON]) -> JSON:
            asked = ServerQuestion(self.config.name, method, self._without_tokens(params))
            return await context.answer_server(asked)

        try:
            seconds = spec.timeout or self.config.timeout
            on_progress = report if context.is_followed else None
            if passage is not None and passage.progress is not None:
                on_progress = self._masked(passage.progress)
            task = TaskOfCall(context.task, context.became_task, lambda: context.may_go_on)
            logs = context.report_log if context.is_followed else None
            beside = Beside(note_late, on_progress, ask, context.run_id, task, logs)
            result = await connection.call(spec.executor, args, meta, seconds, beside)
        except OtherHeaders:
            await self._check_unchanged(spec, declaration, connection)
            raise
        except ToolFailed as error:
            if passage is not None and not (error.in_doubt or error.final):
                self._tell_refusal(passage, error.__cause__)
            raise
        if passage is not None:
            whole = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            passage.hear(self._without_tokens(whole))
        return await self._value(result, schema, context)

    def _tell_refusal(self, passage: Passage, error: BaseException | None) -> None:
        """Pass on that the server has answered a call with an error of the protocol, if it has."""
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - a session is open

        if isinstance(error, MCPError):
            sent = error.error
            passage.refused(sent.code, self._without_tokens(sent.message), self._without_tokens(sent.data))

    def _late_value(self, answer: CallToolResult | ToolFailed, schema: Any) -> JSON | ToolFailed:
        """The value or failure of an answer that came after the timeout, without tokens."""
        try:
            value = answer if isinstance(answer, ToolFailed) else value_of(answer, schema, None)
        except ToolFailed as error:
            value = error
        if isinstance(value, ToolFailed):
            return ToolFailed(self._without_tokens(str(value)), in_doubt=value.in_doubt, kind=value.kind)
        return self._without_tokens(value)

    async def _value(self, result: CallToolResult, schema: Any, context: CallContext) -> JSON:
        """The value of an answer, its binary data stored; `context` gets remarks and the bytes stored."""
        said_of_result(result).tell(context)
        try:
            check_declared(result, schema)
        except ToolFailed as error:
            name = f"the MCP server {self.config.name!r}"
            what = f"{name} answered with an invalid result: {error}"
            raise ToolFailed(what, in_doubt=True, kind=error.kind) from None
        untold = 0 if result.is_error else unrepeated_texts(result, schema)
        if untold:
            context.remark(Fact("left out", f"texts beside the structured content: {untold}"))
        lost = lost_numbers(result)
        if lost:
            context.remark(Fact("changed", f"numbers that JSON cannot express became null: {lost}"))
        repeated = repeated_keys_of(result)
        if repeated:
            context.remark(Fact("changed", f"of repeated keys, the last value counts: {repeated}"))
        sink = self._sink
        if sink is None or not has_blobs(result):
            return value_of(result, schema, None)
        sizes: list[int] = []

        def store(data: bytes) -> str:
            sizes.append(len(data))
            return sink(data)

        try:
            return await asyncio.to_thread(value_of, result, schema, store)
        finally:
            context.charge(Spent(kept=sum(sizes)))

    async def _check_unchanged(
        self, spec: ToolSpec, declaration: Mapping[str, Any], connection: Connection
    ) -> None:
        """Raise ToolFailed if the tool's declaration or the server's name has changed since it was opened."""
        if connection.reported[0] != self._reported:
            server = f"the MCP server {self.config.name!r}"
            raise ToolFailed(f"{server} reports another name than before; not called")
        await connection.refresh(spec.timeout or self.config.timeout)
        if connection.pins.get(spec.executor) != spec.pin:
            raise self._changed(spec.executor, declaration, connection.declarations.get(spec.executor))

    def _changed(self, name: str, before: Mapping[str, Any], now: Mapping[str, Any] | None) -> ToolFailed:
        """The refusal of a tool that changed; its new declaration only goes to the log.

        The text becomes a value of the plan and may be shown to a model.
        """
        tool = f"the tool {name!r} of the MCP server {self.config.name!r}"
        if now is None:
            return ToolFailed(f"{tool} is no longer offered; not called")
        if self.locked is None:  # otherwise people have heard of it when the server was opened
            _log.warning("%s has changed: %s", tool, "; ".join(differences(before, now)))
        fields = ", ".join(changed_fields(before, now))
        return ToolFailed(f"{tool} is declared differently now ({fields}); not called")
