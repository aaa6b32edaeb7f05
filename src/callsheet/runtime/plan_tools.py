"""What plans of version 2 ask for beside tools: the time, and pure Python code."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, assert_never, cast
from weakref import finalize

from callsheet.machine.tree.wire import tagged, untagged
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Handler

CLOCK = "callsheet.clock"
COMPUTE = "callsheet.compute"


def plan_tool(tool: str, owner: object) -> Handler:
    """The handler of one of these; what it opens is closed with its owner."""
    if tool == CLOCK:
        return _clock
    from callsheet.ports.python_code import (  # noqa: PLC0415 - the extra `python`, only where a plan computes
        LimitReached,
        NotUnderstood,
        Outputs,
        PythonCode,
        Raised,
        WorkerDied,
    )

    code = PythonCode()
    finalize(owner, code.close)

    async def compute(args: Mapping[str, Any], context: CallContext) -> Any:
        inputs = {name: untagged(value) for name, value in cast("dict[str, Any]", args["inputs"]).items()}
        outcome = await code.compute_async(args["source"], inputs, args["outputs"])
        match outcome:
            case Outputs(values=values):
                return {name: tagged(value) for name, value in values.items()}
            case Raised():
                raise ToolFailed(f"{outcome.kind}: {outcome.message}")
            case LimitReached():
                raise ToolFailed(f"LimitError: {outcome.message}")
            case NotUnderstood() | WorkerDied():
                raise ToolFailed(outcome.message)
        assert_never(outcome)

    return compute


async def _clock(_: Mapping[str, Any], context: CallContext) -> Any:
    return datetime.now(UTC).isoformat()
