"""What plans of version 2 ask for beside tools: the time, and pure Python code."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, assert_never, cast
from weakref import finalize

from callsheet.ir.operations import CLOCK
from callsheet.machine.tree.values import PRINTED, tagged, untagged
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Handler

if TYPE_CHECKING:
    from callsheet.ports.python_code import Outcome


def plan_tool(tool: str) -> Handler:
    """The handler of one of these; what it opens is closed when nobody has it any more."""
    if tool == CLOCK:
        return _clock
    from callsheet.ports.python_code import PythonCode  # noqa: PLC0415 - the extra `python`, where a plan computes

    code = PythonCode()

    async def compute(args: Mapping[str, Any], context: CallContext) -> Any:
        return outputs_of(await code.compute_async(*code_of(args), now=time_of(args)))

    finalize(compute, code.close)
    return compute


def code_of(args: Mapping[str, Any]) -> tuple[str, dict[str, Any], list[str]]:
    """The source, the inputs and the names of the outputs of a COMPUTE, from the arguments of its call."""
    inputs = cast("dict[str, Any]", args["inputs"])
    return args["source"], {name: untagged(value) for name, value in inputs.items()}, args["outputs"]


def time_of(args: Mapping[str, Any]) -> datetime | None:
    """The time that a COMPUTE is given, if it asks for it."""
    return datetime.fromisoformat(args["now"]) if "now" in args else None


def outputs_of(outcome: Outcome) -> dict[str, Any]:
    """The outputs of pure code as the value of its call. Raises ToolFailed with the kind of the exception."""
    from callsheet.ports.python_code import (  # noqa: PLC0415 - as above
        LimitReached,
        NotUnderstood,
        Outputs,
        Raised,
        WorkerDied,
    )

    match outcome:
        case Outputs(values=values, printed=printed):
            said = {PRINTED: printed.rstrip("\n")} if printed else {}
            return {**{name: tagged(value) for name, value in values.items()}, **said}
        case Raised():
            raise ToolFailed(f"{outcome.kind}: {outcome.message}")
        case LimitReached():
            raise ToolFailed(f"LimitError: {outcome.message}")
        case NotUnderstood() | WorkerDied():
            raise ToolFailed(outcome.message)
    assert_never(outcome)


async def _clock(_: Mapping[str, Any], context: CallContext) -> Any:
    return datetime.now(UTC).isoformat()
