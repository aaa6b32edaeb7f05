"""Runs a program in the best isolation available, and describes how it failed.

Pure Python is run by the interpreter of pure code, all else in a sandbox if there is one.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from importlib.util import find_spec
from typing import Any

from callsheet.frontends.pure_code import CodeRefused, is_pure
from callsheet.ir import JSON
from callsheet.machine import Fact
from callsheet.ports.builtin.execute.jobs import Program, find_program, limited_job, sandbox_job
from callsheet.ports.builtin.execute.mounts import Mounts, mounts_of
from callsheet.ports.builtin.execute.process import Finished, run_job
from callsheet.ports.builtin.settings import BuiltinSettings, ExecutionSettings
from callsheet.ports.calls import CallContext, ToolFailed


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
    from callsheet.ports.python_code.outcomes import Limit  # noqa: PLC0415

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
