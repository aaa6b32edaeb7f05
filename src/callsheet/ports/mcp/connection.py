"""A session with one server, opened, kept and closed by a task of its own.

The SDK requires that its scopes are left by the task that entered them: `_live` opens, waits and closes;
callers use the session from their own tasks, concurrently. A call gives a result or raises ToolFailed;
opening raises CallsheetError (TOL010 to TOL014, TOL016).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.ports.calls import TIMEOUT, ToolFailed
from callsheet.ports.mcp.bounds import TOO_LONG, longer_than_taken, noted_in, repeated_keys_in_answer
from callsheet.ports.mcp.declarations import needs_task, no_two_alike, pin_of
from callsheet.ports.mcp.failures import (
    OtherHeaders,
    because,
    is_lost,
    is_unreadable,
    not_opened,
    refuses_protocol,
    troubles,
    unwelcome,
)
from callsheet.ports.mcp.front import Ask, Changed, Front, OpenCall, OpenCalls, TaskOfCall
from callsheet.ports.mcp.late_answers import LateAnswers, observed
from callsheet.ports.mcp.listed_tools import usable_tools
from callsheet.ports.mcp.servers import HttpServer, McpServerConfig, Protocol
from callsheet.ports.mcp.transport import IDEMPOTENCY_KEY, ServerProcess, http_transport, process_transport
from callsheet.version import VERSION

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Client, IncomingMessage
    from mcp.client.session import ClientRequestContext
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import (
        CallToolResult,
        CreateMessageRequestParams,
        ElicitRequestParams,
        ListToolsResult,
        LoggingMessageNotificationParams,
        ServerCapabilities,
    )

    from callsheet.ports.mcp.oauth.sources import TokenSource

TRACEPARENT = "traceparent"
"""The `_meta` field with the W3C Trace Context of a call."""


@contextmanager
def within_trace(traceparent: str) -> Generator[None]:
    """Make this span current while the context is open; an empty text changes nothing."""
    if not traceparent:
        yield
        return
    from opentelemetry import context, trace  # noqa: PLC0415 - it comes with the SDK, and a session is open

    _, trace_id, span_id, flags = traceparent.split("-")
    span = trace.NonRecordingSpan(
        trace.SpanContext(int(trace_id, 16), int(span_id, 16), False, trace.TraceFlags(int(flags, 16)))
    )
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        context.detach(token)


# The SDK's messages about odd servers belong into a log, if there is one, and not on the terminal.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_CLOSE, _CLOSE_AT_URL = 10.0, 2.0
"""Seconds for ending a session: a process is stopped; a URL is notified, without waiting for its answer."""
_MAX_PAGES = 1_000
_LISTS = {"Tools": Changed.TOOLS, "Prompts": Changed.PROMPTS, "Resources": Changed.RESOURCES}
_HEADER_MISMATCH, _NO_METHOD = -32020, -32601


class Beside(NamedTuple):
    """What goes on beside a call.

    If the server answers after the timeout and the call has an idempotency key, `on_late` gets that answer.
    `on_progress` gets what the server reports meanwhile; without it, the server is not asked to. `ask`
    answers what the server asks meanwhile, on behalf of `owner`, and the time does not run while it does.
    `logs` gets the server's log lines while there is no other call.
    """

    on_late: Callable[[CallToolResult | ToolFailed], None] | None = None
    on_progress: ProgressFnT | None = None
    ask: Ask | None = None
    owner: str = ""
    task: TaskOfCall | None = None
    logs: Callable[[str], None] | None = None


class Connection:
    """A session with a server; `open` creates one, `ended` tells when it can no longer be used."""

    def __init__(
        self,
        config: McpServerConfig,
        tokens: TokenSource | None = None,
        front: Front | None = None,
        mask: Callable[[Any], Any] = lambda sent: sent,
    ) -> None:
        self.config = config
        usual = Protocol.OLDER if front is not None and front.is_older else Protocol.NEWEST
        self._is_older = (config.protocol or usual) is Protocol.OLDER
        self._mask = mask
        self._calls = OpenCalls(config.name, front)
        self._tokens = tokens
        self._barred: CallsheetError | None = None
        """The error of the last request refused for lack of a valid login."""
        self.declarations: dict[str, dict[str, Any]] = {}
        """Its tool declarations as sent, by the server's own names."""
        self.unusable: dict[str, str] = {}
        """The tools that it lists against the protocol, which are left out, with what is wrong."""
        self.pins: dict[str, str] = {}
        """The hashes of the declarations, by the server's own names."""
        self.process: ServerProcess | None = None
        self.refusal: str | None = None
        """The status of the last error response of a URL."""
        self._client: Client | None = None
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stale = False
        self._watched: set[str] = set()
        self._watches: list[asyncio.Task[None]] = []
        self._late = LateAnswers()
        self._logger = logging.getLogger(f"callsheet.mcp.{config.name}")

    @classmethod
    async def open(
        cls,
        config: McpServerConfig,
        within: float,
        tokens: TokenSource | None = None,
        front: Front | None = None,
        mask: Callable[[Any], Any] = lambda sent: sent,
    ) -> Connection:
        """Start or contact the server, initialise the session and list its tools, within `within` seconds.

        One that does not know the older protocol is opened anew in the newest, with as many seconds again.
        `tokens` provides access tokens for a server at a URL, `front` is the client for which it is opened,
        and `mask` takes tokens out of what that client hears. Raises CallsheetError naming the server and a
        way out; nothing is left running then.
        """
        self = cls(config, tokens, front, mask)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready), name=f"mcp {config.name}")
        try:
            async with asyncio.timeout(within):
                await asyncio.shield(ready)
        except BaseException as error:
            self._task.cancel()
            await _finished(self._task)
            if ready.done() and not ready.cancelled():
                ready.exception()
            if isinstance(error, Exception):
                if self._barred is not None:
                    raise self._barred from None
                if self._is_older and config.protocol is None and refuses_protocol(error):
                    newest = replace(config, protocol=Protocol.NEWEST)
                    return await cls.open(newest, within, tokens, front, mask)
                secrets = () if tokens is None else tuple(tokens.secrets())
                raise not_opened(config, self.process, error, within, self.refusal, secrets) from error
            raise
        return self

    @property
    def ended(self) -> bool:
        """Whether the session is over: closed by us, or because the server ended."""
        return self._over.is_set()

    @property
    def protocol(self) -> str | None:
        """The negotiated protocol version."""
        return self._client.protocol_version if self._client is not None else None

    @property
    def reported(self) -> tuple[str, str]:
        """The name and version that the server reports; empty if it reports none."""
        info = None if self._client is None else self._client.server_info
        return ("", "") if info is None else (info.name, info.version)

    async def close(self) -> None:
        """End the session and the server's process; may be called twice, and completes even if cancelled."""
        self._over.set()
        if self._task is None:
            return
        within = _CLOSE_AT_URL if isinstance(self.config.transport, HttpServer) else _CLOSE
        try:
            done, _ = await asyncio.wait({self._task}, timeout=within)
            if not done:
                self._task.cancel()
                await _finished(self._task)
        except asyncio.CancelledError:
            self._task.cancel()
            await _finished(self._task)
            raise

    async def call(
        self,
        name: str,
        args: dict[str, Any],
        meta: dict[str, Any],
        seconds: float,
        beside: Beside | None = None,
    ) -> CallToolResult:
        """Call a tool and wait up to `seconds`; raises ToolFailed if no result comes.

        Cancelling the caller notifies the server that the answer is no longer wanted.
        """
        on_late, on_progress, ask, owner, task, logs = beside or Beside()
        client = self._client
        if client is None or self.ended:
            raise ToolFailed(await self._obituary("is gone"))
        from callsheet.ports.mcp.tasks import (  # noqa: PLC0415 - a session is open
            TaskLost,
            call_as_task,
            result_of_begun,
            result_of_task,
        )

        scope = asyncio.timeout(seconds)
        heard_of: list[CallsheetError] = []
        try:
            async with scope:
                trace = within_trace(meta.get(TRACEPARENT, ""))
                call = OpenCall(owner, ask, scope, seconds, task, logs)
                with (
                    self._calls.during(call),
                    trace,
                    troubles() as heard_of,
                    repeated_keys_in_answer() as repeated,
                ):
                    if task is not None and task.known:
                        return await result_of_task(client.session, task.known, None, call)
                    if client.protocol_version < "2026" and needs_task(self.declarations.get(name, {})):
                        result = await call_as_task(client.session, name, args, meta, on_progress)
                    else:
                        result = await client.call_tool(
                            name,
                            args,
                            progress_callback=on_progress,
                            meta=meta or None,  # pyright: ignore[reportArgumentType]
                        )
                    return noted_in(await result_of_begun(client.session, result, call), repeated)
        except TimeoutError:
            if scope.expired():
                if on_late is not None and IDEMPOTENCY_KEY in meta:
                    self._late.expect(meta[IDEMPOTENCY_KEY], lambda r, e: on_late(self._result(r, e)))
                raise ToolFailed(f"no answer within {seconds:g} s", in_doubt=True, kind=TIMEOUT) from None
            raise ToolFailed("the connection timed out", in_doubt=True, kind=TIMEOUT) from None
        except Exception as error:
            if isinstance(error, TaskLost):
                raise ToolFailed(str(error), in_doubt=True) from None
            if heard_of:
                raise unwelcome(heard_of[-1]) from None  # it was refused, and not made
            raise await self._failed(error) from error

    def _result(self, result: dict[str, Any] | None, error: str) -> CallToolResult | ToolFailed:
        """A late answer as a result or a failure."""
        from mcp_types import CallToolResult  # noqa: PLC0415 - a session is open

        if result is None:
            return ToolFailed(error)
        try:
            return CallToolResult.model_validate(result, by_name=False)
        except ValueError as misfit:
            name = f"the MCP server {self.config.name!r}"
            return ToolFailed(f"{name} answered with an invalid result: {because(misfit)}")

    async def _failed(self, error: Exception) -> ToolFailed:
        """The failure that a plan sees for an exception of the session."""
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - a session is open

        if self.process is None and isinstance(error, MCPError):
            too_long = longer_than_taken(error.message)
            if too_long is not None:  # over HTTP it is known which call was answered
                return ToolFailed(too_long, final=True)
        lost = isinstance(error, MCPError) and is_lost(error.message)
        if self.process is not None and (lost or self.ended):
            self._over.set()
            return ToolFailed(await self._obituary("gave no answer"), in_doubt=True)
        unreadable = self.process is None and isinstance(error, MCPError) and is_unreadable(error.message)
        # It answered, but not with a result: the call may have had an effect.
        if unreadable or not isinstance(error, MCPError):
            name = f"the MCP server {self.config.name!r}"
            return ToolFailed(f"{name} answered with an invalid result: {because(error)}", in_doubt=True)
        if not lost:
            if error.error.code == _HEADER_MISMATCH:
                self._stale = True
                return OtherHeaders(error.message)
            return ToolFailed(error.message, final=error.error.data == TOO_LONG)
        self._stale = True  # the next answer may come from a different server
        if error.message == "Session terminated":
            self._over.set()
        elif self._task is not None:
            await asyncio.wait({self._task}, timeout=0.2)  # a lost connection ends the session shortly after
        why = self.refusal or error.message
        return ToolFailed(f"the MCP server {self.config.name!r} was lost: {why}", in_doubt=True)

    async def _obituary(self, state: str) -> str:
        name = f"the MCP server {self.config.name!r}"
        if self.process is None:
            return f"{name} is no longer connected"
        await self.process.settle()
        return f"{name} {state}: it {self.process.last_words()}"

    # ------------------------------------------------------------ the owning task

    async def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            transport = self.config.transport
            if isinstance(transport, HttpServer):
                await asyncio.to_thread(importlib.import_module, "mcp.client")
                streams = http_transport(transport, self._refused, self._auth(transport.url))
            else:
                self.process = await ServerProcess.start(self.config.name, transport)
                try:
                    # The server starts during the import: both take a second or two.
                    await asyncio.to_thread(importlib.import_module, "mcp.client")
                except BaseException:
                    await self.process.stop()
                    raise
                streams = process_transport(self.process, self._over.set)
            from callsheet.ports.mcp.tasks import with_task_in_meta  # noqa: PLC0415 - the SDK is there now

            streams = observed(
                streams, self._late, lambda received: with_task_in_meta(self._usable(received))
            )
            async with self._new_client(streams) as client:
                self._client = client
                # The SDK would validate results with the server's own patterns, which may take hours.
                client.session.validate_tool_result = _let_through
                # Nor may it list tools by itself and repeat the call: changes have to be checked first.
                client.list_tools = _not_by_itself
                await self.list_tools()
                self.refusal = self._barred = None
                if not ready.done():
                    ready.set_result(None)
                watch = asyncio.create_task(self._watch(client), name=f"mcp {self.config.name} changes")
                try:
                    await self._over.wait()
                finally:
                    for task in (watch, *self._watches):
                        task.cancel()
                        await _finished(task)
        except Exception as error:
            if ready.done():
                self._logger.debug("the session ended with %r", error)
            else:
                ready.set_exception(error)
        finally:
            self._over.set()
            if not ready.done():
                ready.cancel()

    def _usable(self, message: Any) -> Any:
        version = self.protocol
        if version is None:
            return message
        taken, left_out = usable_tools(message, version)
        self.unusable |= left_out
        return taken

    def _auth(self, url: str) -> httpx2.Auth | None:
        if self._tokens is None:
            return None
        from callsheet.ports.mcp.oauth.sources import Bearer  # noqa: PLC0415 - the SDK is there now

        return Bearer(self.config.name, url, self._tokens, self._bar)

    def _bar(self, trouble: CallsheetError) -> None:
        self._barred = trouble

    def _new_client(self, streams: Any) -> Client:
        from mcp.client import Client  # noqa: PLC0415 - imported a moment ago, in a thread
        from mcp_types import Implementation  # noqa: PLC0415

        from callsheet.ports.mcp.tasks import TaskExtension  # noqa: PLC0415

        front = self._calls.front
        return Client(
            streams,
            mode="legacy" if self._is_older else "auto",
            client_info=Implementation(name="callsheet", version=VERSION),
            logging_callback=self._log,
            message_handler=self._notice,
            cache=None,
            elicitation_callback=self._elicit,
            sampling_callback=self._sample if front.samples else None,
            list_roots_callback=self._roots if front.has_roots else None,
            extensions=[TaskExtension()],
        )

    async def _elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> Any:
        from mcp_types import ElicitResult  # noqa: PLC0415 - a session is open

        return await self._calls.answered("elicitation/create", params, ElicitResult)

    async def _sample(self, context: ClientRequestContext, params: CreateMessageRequestParams) -> Any:
        from mcp_types import CreateMessageResult, CreateMessageResultWithTools  # noqa: PLC0415 - as above

        model = CreateMessageResult if params.tools is None else CreateMessageResultWithTools
        return await self._calls.answered("sampling/createMessage", params, model)

    async def _roots(self, context: ClientRequestContext) -> Any:
        from mcp_types import ListRootsResult  # noqa: PLC0415 - as above

        return await self._calls.answered("roots/list", None, ListRootsResult)

    async def _watch(self, client: Client) -> None:
        """Listen for changed lists on a server that notifies only subscribers (protocol of 2026)."""
        has, front = client.server_capabilities, self._calls.front
        tools, prompts, resources = has.tools, has.prompts, has.resources
        wanted = {
            Changed.TOOLS: tools is not None and bool(tools.list_changed),
            Changed.PROMPTS: bool(front.changed and prompts is not None and prompts.list_changed),
            Changed.RESOURCES: bool(front.changed and resources is not None and resources.list_changed),
        }
        if not any(wanted.values()):
            return
        try:
            async with client.listen(
                tools_list_changed=wanted[Changed.TOOLS],
                prompts_list_changed=wanted[Changed.PROMPTS],
                resources_list_changed=wanted[Changed.RESOURCES],
            ) as changes:
                async for change in changes:
                    self._changed(type(change).__name__.removesuffix("ListChanged"))
        except Exception as error:
            self._logger.debug("the server does not report changes: %r", error)
        else:
            self._stale = True  # later changes go unnoticed

    async def _log(self, params: LoggingMessageNotificationParams) -> None:
        self._logger.debug("%s: %s", params.level, params.data)
        await self._calls.logged(self._mask(params.model_dump(by_alias=True, mode="json", exclude_none=True)))

    def _refused(self, status: str) -> None:
        self.refusal = status

    async def _notice(self, message: IncomingMessage) -> None:
        kind = type(message).__name__
        if kind.endswith("ListChangedNotification"):
            self._changed(kind.removesuffix("ListChangedNotification") + "s")
        elif kind == "ResourceUpdatedNotification":
            self._calls.changed(Changed.RESOURCE, str(cast("Any", message).params.uri))

    def _changed(self, what: str) -> None:
        """A list has changed: `Tools`, `Prompts` or `Resources`."""
        changed = _LISTS.get(what)
        if changed is Changed.TOOLS:
            self._stale = True
        if changed is not None:
            self._calls.changed(changed)

    @property
    def is_stale(self) -> bool:
        """Whether the server has said, or may have meant, that its tools have changed."""
        return self._stale

    async def request(self, method: str, params: dict[str, JSON], seconds: float) -> dict[str, Any]:
        """The result of any request of the protocol, as the server has sent it.

        Raises MCPError as the server has sent it, ToolFailed if there is no answer of the protocol.
        """
        from mcp_types import Request  # noqa: PLC0415 - a session is open
        from pydantic import TypeAdapter  # noqa: PLC0415

        client = self._client
        if client is None or self.ended:
            raise ToolFailed(await self._obituary("is gone"))
        wire: Any = TypeAdapter(dict[str, Any])
        asked = Request[dict[str, Any], str](method=method, params=params)
        try:
            async with asyncio.timeout(seconds):
                return await client.session.send_request(asked, wire)
        except TimeoutError:
            raise ToolFailed(f"no answer within {seconds:g} s", kind=TIMEOUT) from None
        except ValueError as error:
            name = f"the MCP server {self.config.name!r}"
            raise ToolFailed(f"{name} answered with an invalid result: {because(error)}") from None

    async def watch(self, uri: str) -> None:
        """Tell the front when a resource changes, until the session ends."""
        client = self._client
        if client is None or uri in self._watched:
            return
        self._watched.add(uri)
        if client.protocol_version < "2026":
            try:
                await self.request("resources/subscribe", {"uri": uri}, _CLOSE)
            except BaseException:
                self._watched.discard(uri)
                raise
            return

        async def listen() -> None:
            try:
                async with client.listen(resource_subscriptions=[uri]) as changes:
                    async for _ in changes:
                        self._calls.changed(Changed.RESOURCE, uri)
            except Exception as error:
                self._logger.debug("the server does not report changes of %s: %r", uri, error)
            self._watched.discard(uri)

        self._watches = [task for task in self._watches if not task.done()]
        task = asyncio.create_task(listen(), name=f"mcp {self.config.name} resource")
        self._watches.append(task)

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server says that it can do."""
        return None if self._client is None else self._client.server_capabilities

    async def list_tools(self) -> None:
        """Ask the server for all its tools, page by page.

        Raises CallsheetError (TOL016) if two tools could not be told apart by name.
        """
        from mcp_types import ListToolsRequest, PaginatedRequestParams  # noqa: PLC0415 - a session is open
        from pydantic import TypeAdapter  # noqa: PLC0415

        assert self._client is not None
        session = self._client.session
        wire: Any = TypeAdapter(dict[str, Any])
        listed: list[dict[str, Any]] = []
        self.unusable = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = PaginatedRequestParams(cursor=cursor)
            # Twice: the session needs the typed page, a pin needs the page as it was sent.
            page = await session.list_tools(params=params)
            raw: dict[str, Any] = await session.send_request(ListToolsRequest(params=params), wire)
            usable = {tool.name for tool in page.tools}
            listed += (tool for tool in raw["tools"] if tool["name"] in usable)
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            self._logger.warning("the server keeps listing tools; callsheet stops after %s pages", _MAX_PAGES)
        no_two_alike(self.config.name, [tool["name"] for tool in listed])
        self.declarations = {tool["name"]: tool for tool in listed}
        self.pins = {name: pin_of(declaration) for name, declaration in self.declarations.items()}
        self._stale = False

    async def refresh(self, seconds: float) -> None:
        """List the tools again if they have, or may have, changed.

        Raises ToolFailed if the server does not list them within `seconds`; then none of them may be called.
        """
        if not self._stale:
            return
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                await self.list_tools()
        except CallsheetError as error:
            raise ToolFailed(f"{error.diagnostics[0].message}; not called") from error
        except Exception as error:
            if scope.expired():
                name = f"the MCP server {self.config.name!r}"
                why = (
                    f"{name} reported that its tools have changed, but did not list them within {seconds:g} s"
                )
                raise ToolFailed(f"{why}; not called") from None
            failed = await self._failed(error)
            raise ToolFailed(f"{failed} (when its tools were asked for again); not called") from error


async def _let_through(name: str, result: CallToolResult) -> None:
    """Skip the SDK's validation of a result; `check_declared` does it."""


async def _not_by_itself(**_: Any) -> ListToolsResult:
    """Keep the SDK from listing tools; `Connection.list_tools` does so and pins them."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - a session is open

    raise MCPError(_NO_METHOD, "tools are listed by callsheet alone")


async def _finished(task: asyncio.Task[None]) -> None:
    """Wait until a task that was told to end has ended, however it ends."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
