"""Runs Python programs that touch nothing in the interpreter of pure code, rather than in the sandbox.

In: a program and the settings. Out: its result, or None where it belongs into the sandbox: it is not pure,
the interpreter is not installed, or the program failed there. Pure code changes nothing, so running it again
in the sandbox repeats nothing, and its failure is told as CPython tells it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from callsheet.frontends.pure_code import CodeRefused, is_pure
from callsheet.ir import JSON
from callsheet.ports.builtin.execute.jobs import Program
from callsheet.ports.builtin.settings import ExecutionSettings
from callsheet.ports.calls import ToolFailed

ISOLATION = "interpreter"
"""What the result of such a program names as its isolation."""


async def pure_result(program: Program, limits: ExecutionSettings, reads: Any) -> JSON:
    """The result of a program that is pure, None for one that has to run in the sandbox.

    Raises ToolFailed for one that runs longer than the settings allow.
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
        return {"stdout": outcome.printed, "stderr": "", "exit_code": 0, "isolation": ISOLATION}
    if isinstance(outcome, LimitReached) and outcome.limit is Limit.TIME:
        if seconds < limits.timeout:
            used = f"used more than {limits.cpu_seconds} seconds of processor time"
        else:
            used = f"ran longer than {seconds:g} seconds"
        raise ToolFailed(f"the program {used} and was ended")
    return None
