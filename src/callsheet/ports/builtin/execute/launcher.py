"""Starts one program with resource limits and, if asked, in a sandbox; run as a script of its own.

Uses only the standard library and is started as `python -I -S launcher.py FD`. In: on standard input a
length, a line break, that many bytes of JSON (the job), then the program's own input. On descriptor FD it
writes one line: `started`, or `failed: REASON` if the program was never started. Its exit status is the
program's, or 128 + n if signal n ended the program.

The sandbox is a set of Linux namespaces: a file system of read-only folders and an empty scratch folder in
memory, no network, no view of other processes, no privileges and no way to gain any, and a filter on system
calls. It must leave nothing behind on the machine.

The filter is assembled here: libseccomp would have to be installed on the machine and its Python binding in
this interpreter, which reads no packages, for a list of this length.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from typing import Any, NoReturn

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH = 2
_SYS_MOUNT_SETATTR, _AT_RECURSIVE, _AT_FDCWD = 442, 0x8000, -100
_SET_DEATH_SIGNAL, _DROP_CAPABILITY, _SET_SECUREBITS, _NO_NEW_PRIVILEGES = 1, 24, 28, 38
_NOBODY = 65534
_DEVICES = ("null", "zero", "full", "random", "urandom")
_BYTES_PER_FILE = 8192
"""A file or folder in memory takes about 1 kB of the kernel's memory, which no limit on bytes counts."""

_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _THIRD = 0, 4, 16, 32
"""Where a filter finds the call's number, the architecture, the first and the third argument."""
_X32 = 0x40000000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_SET_SECCOMP, _FILTER = 22, 2
_NEW_NAMESPACES = 0x7E020000
_SAME_EVERYWHERE = (*range(425, 428), *range(428, 434), 442, 443)
"""io_uring; and the newer calls that mount file systems."""
_REFUSED = {
    "x86_64": frozenset(
        (101, 154, 155, 161, 163, 165, 166, 167, 168, 169, 172, 173, 175, 176, 179, 246, 248, 249, 250, 272)
    )
    | {298, 304, 308, 313, 320, 321, 323, *_SAME_EVERYWHERE},
    "aarch64": frozenset((39, 40, 41, 51, 60, 89, 97, 104, 105, 106, 117, 142, 217, 218, 219, 224, 225, 241))
    | {265, 268, 273, 280, 282, 294, *_SAME_EVERYWHERE},
}
"""Mounts, namespaces, modules, swap, ports, keys, tracing, bpf and performance counters: with namespaces and
without privileges they either fail anyway or only widen what the kernel has to get right.
"""
_ABSENT = {"x86_64": (29, 64, 68, 435), "aarch64": (186, 190, 194, 435)}
"""Memory of System V, which stays when its processes are killed for want of memory; and `clone3`, whose flags
a filter cannot see, so that the C library uses `clone` instead.
"""
_MACHINES = {"x86_64": (0xC000003E, 56, (41, 53)), "aarch64": (0xC00000B7, 220, (198, 199))}
"""The architecture, `clone`, and `socket` with `socketpair`."""


class _Failed(Exception):
    """A part of the sandbox cannot be set up; the text says which and why."""


