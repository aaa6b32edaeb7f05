"""Runs a callsheet command in a fork of this process, which has imported everything already.

A new interpreter costs half a second per command, a fork 0.02 s, and the command does the same from its first
line on. So a sweep of a thousand kills takes minutes.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from subprocess import TimeoutExpired
from typing import NoReturn

_TICK = 0.0005
_MODULES = ("run", "resume", "event_loop", "outcome")


class Forked:
    """A forked child with the few methods of `subprocess.Popen` that a sweep uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it lives."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        """The exit status; raises TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutExpired("callsheet", timeout)
            time.sleep(_TICK)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal; one that has ended gets none."""
        if self.poll() is None:
            os.kill(self.pid, number)


def fork_command(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> Forked:
    """Start `callsheet ARGUMENTS` in a fork, in a session of its own, with its output in `folder`."""
    _import_all()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _become(arguments, folder, env)
    return Forked(pid)


@cache
def _import_all() -> None:
    for name in _MODULES:
        importlib.import_module(f"callsheet.apps.cli.{name}")
    for name in ("apps.toolbox", "runtime.runs", "api.requirements", "ports.python_tools.load", "store"):
        importlib.import_module(f"callsheet.{name}")


def _become(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> NoReturn:
    """The whole life of the forked process."""
    status = 1
    try:
        os.setsid()
        for number, name, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, str(folder / "stdout"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (2, str(folder / "stderr"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            opened = os.open(name, flags, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        os.environ.update(env)
        sys.argv = ["callsheet", *arguments]
        status = _status_of(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _status_of(arguments: Sequence[str]) -> int:
    from callsheet.apps.cli.main import main  # noqa: PLC0415 - only in the child

    try:
        main(list(arguments))
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 1
    return 0
