"""Manages the server of a model as a child process: started on demand, shared, ended with this process.

In: a model file and how to serve it. Out: an address on 127.0.0.1 with its key, or ServerFailed with the
process's last output. The port is chosen by the system.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import IO, Any

from callsheet.lazy import dataclass
from callsheet.ports.models.local.catalogue import LIBRARY
from callsheet.ports.models.prompts import Messages

BLOCK = 64
"""Tokens evaluated at once; the child process is started with the same number."""

Post = Callable[[str, Any], Awaitable[tuple[int, str]]]
"""Posts to a path of the server; returns the status and text of its response."""


def kept_tokens(tokens: Sequence[int], before: Sequence[int]) -> int:
    """How many tokens of a prompt can be reused from the previous one: whole blocks, and never all tokens.

    >>> kept_tokens(range(200), [*range(150), 7]), kept_tokens(range(128), range(128))
    (128, 64)
    """
    most = min(len(tokens) - 1, len(before))
    common = next((n for n in range(most) if tokens[n] != before[n]), most)
    return max(0, common) // BLOCK * BLOCK


async def cut_back(post: Post, messages: Messages, before: Sequence[int]) -> tuple[list[int], bool]:
    """Cut the server's cache back to whole blocks; `before` are the tokens of the previous prompt.

    Returns the tokens of the new prompt, and whether anything is reused. If the server does not return the
    tokens, nothing is reused; it will report errors in the conversation with the actual request.
    """
    tokens = await _tokens(post, messages)
    common = kept_tokens(tokens, before)
    if not common:
        return tokens, False
    departs = tokens[common] - 1 if tokens[common] else 1  # any token that differs from the actual one
    cut = {"prompt": [*tokens[:common], departs], "n_predict": 0, "cache_prompt": True}
    status, _ = await post("/completion", cut)
    return tokens, status < 400


async def _tokens(post: Post, messages: Messages) -> list[int]:
    status, text = await post("/apply-template", {"messages": messages})
    if status >= 400:
        return []
    request = {"content": json.loads(text)["prompt"], "add_special": True, "parse_special": True}
    status, text = await post("/tokenize", request)
    return [] if status >= 400 else list(json.loads(text)["tokens"])


_CHILD = Path(__file__).with_name("child.py")
_INHERITED = (
    "HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES", "SYSTEMROOT", "TEMP", "USERPROFILE",
)  # fmt: skip
"""The variables of our environment that the process inherits; none of them is a secret."""
_GRACE = 2.0
_LINES = 12
_WIDTH = 400
_GRAMMAR_TROUBLE = "llg error"
"""The text in the log that says that a Lark grammar was ignored; the response does not say so."""


class ServerFailed(Exception):
    """The server did not start; the text says why."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What to serve: a file, tokens of context, threads, seconds to start."""

    path: Path
    context: int
    threads: int
    start_timeout: float


@dataclass(slots=True)
class Running:
    """A started process: its address and key, its log, the tokens of its last prompt."""

    process: subprocess.Popen[bytes]
    address: str
    key: str
    log: Log
    read: list[int] = field(default_factory=list[int])


