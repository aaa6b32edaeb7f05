"""Processes of Python that start in a moment: forks of one that has imported callsheet already.

To start Python and import the command line takes most of the time of a test that starts it. A process made
here is one like any other, with its own number, folder, environment, files and end; it has only not imported
for itself what all of them import. Tests of what is imported, and of programs that are not Python, start a
process by `subprocess`, as all do where no process can hand its files to another in this way.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import callsheet
from callsheet import lazy
from callsheet.sealing.credentials import Shapes

sys.path.insert(1, str(Path(__file__).parent.parent))
from tests import forking

NOT_IMPORTED = ("temporal", "__main__")
"""Parts of the names of modules that are left to those that need them: they start threads, or a program."""
OF_TESTS = [name for name in sys.modules if name.partition(".")[0] in ("tests", "scripts")]
"""What a fork has not imported, since it may have others of the names. (To look for them in each fork takes
longer than to make it: what is looked at has to be copied.)"""


class _Fork(subprocess.Popen[Any]):
    def _execute_child(self, args: Sequence[str | Path], *given: Any) -> None:
        _, before, _, pass_fds, cwd, env, _, _, _, *files = given
        words = [str(word) for word in args]
        if words[0] != sys.executable or pass_fds or before:
            raise ValueError(f"this can be no fork: {words}")
        standard = (files[0], files[3], files[5])
        self._told = forking.asked(
            _parent(),
            words[1:],
            [number if file == -1 else file for number, file in enumerate(standard)],
            folder=str(cwd or Path.cwd()),
            environment=os.environ if env is None else env,
            is_own_session=bool(files[11]),
        )
        self._close_pipe_fds(*files[:6])
        self.pid = int(self._told.recv(16))
        self._child_created = True

    def _ended(self, seconds: float | None) -> int | None:
        """The process's status, if it ends within this time."""
        if not select.select([self._told], [], [], seconds)[0]:
            return None
        with self._told:
            return forking.status_in(self._told.recv(16))

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._ended(0)
        return self.returncode

    def _internal_poll(self, *given: Any, **more: Any) -> int | None:  # when the object is removed
        return self.poll() if self._child_created else None

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            self.returncode = self._ended(timeout)
            if self.returncode is None:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode


IS_POSSIBLE = sys.platform == "linux"
Popen = _Fork if IS_POSSIBLE else subprocess.Popen
"""`subprocess.Popen` of a command `[sys.executable, "-u", "-c" or "-m" or a script, …]`."""


