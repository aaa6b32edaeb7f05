"""How a fork is asked for, and a program that stands for one: it has its files, its signals and its end.

It imports nothing of the environment, so that to start it takes next to no time.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

LONGEST_JOB = 1 << 17
"""The bytes of a job: its arguments and its environment."""


def asked(
    name: str,
    words: Sequence[str],
    files: Sequence[int],
    *,
    folder: str,
    environment: Mapping[str, str],
    is_own_session: bool = False,
) -> socket.socket:
    """A connection that tells the number of the fork, and then its end; to close it kills the fork."""
    job = {
        "words": list(words),
        "folder": folder,
        "environment": dict(environment),
        "is_own_session": is_own_session,
    }
    told = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told.connect(f"\0{name}")
    socket.send_fds(told, [json.dumps(job).encode()], files)
    return told


def status_in(said: bytes) -> int:
    """The exit status as `subprocess` gives it."""
    return os.waitstatus_to_exitcode(int(said)) if said else -signal.SIGKILL


def _stand_for_fork(name: str, words: Sequence[str]) -> int:
    told = asked(name, words, (0, 1, 2), folder=os.getcwd(), environment=os.environ)
    process = int(told.recv(16))

    def forward(number: int, frame: FrameType | None) -> None:
        os.kill(process, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    return status_in(told.recv(16))


if __name__ == "__main__":
    status = _stand_for_fork(sys.argv[1], sys.argv[2:])
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