class _Kernel:
    """The system calls that Python has no function for."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the C library; raises _Failed with the system's reason."""
        if getattr(self._libc, name)(*arguments) != 0:
            raise _Failed(f"{name}: {os.strerror(ctypes.get_errno())}")

    def mount(self, source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
        """Mount a file system, or bind-mount a path."""
        encoded = (None if text is None else os.fsencode(text) for text in (source, target, kind))
        options = None if data is None else data.encode()
        try:
            self.call("mount", *encoded, ctypes.c_ulong(flags), options)
        except _Failed as error:
            raise _Failed(f"{error} ({target})") from None

    def read_only(self, target: str) -> None:
        """Make a mount and all below it read-only, without set-user-id programs."""
        attributes = (ctypes.c_uint64 * 4)(_RDONLY | _NOSUID, 0, 0, 0)
        self.call(
            "syscall",
            ctypes.c_long(_SYS_MOUNT_SETATTR),
            ctypes.c_int(_AT_FDCWD),
            os.fsencode(target),
            ctypes.c_uint(_AT_RECURSIVE),
            attributes,
            ctypes.c_size_t(32),
        )

    def filter_calls(self, program: bytes) -> None:
        """Let a filter decide about the system calls of this process and all that it starts."""
        code = ctypes.create_string_buffer(program, len(program))
        reference = struct.pack("HP", len(program) // 8, ctypes.addressof(code))
        self.call("prctl", _SET_SECCOMP, ctypes.c_ulong(_FILTER), reference, 0, 0)

    def prctl(self, option: int, value: int = 0) -> None:
        """Set an attribute of this process."""
        self.call("prctl", option, ctypes.c_ulong(value), 0, 0, 0)


def main() -> NoReturn:
    """Read the job, run it, exit with the program's status."""
    status = int(sys.argv[1])
    os.set_inheritable(status, False)
    os.umask(0o022)
    job = _read_job()
    kernel = _Kernel()
    try:
        if sys.platform == "linux":
            kernel.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if job["sandbox"] is None:
            os.chdir(job["cwd"])
            _start(job, kernel, status)
        identity = _enter_namespaces(kernel, job["sandbox"]["network"])
        _leave_like(_fork_first(job, kernel, status, identity))
    except (_Failed, OSError) as error:
        _report(status, f"failed: {error}")
        os._exit(125)


def _read_job() -> dict[str, Any]:
    """The job, read without buffering so that the program's input stays in the pipe."""
    length = b""
    while not length.endswith(b"\n"):
        length += os.read(0, 1) or b"\n"
    text = b""
    while len(text) < int(length):
        text += os.read(0, int(length) - len(text))
    return json.loads(text)


def _report(status: int, line: str) -> None:
    os.write(status, line.encode(errors="replace")[:4000])


def _enter_namespaces(kernel: _Kernel, network: bool) -> int:
    """Enter new namespaces; returns the user id that the program will have in them.

    The user ids of a namespace have to be written from outside, by a helper process that stays there. If this
    process is root, the program becomes nobody, because root has no limit on processes.
    """
    user, group, parent = os.geteuid(), os.getegid(), os.getpid()
    ready, go = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(go)
        os.read(ready, 1)
        os._exit(_write_identities(parent, user, group))
    os.close(ready)
    spaces = _NEW_USER | _NEW_MOUNTS | _NEW_PIDS | _NEW_IPC | _NEW_UTS
    try:
        kernel.call("unshare", spaces if network else spaces | _NEW_NETWORK)
    finally:
        os.close(go)
        code = os.waitstatus_to_exitcode(os.waitpid(helper, 0)[1])
    if code not in (0, 1):
        raise _Failed("the user ids of the sandbox cannot be set")
    return _NOBODY if code == 1 else user


def _write_identities(process: int, user: int, group: int) -> int:
    """0 if the sandbox has this user alone, 1 if it has nobody as well, 2 if neither can be set."""
    if user == 0:
        maps = [f"0 0 1\n{_NOBODY} {_NOBODY} 1\n"] * 2
        if _write_maps(process, *maps):
            return 1
    try:
        with open(f"/proc/{process}/setgroups", "w") as file:
            file.write("deny")
    except OSError:
        pass
    return 0 if _write_maps(process, f"{user} {user} 1\n", f"{group} {group} 1\n") else 2


def _write_maps(process: int, users: str, groups: str) -> bool:
    try:
        for name, text in (("uid_map", users), ("gid_map", groups)):
            with open(f"/proc/{process}/{name}", "w") as file:
                file.write(text)
    except OSError:
        return False
    return True


def _fork_first(job: dict[str, Any], kernel: _Kernel, status: int, identity: int) -> int:
    """Run PID 1 of the sandbox, whose end kills all other processes in it; returns its exit status."""
    first = os.fork()
    if first:
        return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    try:
        kernel.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        _build_root(job, kernel, identity)
        program = os.fork()
        if program == 0:
            os.setsid()
            _drop_privileges(kernel, identity)
            _start(job, kernel, status)
        os.close(status)
        _leave_like(_wait_for(program))
    except (_Failed, OSError) as error:
        _report(status, f"failed: {error}")
    os._exit(125)


def _wait_for(program: int) -> int:
    """Reap child processes until the program itself has ended."""
    while True:
        ended, state = os.wait()
        if ended == program:
            return os.waitstatus_to_exitcode(state)


def _leave_like(code: int) -> NoReturn:
    os._exit(code if code >= 0 else 128 - code)


def _build_root(job: dict[str, Any], kernel: _Kernel, identity: int) -> None:
    """Build the sandbox's file system and make it the root."""
    sandbox = job["sandbox"]
    root = sandbox["mountpoint"]
    kernel.mount("none", "/", None, _RECURSIVE | _PRIVATE)
    kernel.mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "size=4m,nr_inodes=10000,mode=755")
    for path in sandbox["show"]:
        _show(path, root + path, kernel)
    if sandbox["workspace"]:
        _show(sandbox["workspace"], f"{root}/workspace", kernel)
    _add_devices(root, kernel)
    _add_accounts(root, identity)
    scratch = f"{root}/scratch"
    os.mkdir(scratch)
    files = max(sandbox["scratch_bytes"] // _BYTES_PER_FILE, 1_000)
    options = f"size={sandbox['scratch_bytes']},nr_inodes={files},mode=700"
    kernel.mount("tmpfs", scratch, "tmpfs", _NOSUID | _NODEV, options)
    if not os.path.lexists(f"{root}/tmp"):
        os.symlink("scratch", f"{root}/tmp")
    own = [scratch]
    for path, name in sandbox["shown"]:
        own += _folders_to(scratch, name)
        _show(path, f"{scratch}/{name}", kernel)
    _hide(sandbox["hidden"], f"{root}/workspace" if sandbox["workspace"] else scratch, root, kernel)
    place = root + job["argv"][-1]
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w", encoding="utf-8", errors="replace") as file:
        file.write(job["code"])
    if identity != os.geteuid():
        for path in (file.name, *own):
            os.chown(path, identity, identity)
    _enter_root(root, kernel)
    os.chdir(job["cwd"])


def _show(path: str, place: str, kernel: _Kernel) -> None:
    """Bind-mount a file or folder of the machine, read-only, at a place below the new root."""
    if os.path.lexists(place) or not os.path.lexists(path):
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), place)
        return
    if os.path.isdir(path):
        os.mkdir(place)
    else:
        open(place, "w").close()
    kernel.mount(path, place, None, _BIND | _RECURSIVE)
    kernel.read_only(place)