def run(
    line: Sequence[str | Path], *, check: bool = False, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` of such a command."""
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(line, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(line, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def line(*words: str | Path) -> list[str]:
    """The command line of such a process for those that start it themselves, such as a client of a server."""
    given = [str(word) for word in words]
    stand_in = ["-I", "-S", forking.__file__, _parent()] if IS_POSSIBLE else []
    return [sys.executable, *stand_in, *given]


def server(*words: str | Path) -> dict[str, Any]:
    """The same as a client's configuration names it."""
    command, *arguments = line(*words)
    return {"command": command, "args": arguments}


_COMMAND = "import sys; sys.argv[0] = 'callsheet'; {}from callsheet.apps.cli.main import main; main()"


def programs(folder: Path, *, also_of_clients: bool = False) -> Path:
    """Make a folder for PATH, with `callsheet` and `python` as forks, and return it.

    With `also_of_clients` they also stand in what `callsheet gate install` writes for a client to start.
    """
    folder.mkdir(parents=True)
    python = folder / "python"
    here = f"sys.executable = {str(python)!r}; " if also_of_clients else ""
    for name, words in {"callsheet": ("-c", _COMMAND.format(here)), "python": ()}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(line(*words))} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@cache
def _parent() -> str:
    """The address of this test process's own parent of forks, which ends with it."""
    name = f"callsheet-forks-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{name}")
        listener.listen(64)
        number = listener.fileno()
        parent = subprocess.Popen(
            [sys.executable, __file__, str(number)], pass_fds=[number], stdin=subprocess.PIPE, cwd="/"
        )
    parent.returncode = 0  # it ends with its stdin, and nobody waits for it
    assert parent.stdin is not None
    atexit.register(parent.stdin.close)
    return name


# What follows runs in the parent of the forks, and in the forks.


def _serve(listener: socket.socket) -> dict[str, Any]:
    """Fork for each job; in the fork, return the job. Ends when the test process has ended.

    The end of a fork is told to whoever asked for it; it is killed if nobody waits any more.
    """
    awake, wake = os.pipe()
    for number in (awake, wake):
        os.set_blocking(number, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waits: dict[int, socket.socket] = {}
    while True:
        ready = select.select([listener, 0, awake, *waits.values()], [], [])[0]
        for fork, told in waits.items():
            if told in ready or 0 in ready:
                os.kill(fork, signal.SIGKILL)
        if 0 in ready:
            os._exit(0)
        if awake in ready:
            os.read(awake, 4096)
            _tell_ends(waits)
        if listener not in ready:
            continue
        told, _ = listener.accept()
        said, files, _, _ = socket.recv_fds(told, forking.LONGEST_JOB, 3)
        fork = os.fork() if said else -1
        if fork == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _stand(files, [awake, wake, *(each.detach() for each in (listener, told, *waits.values()))])
            return json.loads(said)
        if fork > 0:
            waits[fork] = told
            with contextlib.suppress(OSError):
                told.send(str(fork).encode())
        for number in files:
            os.close(number)


def _tell_ends(waits: dict[int, socket.socket]) -> None:
    """Tell the ends of the forks that have ended, and forget them."""
    while waits:
        fork, status = os.waitpid(-1, os.WNOHANG)
        if not fork:
            return
        with waits.pop(fork) as told, contextlib.suppress(OSError):
            told.send(str(status).encode())


def _stand(files: Sequence[int], others: Sequence[int]) -> None:
    """Have these standard files and no others."""
    copies = [os.dup(number) for number in files]
    for number, copy in enumerate(copies):
        os.dup2(copy, number)
    os.closerange(3, max(*files, *copies, *others) + 16)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False)),
            errors=errors,
            line_buffering=number == 2 or os.isatty(number),
        )
        for number, errors in ((1, "strict"), (2, "backslashreplace"))
    )
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr


def _become(job: dict[str, Any]) -> None:
    """Be the process that the job describes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if job["is_own_session"]:
        os.setsid()
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    time.tzset()
    words = job["words"]
    if words[0] == "-u":
        sys.stdout.reconfigure(line_buffering=True)
        words = words[1:]
    kind, *arguments = words
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["", *paths, *(path for path in sys.path[2:] if path not in paths)]
    for name in OF_TESTS:
        sys.modules.pop(name, None)
    sys.modules["__main__"] = program = types.ModuleType("__main__")
    if kind == "-m":
        sys.argv, sys.path[0] = arguments, job["folder"]
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *arguments[1:]]
        exec(compile(arguments[0], "<string>", "exec"), program.__dict__)
    elif kind.startswith("-"):
        raise SystemExit(f"{kind} is no option of a fork")
    else:
        sys.argv, sys.path[0] = [kind, *arguments], str(Path(kind).resolve().parent)
        program.__dict__["__file__"] = kind
        exec(compile(Path(kind).read_bytes(), kind, "exec"), program.__dict__)


def _status(job: dict[str, Any]) -> int:
    """Run the program of the job and return the status that Python ends with."""
    try:
        _become(job)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(status: int) -> None:
    """End as Python does, but leave the memory to the system: to clear it up takes longer than all else."""
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        for file in filter(None, (sys.stdout, sys.stderr)):
            file.flush()
    except OSError:
        status = 120
    os._exit(status & 255)


def _make_what_is_made_at_first_use() -> None:
    """Patterns and methods of dataclasses: the same in each process, and half of the time of a command."""
    for each in gc.get_objects():
        if isinstance(each, lazy._Pattern):
            _ = each.match
        elif isinstance(each, lazy._Rest):
            _ = each.owner.__init__, each.owner.__eq__, each.owner.__repr__
    shapes = Shapes()
    text = "password=xxxxxxxxxxxxxxxx"
    _ = shapes.may_be_in(text.encode()), [*shapes.found_in(text)], shapes.names_a_secret("password", text)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in pkgutil.walk_packages(callsheet.__path__, "callsheet."):
        if not any(part in module.name for part in NOT_IMPORTED):
            importlib.import_module(module.name)
    _make_what_is_made_at_first_use()
    gc.collect()
    gc.freeze()
    _end(_status(_serve(socket.socket(fileno=int(sys.argv[1])))))
