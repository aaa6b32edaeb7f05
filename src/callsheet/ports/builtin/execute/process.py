"""Runs a program through the launcher, in the best isolation available, and installs packages for programs.

Pure Python is run by the interpreter of pure code, all else in a sandbox if there is one.

Only wheels from the configured index are accepted: no URLs, paths or options, and no source packages, whose
installation would run code outside the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.frontends.pure_code import CodeRefused, is_pure
from callsheet.ir import JSON
from callsheet.machine import Cut, Fact, Remark
from callsheet.ports.builtin.execute.jobs import (
    Mounts,
    Program,
    find_program,
    limited_job,
    mounts_of,
    sandbox_job,
)
from callsheet.ports.builtin.settings import BuiltinSettings, ExecutionSettings
from callsheet.ports.calls import CallContext, ToolFailed

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


async def execute(
    settings: BuiltinSettings, language: str, code: str, stdin: str, reads: Any, context: CallContext
) -> JSON:
    """The output of a program; raises ToolFailed, with the output in its text, if the program failed.

    `reads` are the files of the workspace that the call declares, None if it declares none.
    """
    program = find_program(language, code)
    pure = await _pure_result(program, settings.execution, reads)
    if pure is not None:
        return pure
    mounts = mounts_of(settings, program.language, code, reads, context.files)
    finished, kind = await _run(program, settings, stdin, mounts)
    context.remark(*finished.remarks)
    if kind == "limits" and reads is not None:
        context.remark(Fact("reads", "not enforced: without a sandbox the program saw all your files"))
    _raise_failure(finished, settings.execution)
    return {
        "stdout": finished.stdout,
        "stderr": finished.stderr,
        "exit_code": finished.exit_code,
        "isolation": kind,
    }


async def _pure_result(program: Program, limits: ExecutionSettings, reads: Any) -> JSON:
    """The result of a program that touches nothing, from the interpreter of pure code.

    None for one that belongs into the sandbox: it is not pure, the interpreter is not installed, or the
    program failed there. Pure code changes nothing, so running it again in the sandbox repeats nothing, and
    its failure is told as CPython tells it. Raises ToolFailed for one that runs longer than the settings
    allow.
    """
    if program.language != "python" or reads or find_spec("pydantic_monty") is None:
        return None
    if not is_pure(program.code):
        return None
    from callsheet.ports.python_code import CodeLimits, LimitReached, Outputs, PythonCode  # noqa: PLC0415
    from callsheet.ports.python_code.interpreter import Limit  # noqa: PLC0415

    seconds = min(limits.timeout, float(limits.cpu_seconds))
    allowed = CodeLimits(memory=limits.memory_bytes, seconds=seconds, printed=limits.output_bytes)
    with PythonCode(allowed, workers=1) as code:
        try:
            outcome = await code.compute_async(program.code, {}, [])
        except CodeRefused:
            return None
    if isinstance(outcome, Outputs):
        return {"stdout": outcome.printed, "stderr": "", "exit_code": 0, "isolation": "interpreter"}
    if isinstance(outcome, LimitReached) and outcome.limit is Limit.TIME:
        if seconds < limits.timeout:
            used = f"used more than {limits.cpu_seconds} seconds of processor time"
        else:
            used = f"ran longer than {seconds:g} seconds"
        raise ToolFailed(f"the program {used} and was ended")
    return None


async def _run(
    program: Program, settings: BuiltinSettings, stdin: str, mounts: Mounts
) -> tuple[Finished, str]:
    """Run a program in the best isolation available; raises ToolFailed if the settings require more.

    Returns how it ended and what isolated it. If the sandbox could not be built, the program has not started,
    so running it without one is not a repetition.
    """
    execution = settings.execution
    reason = f"{sys.platform} has no namespaces"
    with tempfile.TemporaryDirectory(prefix="callsheet-", ignore_cleanup_errors=True) as folder:
        if sys.platform == "linux":
            job = sandbox_job(program, settings, folder, mounts)
            finished = await run_job(job, stdin, execution.timeout, execution.output_bytes)
            if finished.failure is None:
                return finished, "namespaces"
            reason = finished.failure
        if execution.require == "sandbox":
            raise ToolFailed(
                f"there is no sandbox for code here (TOL102): {reason}. "
                'Setting require = "best-effort" runs code with limits alone'
            )
        job = limited_job(program, settings, folder, mounts)
        finished = await run_job(job, stdin, execution.timeout, execution.output_bytes)
    if finished.failure is not None:
        raise ToolFailed(f"the program could not be started: {finished.failure}")
    return finished, "limits"


def _raise_failure(finished: Finished, limits: ExecutionSettings) -> None:
    """Raise ToolFailed with the program's output if it timed out or its exit code is not 0."""
    if not finished.timed_out and finished.exit_code == 0:
        return
    if finished.timed_out:
        why = f"the program ran longer than {limits.timeout:g} seconds and was ended"
    else:
        why = _ending(finished.exit_code, limits)
    summary = "\n".join(text.strip() for text in (finished.stdout, finished.stderr) if text.strip())
    raise ToolFailed(f"{summary}\n{why}" if summary else why)