class Log:
    """The last lines of a process's log and the errors about grammars in it; filled by a thread."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._stream = stream
        self.dropped: list[str] = []
        self._reader = threading.Thread(target=self._read, name="log of a local model", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(ValueError, OSError):  # closed during a restart
            for raw in self._stream:
                line = raw[: _WIDTH * 4].decode("utf-8", "replace").rstrip()[:_WIDTH]
                if line:
                    self._lines.append(line)
                if _GRAMMAR_TROUBLE in line:
                    self.dropped.append(line.partition(_GRAMMAR_TROUBLE)[2].strip(": "))

    def close(self) -> None:
        """Wait for the end of the stream, and close it."""
        self._reader.join(_GRACE)
        with suppress(OSError):
            self._stream.close()

    def last_words(self) -> str:
        """The last lines."""
        return "\n".join(self._lines)


@dataclass(slots=True)
class Server:
    """A server, whether it runs or not; `ensure` starts it if needed.

    `turn` is held during a request: with one conversation at a time the prompt cache stays useful, and log
    messages can be assigned to a request.
    """

    serving: Serving
    turn: threading.Lock = field(default_factory=threading.Lock)
    _starting: threading.Lock = field(default_factory=threading.Lock)
    _running: Running | None = None

    def ensure(self) -> Running:
        """The running process, started if there is none; raises ServerFailed."""
        with self._starting:
            if self._running is not None and self._running.process.poll() is not None:
                self._drop()
            if self._running is None:
                self._running = _start(self.serving)
            return self._running

    @property
    def pid(self) -> int | None:
        """The process id of the running server, None if there is none."""
        return None if self._running is None else self._running.process.pid

    def how_it_ended(self) -> str | None:
        """How the process ended, with its last output; None while it runs."""
        running = self._running
        if running is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            running.process.wait(0.5)  # a connection breaks shortly before its process has exited
        return None if running.process.poll() is None else _end(running.process, running.log)

    def close(self) -> None:
        """End the process, if one runs."""
        with self._starting:
            self._drop()

    def _drop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            _stop(running.process)
            running.log.close()


_SERVERS: dict[tuple[Path, int], Server] = {}
_TABLE = threading.Lock()


def server_for(serving: Serving) -> Server:
    """The server for a file and a context, shared by everything in this process."""
    with _TABLE:
        if not _SERVERS:
            atexit.register(close_all)
        return _SERVERS.setdefault((serving.path, serving.context), Server(serving))


def close_all() -> None:
    """End every server of this process; the next call of a model restarts one."""
    with _TABLE:
        servers = list(_SERVERS.values())
    for server in servers:
        server.close()


def _start(serving: Serving) -> Running:
    process = subprocess.Popen(
        [sys.executable, "-P", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        start_new_session=True,  # Ctrl-C must not reach it; it ends with us
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    log = Log(process.stderr)
    key = secrets.token_urlsafe(24)
    asked = {
        "path": str(serving.path),
        "context": serving.context,
        "threads": serving.threads,
        "block": BLOCK,
        "key": key,
    }
    try:
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        address = _address(process, log, serving.start_timeout)
    except BaseException as error:
        _stop(process)
        log.close()
        if isinstance(error, OSError):
            raise ServerFailed(_end(process, log)) from error
        raise
    return Running(process, address, key, log)


def _address(process: subprocess.Popen[bytes], log: Log, timeout: float) -> str:
    """The address that the process reports; raises ServerFailed if it does not in time."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    stdout = process.stdout
    assert stdout is not None
    threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
    try:
        line = lines.get(timeout=timeout)
    except queue.Empty:
        raise ServerFailed(f"it was not ready within {timeout:g} s") from None
    if not line:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        time.sleep(0.05)  # for the log's reader
        raise ServerFailed(_end(process, log))
    return str(json.loads(line)["address"])


def _environment() -> dict[str, str]:
    """The environment of the process: a few variables of ours, and the path of the library."""
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    spec = importlib.util.find_spec(LIBRARY)
    if spec is not None and spec.origin is not None:
        env["PYTHONPATH"] = str(Path(spec.origin).parents[1])
    return env


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process by closing its input, then by force; closes its pipes except the log's."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(OSError):
        process.stdout.close()


def _end(process: subprocess.Popen[bytes], log: Log) -> str:
    """How a process ended, with the last lines of its log."""
    code = process.returncode
    how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
    words = log.last_words()
    return f"its process {how}" + (f"; it last wrote:\n{words}" if words else "")


MOST = 8
"""Small models do not get faster with more threads."""


def threads_now() -> int:
    """The number of idle cores, by the load of the last minute."""
    try:
        load = os.getloadavg()[0]
    except OSError:  # not available on some systems
        load = 0.0
    return free_threads(_cores(), load)


def free_threads(cores: int, load: float) -> int:
    """The cores that a load leaves idle: at least 1, at most 8.

    >>> free_threads(2, 0.1), free_threads(2, 1.4), free_threads(64, 3.0)
    (2, 1, 8)
    """
    return max(1, min(MOST, round(cores - load)))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
