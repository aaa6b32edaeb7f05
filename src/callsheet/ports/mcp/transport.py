"""The transports of the SDK's sessions: to a child process, which is always stopped, or to a URL.

The process transport is our own, so that errors can contain the exit status and the last output. If this
process dies, the child's standard input is closed, which tells a server to end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.ports.mcp.bounds import TooLong, bound_answer, examine_answer, note_repeated_keys, unpacked
from callsheet.ports.mcp.servers import HttpServer, StdioServer, finder_for
from callsheet.sealing.masking import Finder, mask_text

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCResponse


_INHERITED = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR",
    "APPDATA", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""The variables that a server inherits from our environment; all others have to be configured."""

_GRACE = 2.0
"""Seconds between closing the input, SIGTERM and SIGKILL."""
_POLL = 0.01
_TAIL_LINES = 12
_TAIL_WIDTH = 400


class Tail:
    """The last lines of a stream, bounded in size, with the secrets that `finder` finds masked."""

    def __init__(self, finder: Finder | None = None) -> None:
        self._finder = finder or Finder()
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take in a piece of the stream."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_TAIL_WIDTH * 4 :]
        for line in lines[-_TAIL_LINES:]:
            self.line(line)

    def line(self, line: bytes) -> None:
        """Take in a whole line."""
        text = line[: _TAIL_WIDTH * 4].decode("utf-8", "replace").rstrip()
        if text:
            self._lines.append(text[:_TAIL_WIDTH])

    def text(self) -> str:
        """The lines kept, including the unfinished one, with secrets masked."""
        rest = self._rest.decode("utf-8", "replace").strip()[:_TAIL_WIDTH]
        return mask_text("\n".join([*self._lines, *([rest] if rest else [])]), self._finder)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server: a few harmless variables of ours, and the configured ones."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(given)