def _folders_to(base: str, name: str) -> list[str]:
    """Make the folders below a base that contain a file; returns those that were missing."""
    made: list[str] = []
    for part in os.path.dirname(name).split("/"):
        base = f"{base}/{part}"
        if part and not os.path.lexists(base):
            os.mkdir(base)
            made.append(base)
    return made


def _hide(names: list[str], base: str, root: str, kernel: _Kernel) -> None:
    """Cover files below a base with an empty one that nobody may read."""
    cover = f"{root}/hidden"
    if names:
        open(cover, "w").close()
        os.chmod(cover, 0)
    for name in names:
        kernel.mount(cover, f"{base}/{name}", None, _BIND)


def _add_devices(root: str, kernel: _Kernel) -> None:
    os.mkdir(f"{root}/dev")
    for name in _DEVICES:
        open(f"{root}/dev/{name}", "w").close()
        kernel.mount(f"/dev/{name}", f"{root}/dev/{name}", None, _BIND)
    os.mkdir(f"{root}/dev/shm")
    kernel.mount("tmpfs", f"{root}/dev/shm", "tmpfs", _NOSUID | _NODEV, "size=64m,nr_inodes=1000,mode=1777")
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    os.mkdir(f"{root}/proc")
    try:
        kernel.mount("proc", f"{root}/proc", "proc", _NOSUID | _NODEV | 8)
    except _Failed:
        return  # a container that masks parts of /proc forbids a new mount; programs can do without
    try:
        with open(f"{root}/proc/sys/user/max_user_namespaces", "w") as file:
            file.write("0")
    except OSError:
        pass  # a nested namespace would have no more rights than this one


def _add_accounts(root: str, identity: int) -> None:
    os.makedirs(f"{root}/etc", exist_ok=True)
    with open(f"{root}/etc/passwd", "w") as file:
        file.write(f"callsheet:x:{identity}:{identity}::/scratch:/bin/sh\n")
    with open(f"{root}/etc/group", "w") as file:
        file.write(f"callsheet:x:{identity}:\n")


