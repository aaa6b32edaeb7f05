"""Makes the kernel refuse writes to files from some moment on, for one process.

The process is a fork with a seccomp filter. Each of its system calls that could change a file waits until
this one has looked up the file; then it continues, or fails with the error of a broken disk (EIO), a file
system that became read-only (EROFS) or a quota (EDQUOT). So the library, SQLite and the kernel are the real
ones, and any single write can be the first that fails.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

_NO_NEW_PRIVILEGES, _FILTER, _NEW_LISTENER = 38, 1, 8
_ASK, _ALLOW = 0x7FC00000, 0x7FFF0000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_ASKED = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_GO_ON = 1
_HERE = -100
_CREATES, _WRITES = os.O_CREAT, os.O_WRONLY | os.O_RDWR


NOT_OFFERED = 77
"""The exit status of a program that needs what `is_offered` says is not there."""


class _Call(NamedTuple):
    """A system call that can change a file, and the position of its file argument."""

    name: str
    fd: int | None = None
    path: int | None = None
    flags: int | None = None
    """Of a call that opens."""


_CALLS = {
    "x86_64": (
        317,
        {
            1: _Call("write", fd=0),
            18: _Call("pwrite64", fd=0),
            20: _Call("writev", fd=0),
            74: _Call("fsync", fd=0),
            75: _Call("fdatasync", fd=0),
            77: _Call("ftruncate", fd=0),
            285: _Call("fallocate", fd=0),
            2: _Call("open", path=0, flags=1),
            257: _Call("open", path=1, flags=2),
            82: _Call("rename", path=1),
            83: _Call("mkdir", path=0),
            86: _Call("link", path=1),
            87: _Call("unlink", path=0),
            258: _Call("mkdir", path=1),
            263: _Call("unlink", path=1),
            264: _Call("rename", path=3),
            265: _Call("link", path=3),
            316: _Call("rename", path=3),
        },
    ),
    "aarch64": (
        277,
        {
            64: _Call("write", fd=0),
            68: _Call("pwrite64", fd=0),
            66: _Call("writev", fd=0),
            82: _Call("fsync", fd=0),
            83: _Call("fdatasync", fd=0),
            46: _Call("ftruncate", fd=0),
            47: _Call("fallocate", fd=0),
            56: _Call("open", path=1, flags=2),
            34: _Call("mkdir", path=1),
            35: _Call("unlink", path=1),
            37: _Call("link", path=3),
            38: _Call("rename", path=3),
            276: _Call("rename", path=3),
        },
    ),
}
_TAKES_ROOM = frozenset({"write", "pwrite64", "writev", "ftruncate", "fallocate", "mkdir", "link"})
_NOTHING_IF = {"mkdir": True, "unlink": False}
"""Calls that fail without a write where the file exists, or does not."""


class Fault(NamedTuple):
    """A disk fault: of the writes, counted from 0, `most` fail with `error`, starting with `first`."""

    error: int
    first: int
    most: int = 1 << 40

    def hits(self, number: int) -> bool:
        """Whether a write is among those that fail."""
        return self.first <= number < self.first + self.most


class Life(NamedTuple):
    """The end of a process: its wait status, and the number of writes that it tried."""

    status: int
    writes: int


def is_offered() -> bool:
    """Whether this system lets one process answer for the system calls of another."""
    return platform.machine() in _CALLS and _listens()


def live(work: Callable[[], int], files: Path, fault: Fault) -> Life:
    """Do work in a fork; its result is the exit status; writes to files with this prefix have a fault."""
    here, there = socket.socketpair()
    with here, there:
        pid = os.fork()
        if pid == 0:
            _be_born(work, there)
        there.close()
        _, (listener, *_), _, _ = socket.recv_fds(here, 1, 1)
        try:
            writes = _answer(pid, listener, os.path.realpath(files), fault)
        finally:
            os.close(listener)
        _, status = os.waitpid(pid, 0)
        return Life(status, writes)


def _listens() -> bool:
    """Whether a notifying filter is available: a fork requests one and reports."""
    pid = os.fork()
    if pid == 0:
        try:
            _listen()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _be_born(work: Callable[[], int], there: socket.socket) -> NoReturn:
    status = 99
    try:
        listener = _listen()
        socket.send_fds(there, [b"!"], [listener])
        os.close(listener)
        status = work()
    finally:
        os._exit(status)


def _listen() -> int:
    """Report the calls of this process at the returned descriptor from now on."""
    number, calls = _CALLS[platform.machine()]
    instructions = [(0x20, 0, 0, 0)]
    for at, call in enumerate(calls):
        instructions.append((0x15, len(calls) - at, 0, call))
    instructions += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _ASK)]
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    text = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    fd = libc.syscall(number, _FILTER, _NEW_LISTENER, program)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "no filter")
    return fd


def _answer(pid: int, listener: int, files: str, fault: Fault) -> int:
    """Answer the calls of a process until it ends; return the number of writes."""
    calls, writes = _CALLS[platform.machine()][1], 0
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    asked = bytearray(_ASKED.size)
    while True:
        ((_, happened),) = waiting.poll()
        if not happened & select.POLLIN:
            return writes
        asked[:] = bytes(_ASKED.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, asked)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue
            raise
        number, asker, _, called, _, _, *arguments = _ASKED.unpack(asked)
        answer = _ANSWER.pack(number, 0, 0, _GO_ON)
        if _is_a_write(calls[called], asker, arguments, files, fault.error):
            if fault.hits(writes):
                answer = _ANSWER.pack(number, 0, -fault.error, 0)
            writes += 1
        try:
            fcntl.ioctl(listener, _SEND, bytearray(answer))
        except OSError as error:
            if error.errno != errno.ENOENT:  # it was killed meanwhile
                raise


def _is_a_write(call: _Call, asker: int, arguments: list[int], files: str, error: int) -> bool:
    """Whether a call changes the files in a way that a disk with this error refuses."""
    try:
        if call.fd is not None:
            path = os.readlink(f"/proc/{asker}/fd/{arguments[call.fd]}")
        else:
            assert call.path is not None
            path = os.path.join(os.readlink(f"/proc/{asker}/cwd"), _text(asker, arguments[call.path]))
    except OSError:
        return False
    if not path.startswith(files) or (
        call.name in _NOTHING_IF and os.path.exists(path) is _NOTHING_IF[call.name]
    ):
        return False
    makes = False
    if call.flags is not None:
        flags = arguments[call.flags]
        makes = bool(flags & _CREATES) and not os.path.exists(path)
        if not makes and not (flags & _WRITES and error == errno.EROFS):
            return False
    return error != errno.EDQUOT or makes or call.name in _TAKES_ROOM


def _text(asker: int, address: int) -> str:
    """The zero-terminated text at an address of another process."""
    with open(f"/proc/{asker}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return os.fsdecode(memory.read(4096).partition(b"\0")[0])  # what is not there is not read