class ServerProcess:
    """A running server; `start` creates one, `stop` ends it and everything it started."""

    def __init__(self, process: asyncio.subprocess.Process, finder: Finder | None = None) -> None:
        self._process = process
        self.tail = Tail(finder)
        self._ended_by_itself = False
        self._errors = asyncio.create_task(self._read_errors(), name=f"stderr of {process.pid}")

    @classmethod
    async def start(cls, name: str, server: StdioServer) -> ServerProcess:
        """Start the command of the server `name`; raises CallsheetError (TOL010)."""
        env = environment(server.env)
        folder = str(server.cwd) if server.cwd is not None else None
        wrong = _why_not(server, env)
        if wrong is not None:
            raise _cannot_start(name, server.command, *wrong)
        try:
            process = await asyncio.create_subprocess_exec(
                server.command,
                *server.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=env,
                cwd=folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise _cannot_start(
                name, server.command, reason, "give the path of a program that can be run"
            ) from error
        return cls(process, finder_for(server))

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal, None while it runs."""
        return self._process.returncode

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended before `stop` was called."""
        return self._ended_by_itself

    async def read(self) -> bytes:
        """The next piece of its standard output; empty at the end."""
        assert self._process.stdout is not None
        return await self._process.stdout.read(1 << 16)

    async def write(self, data: bytes) -> None:
        """Write to its standard input; raises OSError if it no longer reads."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def ended(self, within: float) -> bool:
        """Whether it has ended, waiting up to `within` seconds.

        Checks the exit status and not the pipes, which its own children may hold open.
        """
        deadline = asyncio.get_running_loop().time() + within
        while self._process.returncode is None:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    def last_words(self) -> str:
        """How it ended and what it last wrote to standard error, for messages."""
        code = self.returncode
        if code is None:
            how = "closed its output"
        elif code < 0:
            how = f"was ended by {_signal_name(-code)}"
        else:
            how = f"ended with exit status {code}"
        words = self.tail.text()
        return (
            f"{how}; it last wrote:\n{words}" if words else f"{how} and wrote nothing to its standard error"
        )

    async def settle(self) -> None:
        """Wait shortly for the exit status and the rest of standard error."""
        if await self.ended(1.0):
            await asyncio.wait({self._errors}, timeout=0.2)

    async def stop(self) -> None:
        """End it: close its input, then SIGTERM, then SIGKILL to the whole process group."""
        try:
            assert self._process.stdin is not None
            if self._process.stdout is not None and self._process.stdout.at_eof():
                await self.settle()
            self._ended_by_itself = self.returncode is not None
            self._process.stdin.close()
            await self.ended(_GRACE)
            if self._signal(signal.SIGTERM) and not await self._group_ended(_GRACE):
                self._signal(signal.SIGKILL)
            await self.ended(_GRACE)
        finally:
            self._release()

    def _release(self) -> None:
        """Kill what is left and close the pipes; without awaiting, so that it always completes."""
        if self._process.returncode is None:
            self._signal(signal.SIGKILL)
        self._errors.cancel()
        # The transport stays open while another process holds a pipe; there is no public way to close it.
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            with suppress(PermissionError, ProcessLookupError):
                transport.close()

    async def _group_ended(self, within: float) -> bool:
        deadline = asyncio.get_running_loop().time() + within
        while self._signal(0):
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    def _signal(self, number: int) -> bool:
        """Send a signal to the process group; False if it no longer exists."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(1 << 13):
            self.tail.feed(data)


def _why_not(server: StdioServer, env: Mapping[str, str]) -> tuple[str, str] | None:
    """Why a server cannot start, and a way out, as far as that can be checked beforehand."""
    if server.cwd is not None and not server.cwd.is_dir():
        return f"its working directory {server.cwd} does not exist", "correct `cwd`"
    if server.cwd is None and shutil.which(server.command, path=env.get("PATH")) is None:
        return "there is no such program", "install it, or give its whole path as the command"
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _cannot_start(name: str, command: str, reason: str, hint: str) -> CallsheetError:
    return CallsheetError.single(
        "TOL010", f"the MCP server {name!r} cannot be started with {command!r}: {reason}", help=hint
    )


_MAX_MESSAGE = 256 * 1024 * 1024
"""The largest message in bytes; a longer one is skipped, and answered with an error."""
_FLUSH = 0.5
IDEMPOTENCY_KEY = "dev.callsheet/idempotency-key"
"""The `_meta` field that carries a call's idempotency key to a server; documented in docs/tools.md."""
KEY_HEADER = "Idempotency-Key"
"""The header that carries it to a server at a URL, for gateways and proxies."""

logger = logging.getLogger(__name__)


def process_transport(process: ServerProcess, on_end: Callable[[], None]) -> Transport:
    """The transport over a process's standard streams; leaving it stops the process.

    `on_end` is called when the process closes its output or input.
    """
    return _process_streams(process, on_end)


@asynccontextmanager
async def _process_streams(process: ServerProcess, on_end: Callable[[], None]) -> AsyncGenerator[Any]:
    import anyio  # noqa: PLC0415 - comes with mcp, which is reached only now
    from mcp.shared.message import SessionMessage  # noqa: PLC0415

    arriving, received = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    sending, leaving = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        try:
            async with arriving:
                await _pump_in(process, arriving.send)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            logger.debug("the session of process %d closed first", process.pid)
        finally:
            on_end()

    async def write() -> None:
        try:
            async with leaving:
                async for message in leaving:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.write(text.encode() + b"\n")
        except OSError:
            on_end()

    reader, writer = asyncio.create_task(read()), asyncio.create_task(write())
    try:
        yield received, sending
    finally:
        received.close()
        sending.close()
        try:
            await asyncio.wait({writer}, timeout=_FLUSH)
            await process.stop()
        finally:
            reader.cancel()
            writer.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            for stream in (arriving, received, sending, leaving):
                stream.close()


async def _pump_in(process: ServerProcess, deliver: Callable[[SessionMessage | Exception], Any]) -> None:
    """Deliver the messages in the process's output, one per line, until it ends."""
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - see above
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415

    pieces: list[bytes] = []
    size = 0
    too_long: TooLong | None = None
    while data := await process.read():
        *lines, rest = data.split(b"\n")
        for line in lines:
            if too_long is not None:
                too_long.skip(line)
                answer = too_long.answer()
                if answer is None:
                    process.tail.line(too_long.words.encode())
                    return
                too_long = None
                await deliver(SessionMessage(answer))
                continue
            whole = b"".join([*pieces, line]) if pieces else line
            pieces, size = [], 0
            if not whole.strip():
                continue
            try:
                text = _as_utf8(whole)
                message = SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
                note_repeated_keys(text, message.message)
            except ValueError:
                process.tail.line(whole)  # not a message, but perhaps its last output
                unread = _unreadable_answer(whole)
                if unread is None:
                    continue
                message = SessionMessage(unread)
            await deliver(message)
        if too_long is None:
            pieces.append(rest)
            size += len(rest)
            if size > _MAX_MESSAGE:
                too_long = TooLong(b"".join(pieces[:8]), _MAX_MESSAGE)
                pieces, size = [], 0
        else:
            too_long.skip(rest)
        if too_long is not None and too_long.hopeless:
            process.tail.line(too_long.words.encode())
            return


_ANSWER = lazy.pattern(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,\s*"result"\s*:')


def _unreadable_answer(line: bytes) -> JSONRPCResponse | None:
    """An invalid result in place of a response that cannot be parsed (nested too deeply, huge numbers).

    The caller then learns at once that an answer came, but not what it was.
    """
    from mcp_types import JSONRPCResponse  # noqa: PLC0415 - see above

    match = _ANSWER.match(line)
    if match is None:
        return None
    return JSONRPCResponse(jsonrpc="2.0", id=int(match[1]), result={"content": "unreadable"})


def _as_utf8(line: bytes) -> bytes:
    """The line with U+FFFD in place of invalid UTF-8, so that a slightly damaged response is not lost."""
    try:
        line.decode()
    except UnicodeDecodeError:
        logger.warning("a message of an MCP server is not UTF-8 text; what is not has become U+FFFD")
        return line.decode("utf-8", "replace").encode()
    return line


def http_transport(
    server: HttpServer, on_refusal: Callable[[str], None], auth: httpx2.Auth | None = None
) -> Transport:
    """The transport to a URL, with the configured headers and `auth`'s token on every request.

    `on_refusal` is called with the status of each error response, which the SDK does not pass on.
    """
    return _sse_streams(server, auth) if server.sse else _http_streams(server, on_refusal, auth)


@asynccontextmanager
async def _http_streams(
    server: HttpServer, on_refusal: Callable[[str], None], auth: httpx2.Auth | None
) -> AsyncGenerator[Any]:
    import httpx2  # noqa: PLC0415 - comes with mcp, which is reached only now
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    async def look(response: httpx2.Response) -> None:
        bound_answer(response, _MAX_MESSAGE)
        examine_answer(response)
        if response.is_error:
            on_refusal(f"HTTP {response.status_code} {response.reason_phrase}".rstrip())

    # The connection enforces the time limit of a call; a response may stay open that long.
    limits = httpx2.Timeout(30.0, read=None)
    async with (
        httpx2.AsyncClient(
            headers=unpacked(server.headers),
            timeout=limits,
            auth=auth,
            event_hooks={"request": [_name_delivery], "response": [look]},
        ) as http,
        streamable_http_client(
            server.url, http_client=http, max_sse_event_size=_MAX_MESSAGE + (1 << 20)
        ) as streams,
    ):
        yield streams


async def _name_delivery(request: httpx2.Request) -> None:
    """Copy the idempotency key of the call that is being sent into a header."""
    if request.method != "POST":
        return
    key = _key_of(await request.aread())  # the body of a redirected request has not been read yet
    if key is not None:
        request.headers[KEY_HEADER] = key


def _key_of(body: bytes) -> str | None:
    """The idempotency key in the `_meta` of a request body, None if there is none."""
    if IDEMPOTENCY_KEY.encode() not in body:
        return None
    message: Any = json.loads(body)
    try:
        key: Any = message["params"]["_meta"][IDEMPOTENCY_KEY]
    except (KeyError, TypeError):
        return None  # the text occurs in unrelated data
    return key if isinstance(key, str) else None


@asynccontextmanager
async def _sse_streams(server: HttpServer, auth: httpx2.Auth | None) -> AsyncGenerator[Any]:
    from mcp.client.sse import sse_client  # noqa: PLC0415 - see above
    from mcp.shared._httpx_utils import create_mcp_http_client  # noqa: PLC0415 - as it does by itself

    def naming(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        client = create_mcp_http_client(headers, timeout, auth)
        client.event_hooks["request"].append(_name_delivery)
        client.event_hooks["response"].append(look)
        return client

    async def look(response: httpx2.Response) -> None:
        bound_answer(response, _MAX_MESSAGE)

    async with sse_client(
        server.url,
        headers=unpacked(server.headers),
        sse_read_timeout=3600.0,
        httpx_client_factory=naming,
        auth=auth,
    ) as streams:
        yield streams