def _enter_root(root: str, kernel: _Kernel) -> None:
    os.chdir(root)
    kernel.call("pivot_root", b".", b".")
    kernel.call("umount2", b".", _DETACH)
    kernel.mount("none", "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    os.chdir("/")


def _drop_privileges(kernel: _Kernel, identity: int) -> None:
    kernel.prctl(_SET_SECUREBITS, 3)
    for capability in range(64):
        try:
            kernel.prctl(_DROP_CAPABILITY, capability)
        except _Failed:
            break  # the previous one was the last that this kernel knows
    if identity != os.geteuid():
        os.setgroups([])
        os.setresgid(identity, identity, identity)
        os.setresuid(identity, identity, identity)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    kernel.call("capset", header, (ctypes.c_uint32 * 6)())


def _start(job: dict[str, Any], kernel: _Kernel, status: int) -> NoReturn:
    """Replace this process by the program. `started` is reported first: later failures are the program's."""
    if sys.platform == "linux":
        kernel.prctl(_NO_NEW_PRIVILEGES, 1)
    limits = job["limits"]
    memory = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    for name, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (memory, limits["memory_bytes"]),
        (resource.RLIMIT_NPROC, limits["processes"] + (_tasks_of_user() if job["sandbox"] is None else 0)),
    ):
        _limit(name, value)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    program = job["argv"]
    if not os.access(program[0], os.X_OK):
        raise _Failed(f"{program[0]} cannot be started")
    if job["sandbox"] is not None and (program_of_filter := _call_filter(os.uname().machine)):
        kernel.filter_calls(program_of_filter)
    _report(status, "started")
    os.execve(program[0], program, job["environment"])


def _call_filter(machine: str) -> bytes:
    """The program that refuses what no program needs and the namespaces do not confine; empty for a machine
    whose system calls are not known here.
    """
    if machine not in _MACHINES:
        return b""
    architecture, clone, sockets = _MACHINES[machine]

    def step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("HBBI", code, then, otherwise, value)

    def refuse(error: int) -> bytes:
        return step(_RETURN, _REFUSE | error)

    allow = step(_RETURN, _ALLOW)
    family = (
        step(_LOAD, _FIRST) + step(_IF_EQUAL, _UNIX, 5) + step(_IF_EQUAL, _INET, 4)
        + step(_IF_EQUAL, _INET6, 3) + step(_IF_EQUAL, _NETLINK, 0, 3) + step(_LOAD, _THIRD)
        + step(_IF_EQUAL, 0, 0, 1)
        + allow + refuse(_EAFNOSUPPORT)
    )  # fmt: skip
    parts = [
        step(_LOAD, _ARCHITECTURE),
        step(_IF_EQUAL, architecture, 1),
        refuse(_ENOSYS),
        step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        parts += [step(_IF_AT_LEAST, _X32, 0, 1), refuse(_ENOSYS)]
    for numbers, error in ((_REFUSED[machine], _EPERM), (_ABSENT[machine], _ENOSYS)):
        parts += [step(_IF_EQUAL, number, 0, 1) + refuse(error) for number in sorted(numbers)]
    of_clone = step(_LOAD, _FIRST) + step(_IF_ANY_BIT, _NEW_NAMESPACES, 0, 1) + refuse(_EPERM) + allow
    for number, block in ((clone, of_clone), *((number, family) for number in sockets)):
        parts += [step(_IF_EQUAL, number, 0, len(block) // 8), block]
    return b"".join((*parts, allow))


def _tasks_of_user() -> int:
    """How many threads this user already runs: outside a namespace they count towards the limit."""
    tasks = 0
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                tasks += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue  # ended in between
    return tasks or 1_000


def _limit(name: int, value: int) -> None:
    _, hard = resource.getrlimit(name)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    soft = value
    if name == resource.RLIMIT_CPU:
        value += 1  # the soft limit sends SIGXCPU, which is recognisable; SIGKILL follows a second later
    resource.setrlimit(name, (soft, min(value, hard) if hard != resource.RLIM_INFINITY else value))


if __name__ == "__main__":
    main()