def _ending(code: int, limits: ExecutionSettings) -> str:
    """Describes an exit code; a signal is negative, or over 128 if the sandbox's launcher passed it on."""
    number = -code if code < 0 else code - 128
    if number == signal.SIGXCPU:
        return f"the program used more than {limits.cpu_seconds} seconds of processor time and was ended"
    if number == signal.SIGKILL:
        return "the program was killed, possibly for its use of memory or processor time"
    if number in {known.value for known in signal.Signals}:
        return f"the program was ended by {signal.Signals(number).name}"
    return f"the program ended with exit code {code}"


_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
    r"(?:\[[A-Za-z0-9._-]{1,50}(?:,[A-Za-z0-9._-]{1,50}){0,9}\])?"
    r"(?:(?:==|>=|<=|!=|~=|<|>)[A-Za-z0-9.*+!_-]{1,50}(?:,(?:==|>=|<=|!=|~=|<|>)[A-Za-z0-9.*+!_-]{1,50}){0,5})?"
)
_KEPT_VARIABLES = re.compile(
    r"(?:PIP|UV)_\w+|(?:https?|no|all)_proxy|SSL_CERT_(?:FILE|DIR)|PATH|HOME|LANG", re.IGNORECASE
)
_MAX_PACKAGES = 50
_MAX_SAID = 2_000


def requirement(text: str) -> str:
    """A requirement with its blanks removed: a package name, extras, versions. Raises ToolFailed otherwise.

    >>> requirement("numpy >= 2")
    'numpy>=2'
    """
    plain = "".join(text.split())
    if not _REQUIREMENT.fullmatch(plain):
        raise ToolFailed(f"{text!r} is not the name of a package, with or without a version")
    return plain


async def install_packages(settings: BuiltinSettings, wanted: Sequence[str]) -> str:
    """Install packages for this namespace; raises ToolFailed if that is not allowed or fails."""
    if not settings.execution.allow_install:
        raise ToolFailed(
            "installing packages is not allowed (TOL104): allow_install in the configuration permits it"
        )
    if len(wanted) > _MAX_PACKAGES:
        raise ToolFailed(f"more than {_MAX_PACKAGES} packages at once")
    names = [requirement(name) for name in wanted]
    command = [
        *_installer(),
        "--target",
        str(settings.packages),
        "--upgrade",
        "--only-binary",
        ":all:",
        "--",
        *names,
    ]
    settings.packages.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if _KEPT_VARIABLES.fullmatch(name)}
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(settings.execution.install_timeout):
            output, _ = await process.communicate()
    except TimeoutError:
        raise ToolFailed(
            f"installing took longer than {settings.execution.install_timeout:g} seconds"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        message = output.decode(errors="replace").strip()
        message = (
            message
            if len(message) <= _MAX_SAID
            else f"(the last {_MAX_SAID:,} characters) …{message[-_MAX_SAID:]}"
        )
        raise ToolFailed(f"{message}\n{', '.join(names)} could not be installed".strip())
    return f"installed {', '.join(names)}"


def _installer() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    raise ToolFailed("neither pip nor uv is installed here")
