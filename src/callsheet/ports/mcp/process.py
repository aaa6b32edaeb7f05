"""A server as a child process: started in its own group, its last words kept, never left behind.

In: a command. Out: its streams and, once it has ended, its exit status and the end of what it
wrote on standard error. When this process dies, however, the child's standard input ends, which
is the signal to a server to end as well.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from callsheet.diagnostics import CallsheetError
from callsheet.ports.mcp.credentials import finder_for
from callsheet.ports.mcp.servers import StdioServer
from callsheet.sealing.finder import Finder
from callsheet.sealing.masking import mask_text

_INHERITED = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR",
    "APPDATA", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""What a server sees of our environment; everything else, secrets too, only by configuration."""

_GRACE = 2.0
"""Seconds between closing the input, SIGTERM and SIGKILL."""
_POLL = 0.01
_TAIL_LINES = 12
_TAIL_WIDTH = 400


class Tail:
    """The last lines of a stream, bounded whatever is written to it, without what `finder` finds."""

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
        """The lines kept, with the unfinished one."""
        rest = self._rest.decode("utf-8", "replace").strip()[:_TAIL_WIDTH]
        return mask_text("\n".join([*self._lines, *([rest] if rest else [])]), self._finder)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server: a few harmless variables of ours, and what is configured."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(given)


class ServerProcess:
    """A running server; `start` makes one, `stop` ends it and all that it started."""

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
        """Whether it had ended before it was told to."""
        return self._ended_by_itself

    async def read(self) -> bytes:
        """The next piece of what it writes; empty at the end."""
        assert self._process.stdout is not None
        return await self._process.stdout.read(1 << 16)

    async def write(self, data: bytes) -> None:
        """Send bytes; raises OSError if it does not read any more."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def ended(self, within: float) -> bool:
        """Whether it has ended, waiting up to `within` seconds.

        Looks at the exit status and not at its pipes, which its own children may hold open.
        """
        deadline = asyncio.get_running_loop().time() + within
        while self._process.returncode is None:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    def last_words(self) -> str:
        """How it ended and what it last wrote on standard error."""
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
        """Wait a moment for the exit status and the rest of standard error."""
        if await self.ended(1.0):
            await asyncio.wait({self._errors}, timeout=0.2)

    async def stop(self) -> None:
        """End it: close its input, then SIGTERM, then SIGKILL to its whole group."""
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
        """Kill what is left and let go of the pipes; without waiting, so that it always happens."""
        if self._process.returncode is None:
            self._signal(signal.SIGKILL)
        self._errors.cancel()
        # The transport stays open while a stranger holds a pipe's other end; nothing public closes it.
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
        """Send a signal to the group; whether there still was one."""
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
    """What keeps a server from starting, and the way out, as far as one can see before."""
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


def _cannot_start(name: str, command: str, reason: str, way_out: str) -> CallsheetError:
    return CallsheetError.single(
        "TOL010", f"the MCP server {name!r} cannot be started with {command!r}: {reason}", help=way_out
    )
