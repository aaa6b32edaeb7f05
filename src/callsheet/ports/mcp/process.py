"""Runs a server as a child process in its own process group, and always stops it.

In: a command. Out: its streams and, once it has ended, its exit status and the end of its standard error.
If this process dies instead, the child's standard input is closed, which tells a server to end.
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
from callsheet.ports.mcp.servers import StdioServer, finder_for
from callsheet.sealing.masking import Finder, mask_text

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
