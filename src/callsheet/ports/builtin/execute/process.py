"""Runs a job through the launcher: feeds its input, collects its output, kills it after its time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.machine import Cut, Fact, Remark

_LAUNCHER = Path(__file__).with_name("launcher.py")
_GRACE = 2.0
_OUTPUTS = ((1, "stdout"), (2, "stderr"))


class Finished(NamedTuple):
    """How a program ended. `failure` is the launcher's reason if the program was never started.

    `remarks` say which output was cut or is not valid text.
    """

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    failure: str | None
    remarks: tuple[Remark, ...] = ()


class _Collector(asyncio.SubprocessProtocol):
    """Keeps the first bytes of each output, counts the rest, and signals the end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffers = {1: bytearray(), 2: bytearray()}
        self._cut = {1: 0, 2: 0}
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        taken = data[: self._most - len(self._buffers[fd])]
        self._buffers[fd] += taken
        self._cut[fd] += len(data) - len(taken)

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def remarks(self) -> tuple[Remark, ...]:
        """Remarks on outputs that were cut or are not UTF-8."""
        return tuple(remark for fd, name in _OUTPUTS if (remark := self._remark(fd, name)) is not None)

    def _remark(self, fd: int, name: str) -> Remark | None:
        limit = self._buffers[fd]
        if self._cut[fd]:
            return Cut(name, len(limit), len(limit) + self._cut[fd], "bytes")
        try:
            limit.decode()
        except UnicodeDecodeError as error:
            return Fact("not UTF-8", f"{name}, from byte {error.start} on; invalid bytes are shown as U+FFFD")
        return None

    def text(self, fd: int) -> str:
        text = self._buffers[fd].decode(errors="replace")
        return f"{text}\n[{self._cut[fd]} more bytes of output were cut]" if self._cut[fd] else text


async def run_job(job: dict[str, Any], stdin: str, seconds: float, most_output: int) -> Finished:
    """Run a job to its end, or for at most `seconds`; its processes are killed before this returns."""
    text = json.dumps(job).encode()
    feed = b"%d\n%b%b" % (len(text), text, stdin.encode(errors="replace"))
    read_end, write_end = os.pipe()
    try:
        command = [sys.executable, "-I", "-S", str(_LAUNCHER), str(write_end)]
        try:
            finished, collector, timed_out = await _watch(
                command, feed, seconds, most_output, pass_fds=(write_end,), env={}
            )
        finally:
            os.close(write_end)
        os.set_blocking(read_end, False)
        try:
            message = os.read(read_end, 4096).decode()
        except BlockingIOError:
            message = ""  # a process that left the group still holds the other end
    finally:
        os.close(read_end)
    if message == "started" or timed_out:
        return _finished(collector, finished, timed_out)
    reason = message.removeprefix("failed: ") or collector.text(2).strip() or "the launcher ended early"
    return Finished("", "", finished, timed_out, reason)


async def run_on_host(command: str, seconds: float, most_output: int) -> Finished:
    """Run a shell command with the environment and the rights of this process, for at most `seconds`."""
    code, collector, timed_out = await _watch(["/bin/sh", "-c", command], b"", seconds, most_output)
    return _finished(collector, code, timed_out)


def _finished(collector: _Collector, code: int, timed_out: bool) -> Finished:
    return Finished(collector.text(1), collector.text(2), code, timed_out, None, collector.remarks())


async def _watch(
    command: list[str], feed: bytes, seconds: float, most_output: int, **options: Any
) -> tuple[int, _Collector, bool]:
    """Start a process in a new session and wait for it; its process group is killed in any case."""
    loop = asyncio.get_running_loop()
    transport, collector = await loop.subprocess_exec(
        lambda: _Collector(most_output), *command, start_new_session=True, **options
    )
    timed_out = False
    try:
        stdin: Any = transport.get_pipe_transport(0)
        stdin.write(feed)
        stdin.close()
        try:
            async with asyncio.timeout(seconds):
                await collector.exited.wait()
        except TimeoutError:
            timed_out = True
    finally:
        _end_group(transport.get_pid())
        await _settle(collector, transport)
    code = transport.get_returncode()
    return (-1 if code is None else code), collector, timed_out


async def _settle(collector: _Collector, transport: asyncio.SubprocessTransport) -> None:
    """Wait shortly for the process and its outputs to end; an output that is still held open is abandoned."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await collector.exited.wait()
            await collector.closed.wait()
    transport.close()


def _end_group(process: int) -> None:
    """Kill the launcher and every descendant that is still in its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
